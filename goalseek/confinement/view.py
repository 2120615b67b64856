"""What a started program may see, whatever the means by which it is kept to that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SPARE_HOME = Path("/home/goalseek")


@dataclass(frozen=True)
class Shown:
    """A file or folder on disk, and the path it is to be seen at where the level can mount; both absolute."""

    source: Path
    at: Path
    writable: bool = False

    @classmethod
    def in_place(cls, path: Path, writable: bool = False) -> Shown:
        """Seen where it is."""
        return cls(path, path, writable)


@dataclass(frozen=True)
class View:
    """All that a program may see beside the system's own programs and libraries.

    ``home`` and ``temporary`` are throw-away folders, the second seen as /tmp. ``shown`` is the rest: shared folders,
    the run folder, credentials, what programs need. ``masked`` may not be seen even where it lies inside something
    that is shown; what is shown by name inside of it is. ``devices`` are paths below /dev. Unix sockets are in no view.
    ``terminal`` is for a shell that a person sits at.
    """

    tree: Shown
    home: Shown
    temporary: Shown
    shown: tuple[Shown, ...] = ()
    masked: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    network: bool = False
    terminal: bool = False

    def everything(self) -> tuple[Shown, ...]:
        """All that is shown, what counts most last."""
        return (self.home, self.temporary, self.tree, *self.shown)

    def seen_at(self, place: Path) -> Path:
        """Where a place on disk is seen once it is mounted; itself, where it is not inside anything shown."""
        holders = [shown for shown in self.everything() if place.is_relative_to(shown.source)]
        if not holders:
            return place
        closest = max(holders, key=lambda shown: len(shown.source.parts))
        return closest.at / place.relative_to(closest.source)


def throw_away_home(folder: Path, home: Path, top: Path, system: tuple[Path, ...]) -> Shown:
    """An empty folder in the place of the user's HOME, so that what is shown of it is found there.

    Not at its own path where that is the root, a tree of the system's, or the repository at ``top``.
    """
    is_own = len(home.parts) > 1 and not home.is_relative_to(top)
    is_systems = any(home.is_relative_to(path) or path.is_relative_to(home) for path in system)
    return Shown(folder, home if is_own and not is_systems else SPARE_HOME, writable=True)
