"""Files that a program left behind, taken without trusting it: regular files only, never through a link."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from goalseek.beneath import open_beneath


class TooMuch(Exception):
    """The files are larger than allowed."""


def regular_files(root: Path, is_wanted: Callable[[str], bool] | None = None) -> Iterator[str]:
    """Paths of the regular files below a folder, following no link."""
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(root / folder) as listing:
            for item in sorted(listing, key=lambda item: item.name):
                path = folder + item.name
                if item.is_dir(follow_symlinks=False):
                    pending.append(path + "/")
                elif stat.S_ISREG(item.stat(follow_symlinks=False).st_mode) and (is_wanted is None or is_wanted(path)):
                    yield path


def take(source: Path, target: Path, is_wanted: Callable[[str], bool] | None, most: int) -> dict[str, os.stat_result]:
    """Copies regular files with their times from one folder into another; gives their paths, and what each was.

    Raises TooMuch where they are more than ``most`` bytes together.
    """
    taken: dict[str, os.stat_result] = {}
    total = 0
    for path in regular_files(source, is_wanted):
        try:
            descriptor = open_beneath(source, path)
        except OSError:
            continue
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            found = os.fstat(file.fileno())
            total += found.st_size
            if total > most:
                raise TooMuch(f"more than {most} bytes of outputs")
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as copy:
                shutil.copyfileobj(file, copy)
        os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))
        place.chmod(stat.S_IMODE(found.st_mode) | stat.S_IWUSR | stat.S_IRUSR)
        taken[path] = found
    return taken


def copy_tree(source: Path, target: Path) -> None:
    """A copy with times and links as they are, as build folders need it."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
