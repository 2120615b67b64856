"""Files of a folder that somebody else wrote in: read and removed without following a link out of it.

Where the folder is goalseek's own, what locks its owner out is unlocked on the way.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def read_regular(root: Path, path: str, is_ours: bool = True) -> bytes:
    """The bytes of a regular file below ``root``, reached through real folders only. Raises OSError otherwise."""
    descriptor = open_beneath(root, path, is_ours)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        return file.read()


def open_beneath(root: Path, path: str, is_ours: bool = True) -> int:
    """A descriptor of a regular file below ``root``, following no symbolic link. Raises OSError otherwise.

    What is not ``is_ours`` keeps its permissions.
    """
    opened = _unlocked if is_ours else _as_it_is
    folder = opened(root, _FOLDER)
    try:
        *above, name = path.split("/")
        for part in above:
            inner = opened(part, _FOLDER | os.O_NOFOLLOW, folder)
            os.close(folder)
            folder = inner
        descriptor = opened(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, folder)
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
    folder = _unlocked(root, _FOLDER)
    try:
        *above, name = path.split("/")
        for part in above:
            if not _is_folder(part, folder):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=folder)
                os.mkdir(part, dir_fd=folder)
            inner = _unlocked(part, _FOLDER | os.O_NOFOLLOW, folder)
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
    """A descriptor of a real folder of goalseek's own, whose owner may do everything in it from here on.

    ``below`` is the descriptor of the folder that a relative name is in. Raises OSError for a link.
    """
    descriptor = _unlocked(folder, _FOLDER | os.O_NOFOLLOW, below)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _as_it_is(name: str | Path, flags: int, below: int | None = None) -> int:
    return os.open(name, flags, dir_fd=below)


def _unlocked(name: str | Path, flags: int, below: int | None = None) -> int:
    """A descriptor of a file that its owner may read, or of a folder in which its owner may do everything."""
    try:
        descriptor = os.open(name, flags, dir_fd=below)
    except PermissionError:
        mode = os.stat(name, dir_fd=below, follow_symlinks=False).st_mode
        wanted = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR | stat.S_IWUSR
        os.chmod(name, stat.S_IMODE(mode) | wanted, dir_fd=below)
        return os.open(name, flags, dir_fd=below)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode) and ~mode & stat.S_IRWXU:
        with contextlib.suppress(PermissionError):  # somebody else's: what they allow may be enough
            os.fchmod(descriptor, stat.S_IMODE(mode) | stat.S_IRWXU)
    return descriptor
