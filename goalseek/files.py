"""Touching files safely: copying what an untrusted program wrote, and replacing a file whole.

Of what a program wrote only regular files are taken, never through a link. A file that is replaced has its old content
or the new, never a part.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

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

    Raises SizeExceeded where they are more than ``limit`` bytes together.
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
                _copy(file, copy, stat.S_IWUSR | stat.S_IRUSR)
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
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    with contextlib.ExitStack() as stack:
        try:
            opened = open_atomic(target, durable=True, temporary=temporary) if is_plain else target.open("wb")
            file = stack.enter_context(opened)
        except OSError as error:
            raise GoalseekError(f"{option} {path}: {error.strerror}", "name a file that can be written") from None
        yield file


@contextlib.contextmanager
def open_atomic(
    path: Path, durable: bool = False, temporary: Path | None = None, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """Opens a file that takes the place of ``path`` when the block ends; where that fails, the old one stays.

    ``durable`` syncs it first: after a power cut it has the old content or the new. It is written as ``temporary``,
    by default the path with ".new" at its end, never through a link. Where the process is killed, that stays.
    """
    temporary = temporary or path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: bytes | str, durable: bool = False) -> None:
    """Replaces a file as ``open_atomic`` does. For a ``durable`` one its folder is made."""
    if durable:
        path.parent.mkdir(parents=True, exist_ok=True)
    with open_atomic(path, durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one where there is none that can be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def copy_atomic(source: Path, target: Path, durable: bool = False, temporary: Path | None = None) -> None:
    """Puts a copy of a file, with its mode and times, in the place of another."""
    with source.open("rb") as file, open_atomic(target, durable, temporary) as copy:
        _copy(file, copy, 0)


def sync(path: Path) -> None:
    """Syncs a file, or a folder's names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(file: BinaryIO, copy: BinaryIO, more_bits: int) -> None:
    """Copies content, times and mode; the copy's mode has ``more_bits``."""
    shutil.copyfileobj(file, copy)
    copy.flush()
    status = os.fstat(file.fileno())
    os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode) | more_bits)
    os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
