"""Files that a program left behind, taken without trusting it: regular files only, never through a link."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from goalseek.errors import GoalseekError
from goalseek.own_folders import create, make_anew, open_beneath, open_folder, own_folder


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


def refuse_records(path: Path, records: Path) -> None:
    """Raises GoalseekError where a file that is to be written is the records themselves."""
    if path.exists() and records.exists() and path.samefile(records):
        raise GoalseekError(f"-o {path}: these are the records themselves", "name another file")


@contextlib.contextmanager
def exported(path: Path, option: str = "-o") -> Iterator[BinaryIO]:
    """Gives the file, open to be written; it takes its place when the block ends, and is not there when it fails.

    What is no plain file, such as a pipe, is written as it comes. Raises GoalseekError at once where the file cannot
    be written.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise GoalseekError(f"{option} {path}: is a folder", "name a file in it")
    is_plain = target.is_file() or not target.exists()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new") if is_plain else target
    try:
        file = temporary.open("wb")
    except OSError as error:
        raise GoalseekError(f"{option} {path}: {error.strerror}", "name a file that can be written") from None
    try:
        with file:
            yield file
            file.flush()
            if is_plain:
                os.fsync(file.fileno())
        if is_plain:
            temporary.replace(target)
    except BaseException:
        if is_plain:
            temporary.unlink(missing_ok=True)
        raise


def write_durably(path: Path, content: bytes) -> None:
    """Replaces a file whole, its folder made if need be: after a crash it has the old content or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
