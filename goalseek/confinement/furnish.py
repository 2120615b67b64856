"""A view made ready: fresh throw-away folders, and what every program of a project may see and may not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from goalseek.confinement.system import roots
from goalseek.confinement.view import Shown, View, throw_away_home
from goalseek.own_folders import make_anew

TEMPORARY = Path("/tmp")


def furnish(
    tree: Path,
    top: Path,
    scratch: Path,
    readable: Iterable[Path] = (),
    writable: Iterable[Path] = (),
    masked: Iterable[Path] = (),
    devices: Iterable[Path] = (),
    network: bool = False,
    terminal: bool = False,
    home: Path | None = None,
) -> View:
    """The view of a program that works in ``tree``, a place on disk, as if it were the repository at ``top``.

    ``scratch`` is a folder of goalseek's own: ``home`` and ``tmp`` are made anew in it; a ``home`` that is given is
    taken as it is. ``readable`` and ``writable``
    are seen where they are; the repository itself and ``masked`` are not. Where HOME is a folder of the system's that
    everybody may read, it is not seen either.
    """
    folders = (scratch / "home", scratch / "tmp")
    for folder in folders[1:] if home else folders:
        make_anew(folder)
    thrown_away = throw_away_home(home or folders[0], Path.home(), top, roots())
    inside_system = [Path.home()] if thrown_away.at != Path.home() and len(Path.home().parts) > 1 else []
    hidden = (*masked, top, *(place for place in inside_system if not top.is_relative_to(place)))
    return View(
        tree=Shown(tree, top, writable=True),
        home=thrown_away,
        temporary=Shown(folders[1], TEMPORARY, writable=True),
        shown=(
            *(Shown.in_place(path) for path in readable),
            *(Shown.in_place(path, writable=True) for path in writable),
        ),
        masked=tuple(dict.fromkeys(hidden)),
        devices=tuple(devices),
        network=network,
        terminal=terminal,
    )
