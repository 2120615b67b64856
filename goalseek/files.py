"""Touching files safely: copying what an untrusted program wrote, and replacing a file whole.

Of what a program wrote only regular files are taken, never through a link. A file that is replaced has its old content
or the new, never a part.
"""

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
from goalseek.own_folders import create, open_folder, open_regular, own_folder, recreate_folder


class SizeExceeded(Exception):
    """The files together are larger than the limit."""


def regular_files(root: Path, is_wanted: Callable[[str], bool] | None = None) -> Iterator[str]:
    """Relative paths of the regular files below a folder, following no link; those too deep for a path are left out."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with open_folder(root / folder) as descriptor, os.scandir(descriptor) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
                modes = [entry.stat(follow_symlinks=False).st_mode for entry in entries]
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            continue
        for entry, mode in zip(entries, modes, strict=True):
            path = folder + entry.name
            if stat.S_ISDIR(mode):
                pending.append(path + "/")
            elif stat.S_ISREG(mode) and (is_wanted is None or is_wanted(path)):
                yield path


def copy_regular_files(
    source: Path, target: Path, is_wanted: Callable[[str], bool] | None, limit: int
) -> dict[str, os.stat_result]:
    """Copies regular files with their times from one folder into another; gives each path and its ``stat``.

    Raises TooMuch where they are more than ``limit`` bytes together.
    """
    copies: dict[str, os.stat_result] = {}
    total = 0
    for path in regular_files(source, is_wanted):
        try:
            descriptor = open_regular(source, path)
        except OSError:
            continue
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            status = os.fstat(file.fileno())
            total += status.st_size
            if total > limit:
                raise SizeExceeded(f"more than {limit} bytes of outputs")
            with open(create(target / path, 0o600), "wb") as copy:  # noqa: PTH123 - a descriptor
                shutil.copyfileobj(file, copy)
                copy.flush()
                os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode) | stat.S_IWUSR | stat.S_IRUSR)
                os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        copies[path] = status
    return copies


def copy_tree(source: Path, target: Path) -> None:
    """Copies a folder with its times and links, which build folders need, in place of whatever the target was.

    Raises FileNotFoundError or NotADirectoryError where the source is no folder, or is reached through a link.
    """
    with own_folder(source):
        recreate_folder(target)
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)


def refuse_records(path: Path, records: Path) -> None:
    """Raises GoalseekError where a file that is to be written is the records themselves."""
    if path.exists() and records.exists() and path.samefile(records):
        raise GoalseekError(f"-o {path}: these are the records themselves", "name another file")


@contextlib.contextmanager
def open_export(path: Path, option: str = "-o") -> Iterator[BinaryIO]:
    """Opens a file to be written whole: it appears at its path when the block ends, and not at all where that fails.

    What is no regular file, such as a pipe, is written directly. Raises GoalseekError at once where the file cannot be
    written; ``option`` is the option that named it.
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
    """Replaces a file and syncs it to disk: after a crash it has the old content or the new. Makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
