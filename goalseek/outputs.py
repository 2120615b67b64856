"""Files that a program left behind, taken without trusting it: regular files only, never through a link."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from goalseek.beneath import create, make_anew, open_beneath, open_folder, own_folder


class TooMuch(Exception):
    """The files are larger than allowed."""


def regular_files(root: Path, is_wanted: Callable[[str], bool] | None = None) -> Iterator[str]:
    """Paths of the regular files below a folder, following no link; not those deeper than a path can name."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with open_folder(root / folder) as descriptor, os.scandir(descriptor) as listing:
                items = sorted(listing, key=lambda item: item.name)
                kinds = [item.stat(follow_symlinks=False).st_mode for item in items]
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            continue
        for item, kind in zip(items, kinds, strict=True):
            path = folder + item.name
            if stat.S_ISDIR(kind):
                pending.append(path + "/")
            elif stat.S_ISREG(kind) and (is_wanted is None or is_wanted(path)):
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
            with open(create(target / path, 0o600), "wb") as copy:  # noqa: PTH123 - a descriptor
                shutil.copyfileobj(file, copy)
                copy.flush()
                os.fchmod(copy.fileno(), stat.S_IMODE(found.st_mode) | stat.S_IWUSR | stat.S_IRUSR)
                os.utime(copy.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))
        taken[path] = found
    return taken


def copy_tree(source: Path, target: Path) -> None:
    """A copy with times and links as they are, as build folders need it. Whatever stands in its way goes.

    Raises FileNotFoundError or NotADirectoryError where the source is no folder, or is reached through a link.
    """
    with own_folder(source):
        make_anew(target)
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
