"""The only code that deletes: in goalseek's own folders, never outside of them, never through a link.

This is the whole list of what goalseek may ever delete in. Whoever holds one of these adds it by ``add_own``:

    <cache>/goalseek/<name>-<key>      trees, caches and scratch folders of this project; a name that nobody else makes
                                       (project.opening)
    <git common dir>/goalseek/<name>   lock, secret, objects.git, packs on their way; git leaves the name to us
                                       (git.repository)
    scratch in a git folder of ours    made beside git's own names (git.objects)
    logs and runs in log.home          the records of this climb (project.opening, project.config); a run folder that
                                       holds something of somebody else's is neither begun nor removed
                                       (ledger.artifacts, project.opening)
    a temporary folder                 made by this very process, or by one that died (git.as_user, sandbox.level)
    show --files FOLDER                was empty, or not there (cli.commands.show)

The list belongs to the process and only grows, so that who deletes needs only a path. A path that is not strictly
below a listed folder raises ForeignPath. From that folder down the path is opened part by part and follows no link, so
what is removed is in the folder itself. A listed folder may be reached through links of the user's (``~/.cache``):
these are resolved once, when it is added.

Elsewhere only single files by their exact names, and empty folders, are removed: a loose object that a
pack of ours holds (git.packing), a lock on a ref of ours (project.opening), the half-written file of this process
beside the one that it was to replace (files), the prompt of a call that was not made (loop.phases.plan), and what
a first run made around the logs before it was refused (project.opening). A file that is written anew takes an old one's
place by a rename, which follows no link.

Reading follows no link either. In goalseek's own folders, permissions that lock the owner out are lifted.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_OWN: dict[Path, Path] = {}
IfMissing = Literal["raise", "make", "clear"]


class ForeignPath(RuntimeError):
    """A path that goalseek must neither remove nor write at: a bug, which stops here."""


def add_own(*folders: Path) -> None:
    """Adds folders to goalseek's own, with all that is below them. They need not exist yet."""
    for folder in folders:
        _OWN[folder] = folder.resolve()


def remove(path: Path) -> None:
    """Removes a file, a link, or a whole folder, also a read-only one, or one deeper than the longest path.

    Raises FileNotFoundError, or NotADirectoryError where a link or a file is on the way, and ForeignPath.
    """
    with own_folder(path.parent) as folder:
        folder.remove(path.name)


def remove_if_exists(path: Path) -> None:
    """Removes a path as ``remove`` does, if it exists."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        remove(path)


def remove_own(path: Path) -> None:
    """Removes a folder of the list itself, if it exists; of a link, the link. Raises ForeignPath for any other."""
    if path not in _OWN:
        raise ForeignPath(f"{path} is none of goalseek's folders")
    with contextlib.suppress(FileNotFoundError):
        above = os.open(path.parent, _FOLDER)
        try:
            _remove(path.name, above)
        finally:
            os.close(above)


def empty(path: Path, except_name: str = "") -> None:
    """Removes the contents of a folder, if it exists, except one name."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), own_folder(path) as folder:
        folder.empty(except_name)


def recreate_folder(path: Path, mode: int = 0o777) -> None:
    """Makes a new, empty folder in place of whatever was at the path; no link is followed."""
    with own_folder(path.parent, "clear") as folder, folder.cleared(path.name) as (above, name):
        os.mkdir(name, mode, dir_fd=above)


def create(path: Path, mode: int) -> int:
    """A descriptor of a new file, for writing, in place of whatever was at the path; no link is followed."""
    with own_folder(path.parent, "clear") as folder:
        return folder.create(path.name, mode)


class OwnFolder:
    """A folder of goalseek's own, open as ``descriptor``. A path in it, "a/b", leads through real folders only.

    Raises ForeignPath for a path that is absolute or has empty parts, ``.`` or ``..``.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def remove(self, path: str) -> None:
        """Removes a file, a link or a whole folder. Raises FileNotFoundError, or NotADirectoryError on the way."""
        *above, name = split_path(path)
        with _open_inner(self.descriptor, above) as folder:
            _remove(name, folder)

    def remove_if_empty(self, path: str) -> None:
        """Removes a folder that nothing is in; anything else stays."""
        *above, name = split_path(path)
        with contextlib.suppress(OSError), _open_inner(self.descriptor, above) as folder:
            os.rmdir(name, dir_fd=folder)

    @contextlib.contextmanager
    def cleared(self, path: str) -> Iterator[tuple[int, str]]:
        """Removes whatever is at the path, and in place of folders on the way; gives its open folder and its name."""
        *above, name = split_path(path)
        with _open_inner(self.descriptor, above, "clear") as folder:
            with contextlib.suppress(FileNotFoundError):
                _remove(name, folder)
            yield folder, name

    def create(self, path: str, mode: int) -> int:
        """A descriptor of a new file, for writing, in place of whatever was at the path."""
        with self.cleared(path) as (folder, name):
            return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)

    def link(self, path: str, target: bytes | str) -> None:
        """Makes a symbolic link in place of whatever was at the path."""
        with self.cleared(path) as (folder, name):
            os.symlink(target, name, dir_fd=folder)

    def empty(self, except_name: str = "") -> None:
        """Removes its contents except one name."""
        for name in os.listdir(self.descriptor):
            if name != except_name:
                _remove(name, self.descriptor)


@contextlib.contextmanager
def own_folder(path: Path, missing: IfMissing = "raise") -> Iterator[OwnFolder]:
    """Opens a folder of goalseek's own, or one below, through real folders only.

    ``missing`` says what to do where a folder on the way does not exist: "raise" FileNotFoundError, "make" it, or
    "clear" what is in its place and make it; otherwise that raises OSError. Raises ForeignPath.
    """
    outermost = (folder for folder in (*reversed(path.parents), path) if folder in _OWN)
    own = next(outermost, None)  # what lies between two of them is not the user's to link
    inside = path.relative_to(own).parts if own else ("..",)
    if own is None or ".." in inside:
        raise ForeignPath(f"{path} is no folder of goalseek's: nothing in it is removed or written")
    if missing != "raise":
        _OWN[own].mkdir(parents=True, exist_ok=True)
    top = _open_part(_OWN[own], _FOLDER | os.O_NOFOLLOW)
    try:
        with _open_inner(top, inside, missing) as folder:
            yield OwnFolder(folder)
    finally:
        os.close(top)


def split_path(path: str) -> list[str]:
    """The parts of a path in a folder. Raises ForeignPath for one that may lead elsewhere."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ForeignPath(f"{path!r} is no path in a folder of goalseek's")
    return parts


@contextlib.contextmanager
def _open_inner(top: int, parts: Sequence[str], missing: IfMissing = "raise", is_ours: bool = True) -> Iterator[int]:
    """Opens the folder at a path below an open one, through real folders only."""
    folder = os.dup(top)
    try:
        for part in parts:
            if missing == "clear" and not _is_folder(part, folder):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=folder)
            if missing != "raise":
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = _open_part(part, _FOLDER | os.O_NOFOLLOW, folder, is_ours)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _remove(name: str, folder: int) -> None:
    if not _is_folder(name, folder):
        os.unlink(name, dir_fd=folder)
        return
    with open_folder(name, folder) as descriptor:
        _empty(descriptor)
    os.rmdir(name, dir_fd=folder)


def _empty(top: int) -> None:
    """Removes the contents of a folder. What is deeper than two levels is moved up first, so that any depth works."""
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


def read_regular(root: Path, path: str, is_ours: bool = True) -> bytes:
    """The bytes of a regular file below ``root``, reached through real folders only. Raises OSError otherwise."""
    descriptor = open_regular(root, path, is_ours)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        return file.read()


def open_regular(root: Path, path: str, is_ours: bool = True) -> int:
    """A descriptor of a regular file below ``root``, following no symbolic link. Raises OSError otherwise.

    Where it is not ``is_ours``, permissions stay as they are, and ``root`` may be a link.
    """
    *above, name = path.split("/")
    top = _open_part(root, _FOLDER | (os.O_NOFOLLOW if is_ours else 0), is_ours=is_ours)
    try:
        with _open_inner(top, above, is_ours=is_ours) as folder:
            descriptor = _open_part(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, folder, is_ours)
    finally:
        os.close(top)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor


def _is_folder(name: str, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def open_folder(folder: str | Path, below: int | None = None) -> Iterator[int]:
    """A descriptor of a real folder of goalseek's own, with all permissions for its owner from here on.

    ``below`` is the descriptor of the folder that a relative name is in. Raises OSError for a link.
    """
    descriptor = _open_part(folder, _FOLDER | os.O_NOFOLLOW, below)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_part(name: str | Path, flags: int, below: int | None = None, is_ours: bool = True) -> int:
    """Opens a file or folder; one of ours after giving its owner missing permissions: read, or all in a folder."""
    if not is_ours:
        return os.open(name, flags, dir_fd=below)
    try:
        descriptor = os.open(name, flags, dir_fd=below)
    except PermissionError:
        mode = os.stat(name, dir_fd=below, follow_symlinks=False).st_mode
        bits = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR | stat.S_IWUSR
        os.chmod(name, stat.S_IMODE(mode) | bits, dir_fd=below)
        return os.open(name, flags, dir_fd=below)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode) and ~mode & stat.S_IRWXU:
        with contextlib.suppress(PermissionError):  # somebody else's: what they allow may be enough
            os.fchmod(descriptor, stat.S_IMODE(mode) | stat.S_IRWXU)
    return descriptor
