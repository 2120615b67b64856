"""Files of a folder that somebody else wrote in: read and removed without following a link out of it."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
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
    """Removes a file, a link, or a whole folder, also one that somebody made read-only."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    try:
        _make_writable(path)
        shutil.rmtree(path)
    except (OSError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENAMETOOLONG, errno.EMFILE):
            raise
        _remove_deep(path)


def clear(root: Path) -> None:
    """Removes a folder of the tool's own, if it is there."""
    if root.is_symlink() or root.exists():
        remove(root)


def _make_writable(folder: Path) -> None:
    folder.chmod(0o700)
    for inner, folders, _ in os.walk(folder):
        for name in folders:
            place = Path(inner, name)
            if not place.is_symlink():
                place.chmod(0o700)


def _remove_deep(root: Path) -> None:
    """Removes a folder that no path reaches the end of: what lies in its folders is brought up until none is left."""
    fresh = (f"{os.urandom(8).hex()}{number}" for number in itertools.count())
    with open_folder(root) as top:
        while folders := _emptied(top):
            for name in folders:
                os.chmod(name, 0o700, dir_fd=top)
                with open_folder(name, top) as inner:
                    for deeper in _emptied(inner):
                        os.chmod(deeper, 0o700, dir_fd=inner)  # to move a folder is to write in it
                        os.rename(deeper, next(fresh), src_dir_fd=inner, dst_dir_fd=top)
                os.rmdir(name, dir_fd=top)
    root.rmdir()


def _emptied(descriptor: int) -> list[str]:
    """Removes the files of a folder; gives the names of its folders."""
    with os.scandir(descriptor) as listing:
        items = [(item.name, item.is_dir(follow_symlinks=False)) for item in listing]
    for name, is_folder in items:
        if not is_folder:
            os.unlink(name, dir_fd=descriptor)
    return [name for name, is_folder in items if is_folder]


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
