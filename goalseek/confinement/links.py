"""Symbolic links on the way to a path: each must be there where the path is to be used by its name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_MOST = 40


@dataclass(frozen=True)
class Way:
    """The links met on the way to a path, as (place, target), and the real path at its end.

    ``names`` are the whole path as it reads after each link, itself first.
    """

    links: tuple[tuple[Path, str], ...]
    names: tuple[Path, ...]
    real: Path


def way_to(path: Path) -> Way:
    """Follows an absolute path link by link; ``real`` need not exist. Raises OSError for a loop."""
    links: list[tuple[Path, str]] = []
    names = [path]
    at, left = "", [part for part in str(path).split("/") if part not in ("", ".")]
    while left:
        part = left.pop(0)
        if part == "..":
            at = at.rpartition("/")[0]
            continue
        place = f"{at}/{part}"
        try:
            target = os.readlink(place)
        except OSError:
            at = place
            continue
        if len(links) == _MOST:
            raise OSError(f"too many links on the way to {path}")
        links.append((Path(place), target))
        if target.startswith("/"):
            at = ""
        left = [name for name in target.split("/") if name not in ("", ".")] + left
        names.append(Path(os.path.normpath("/".join((at, *left)) or "/")))
    real = Path(at or "/")
    return Way(tuple(dict.fromkeys(links)), tuple(dict.fromkeys((*names, real))), real)
