"""``scope.share``: what the shared folders held at the baseline, by path, size and time. A difference is only told.

They are looked at once for each start of goalseek, and never at more than ``LOOKED_AT_MOST`` files: a folder that is
not copied because it is large is not walked at every iteration either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goalseek.files import write_durably
from goalseek.git.paths import quote_path
from goalseek.humanize import few
from goalseek.values import from_plain, to_line
from goalseek.workspace.listing import Listing, differing, digest_of, list_folder

LOOKED_AT_MOST = 20_000


@dataclass(frozen=True)
class Known:
    """What the shared folders held when an epoch began."""

    epoch: int
    names: tuple[str, ...]
    files: Listing


class Shares:
    """The shared folders below ``base``; ``path`` is where goalseek keeps what they held."""

    def __init__(self, path: Path, base: Path) -> None:
        self._path = path
        self._base = base
        self._seen: tuple[tuple[str, ...], Listing] | None = None

    def digests(self, names: Sequence[str]) -> dict[str, str]:
        """What a record says of them."""
        return {"share": digest_of(self._files(names))} if names else {}

    def notes(self, names: Sequence[str], epoch: int) -> tuple[str, ...]:
        """What has come to differ since the epoch began, in words."""
        known = self._known()
        if not names or known is None or (known.epoch, known.names) != (epoch, tuple(names)):
            return ()
        changed = [quote_path(path) for path in differing(known.files, self._files(names))]
        return (f"shared files are not as at the baseline: {few(changed)}",) if changed else ()

    def remember(self, names: Sequence[str], epoch: int) -> None:
        """Keeps what they hold, where this epoch has nothing kept."""
        known = self._known() if names else None
        if names and (known is None or (known.epoch, known.names) != (epoch, tuple(names))):
            write_durably(self._path, to_line(Known(epoch, tuple(names), self._files(names))).encode() + b"\n")

    def is_whole(self, names: Sequence[str]) -> bool:
        """Whether every file of them is looked at."""
        return len(self._files(names)) < LOOKED_AT_MOST

    def _known(self) -> Known | None:
        try:
            return from_plain(Known, json.loads(self._path.read_text()))
        except (OSError, ValueError):
            return None

    def _files(self, names: Sequence[str]) -> Listing:
        if self._seen is None or self._seen[0] != tuple(names):
            self._seen = (tuple(names), _list(self._base, names))
        return self._seen[1]


def _list(base: Path, names: Sequence[str]) -> Listing:
    found: Listing = ()
    for name in names:
        try:
            listing = list_folder((base / name).resolve(), LOOKED_AT_MOST - len(found))
        except OSError:  # what cannot be listed cannot be used either, and the command says so
            continue
        found += tuple(replace(item, path=f"{name}/{item.path}") for item in listing)
    return found
