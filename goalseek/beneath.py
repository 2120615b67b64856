"""Files of a folder that somebody else wrote in: read and removed without following a link out of it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def read_regular(root: Path, path: str) -> bytes:
    """The bytes of a regular file below ``root``, reached through real folders only. Raises OSError otherwise."""
    descriptor = open_beneath(root, path)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        return file.read()


def open_beneath(root: Path, path: str) -> int:
    """A descriptor of a regular file below ``root``, following no symbolic link. Raises OSError otherwise."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        *above, name = path.split("/")
        for part in above:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor


def remove(path: Path) -> None:
    """Removes a file, a link, or a whole folder, also one that somebody made read-only, or deeper than a path goes."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    path.chmod(0o700)
    with open_folder(path) as descriptor:
        _empty(descriptor)
    path.rmdir()


def clear(root: Path) -> None:
    """Removes a folder of the tool's own, if it is there."""
    if root.is_symlink() or root.exists():
        remove(root)


def create(root: str | Path, path: str, mode: int) -> int:
    """A descriptor of a new file below a folder, for writing. Whatever stands in its way goes; no link is followed."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        *above, name = path.split("/")
        for part in above:
            if not _is_folder(part, folder):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=folder)
                os.mkdir(part, dir_fd=folder)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        if _is_folder(name, folder):
            with open_folder(name, folder) as inner:
                _empty(inner)
            os.rmdir(name, dir_fd=folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
    finally:
        os.close(folder)


def _empty(top: int) -> None:
    """Removes all that is in a folder. What lies deeper than two levels is moved up first: no depth is too much."""
    token, number = os.urandom(16).hex(), 0
    while names := os.listdir(top):
        for name in names:
            if not _is_folder(name, top):
                os.unlink(name, dir_fd=top)
                continue
            with open_folder(name, top) as inner:
                os.fchmod(inner, 0o700)
                for item in os.listdir(inner):
                    if not _is_folder(item, inner):
                        os.unlink(item, dir_fd=inner)
                        continue
                    os.chmod(item, 0o700, dir_fd=inner)  # who moves a folder has to be allowed to write in it
                    os.rename(item, f"{token}-{number}", src_dir_fd=inner, dst_dir_fd=top)
                    number += 1
            os.rmdir(name, dir_fd=top)


def _is_folder(name: str, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def open_folder(folder: str | Path, below: int | None = None) -> Iterator[int]:
    """A descriptor of a real folder, made readable first where somebody made it unreadable.

    ``below`` is the descriptor of the folder that a relative name is in. Raises OSError for a link.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        descriptor = os.open(folder, flags, dir_fd=below)
    except PermissionError:
        os.chmod(folder, 0o755, dir_fd=below)
        descriptor = os.open(folder, flags, dir_fd=below)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
