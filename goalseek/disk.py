"""Files on disk: the only code that deletes, reading what an untrusted program wrote, whole files, and full disks.

It deletes in goalseek's own folders only, never through a link. This is the whole list of them (``add_own``):

    <cache>/goalseek/<name>-<key>      trees, caches and scratch folders of this project; a name that nobody else makes
                                       (project.opening, proposal.drive)
    <git common dir>/goalseek/<name>   lock, secret, objects.git, packs on their way; git leaves the name to us
                                       (git.repository)
    scratch in a git folder of ours    made beside git's own names (git.objects)
    logs and runs in log.home          the records of this climb (project.opening, project.config); a run folder that
                                       holds something of somebody else's is neither begun nor removed
                                       (ledger.artifacts, project.opening)
    <cache>/goalseek/.verify-<name>    a claim as it is checked (evaluation.verify)
    <cache>/goalseek/cluster/<name>    what a driver sent to a worker, for as long as it measures (cluster.worker)
    a temporary folder                 made by this very process, or by one that died (git.as_user, sandbox.level)
    show --files FOLDER                was empty, or not there (cli.commands.show)

The list belongs to the process and only grows, so that a deletion needs only a path. A path that is not strictly below
a listed folder raises ForeignPath. From that folder down the path is opened part by part, without following links. A
listed folder may be reached through links of the user's (``~/.cache``): these are resolved once, when it is added.

Elsewhere only single files by their exact names, and empty folders, are removed: a loose object that a pack of ours
holds (git.packing), a lock on a ref of ours (project.opening), the half-written file of this process beside the one
that it was to replace, a file of the checkout that git or the records have, for ``goalseek try --restore``
(git.as_user), a skill that goalseek wrote (cli.commands.skill), folders that a first run made around the logs before it
was refused (project.opening), and a worker's folder once all its programs have ended (sandbox.reaper). A new file
replaces an old one by a rename: it follows no link.

Reading follows no link either. In goalseek's own folders, permissions that lock the owner out are lifted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

from goalseek.errors import GitFailed, GoalseekError
from goalseek.values import StopReason, from_line

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_CLONE_FILE = 0x4004_9409  # ioctl FICLONE
_OWN: dict[str, str] = {}
Value = TypeVar("Value")
IfMissing = Literal["raise", "make", "clear"]


class ForeignPath(RuntimeError):
    """A path that goalseek must neither remove nor write at: a bug, which stops here."""


def add_own(*folders: Path) -> None:
    """With all that is below them. They need not exist yet."""
    for folder in folders:
        if str(folder) not in _OWN:
            _OWN[str(folder)] = str(folder.resolve())


def remove(path: Path) -> None:
    """Also a folder, read-only or of any depth. Raises FileNotFoundError, NotADirectoryError or ForeignPath."""
    above, _, name = str(path).rpartition("/")
    with own_folder(above) as folder:
        folder.remove(name)


def remove_if_exists(path: Path) -> None:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:  # locked, or too long: opened part by part it can be removed
        pass
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        remove(path)


def remove_own(path: Path) -> None:
    """Remove a folder of the list itself, if it exists; of a link, the link. Raises ForeignPath for any other."""
    if str(path) not in _OWN:
        raise ForeignPath(f"{path} is none of goalseek's folders")
    with contextlib.suppress(FileNotFoundError), closing(os.open(path.parent, _FOLDER)) as above:
        _remove(path.name, above)


def empty(path: Path, except_name: str = "") -> None:
    """Remove the contents of a folder, if it exists."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), own_folder(path) as folder:
        for name in os.listdir(folder.descriptor):
            if name != except_name:
                _remove(name, folder.descriptor)


def recreate_folder(path: Path, mode: int = 0o777) -> None:
    """A new, empty folder replaces whatever was at the path; no link is followed."""
    above, _, name = str(path).rpartition("/")
    with own_folder(above, "clear") as folder, folder.cleared(name) as (descriptor, _):
        os.mkdir(name, mode, dir_fd=descriptor)


def create(path: Path, mode: int) -> BinaryIO:
    """Open for writing, in place of whatever was at the path; no link is followed."""
    with own_folder(path.parent, "clear") as folder:
        return folder.create(path.name, mode)


class OwnFolder(AbstractContextManager["OwnFolder"]):
    """Open as ``descriptor`` to the end of the block.

    A path in it, "a/b", leads through real folders only; any other raises ForeignPath.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def remove(self, path: str) -> None:
        """A file, a link or a whole folder. Raises FileNotFoundError, or NotADirectoryError on the way."""
        *above, name = split_path(path)
        with self._open(above) as folder:
            _remove(name, folder.descriptor)

    def remove_if_empty(self, path: str) -> None:
        """Anything but an empty folder stays."""
        *above, name = split_path(path)
        with contextlib.suppress(OSError), self._open(above) as folder:
            os.rmdir(name, dir_fd=folder.descriptor)

    @contextlib.contextmanager
    def cleared(self, path: str) -> Iterator[tuple[int, str]]:
        """Remove whatever is at the path, and in place of folders on the way; yields its open folder and its name."""
        *above, name = split_path(path)
        with self._open(above, "clear") as folder:
            with contextlib.suppress(FileNotFoundError):
                _remove(name, folder.descriptor)
            yield folder.descriptor, name

    def create(self, path: str, mode: int) -> BinaryIO:
        """Open for writing, in place of whatever was at the path."""
        with self.cleared(path) as (folder, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            return os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb")

    def link(self, path: str, target: bytes | str) -> None:
        """A symbolic link, in place of whatever was at the path."""
        with self.cleared(path) as (folder, name):
            os.symlink(target, name, dir_fd=folder)

    def _open(self, parts: Sequence[str], missing: IfMissing = "raise") -> OwnFolder:
        return _open_below(os.dup(self.descriptor), parts, missing)


def own_folder(path: Path | str, missing: IfMissing = "raise") -> OwnFolder:
    """Open a folder of goalseek's own, or one below, through real folders only. Raises ForeignPath.

    If a folder on the way is missing, ``missing`` says: "raise" FileNotFoundError, "make" it, or "clear" what is in its
    place and make it; otherwise that raises OSError.
    """
    text = f"{path}/"
    owners = [own for own in tuple(_OWN) if text.startswith(f"{own}/")]  # another thread may add one meanwhile
    own = min(owners, key=len, default="")  # the outermost: no link between two of them is the user's
    inside = list(filter(None, text[len(own) :].split("/")))
    if not own or ".." in inside:
        raise ForeignPath(f"{path} is no folder of goalseek's: nothing in it is removed or written")
    if missing != "raise" and not os.path.isdir(_OWN[own]):
        os.makedirs(_OWN[own], exist_ok=True)
    return _open_below(_open_part(_OWN[own], _FOLDER | os.O_NOFOLLOW), inside, missing)


def split_path(path: str) -> list[str]:
    """Raises ForeignPath for a path that may lead elsewhere."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ForeignPath(f"{path!r} is no path in a folder of goalseek's")
    return parts


def _open_below(folder: int, parts: Sequence[str], missing: IfMissing = "raise", is_ours: bool = True) -> OwnFolder:
    """Through real folders only; closes ``folder``."""
    try:
        for part in parts:
            if missing != "raise" and not _is_folder(part, folder):
                if missing == "clear":
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(part, dir_fd=folder)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            outer, folder = folder, _open_part(part, _FOLDER | os.O_NOFOLLOW, folder, is_ours)
            os.close(outer)
    except BaseException:
        os.close(folder)
        raise
    return OwnFolder(folder)


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _remove(name: str, folder: int) -> None:
    try:
        os.rmdir(name, dir_fd=folder)
        return
    except NotADirectoryError:
        os.unlink(name, dir_fd=folder)
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    with open_folder(name, folder) as top:
        # What is deeper than two levels is moved up first, so that any depth works.
        token, number = os.urandom(16).hex(), 0
        while inner_names := os.listdir(top):
            for inner_name in inner_names:
                if not _is_folder(inner_name, top):
                    os.unlink(inner_name, dir_fd=top)
                    continue
                with open_folder(inner_name, top) as inner:
                    for item in os.listdir(inner):
                        if not _is_folder(item, inner):
                            os.unlink(item, dir_fd=inner)
                            continue
                        os.chmod(item, 0o700, dir_fd=inner)  # moving a folder takes write permission in it
                        os.rename(item, f"{token}-{number}", src_dir_fd=inner, dst_dir_fd=top)
                        number += 1
                os.rmdir(inner_name, dir_fd=top)
    os.rmdir(name, dir_fd=folder)


def read_regular(root: Path, path: str, is_ours: bool = True) -> bytes:
    """As ``open_regular``."""
    with open_regular(root, path, is_ours) as file:
        return file.read()


def read_content(root: Path, path: str) -> bytes:
    """Of a link its target, else as ``read_regular``."""
    file = root / path
    return os.fsencode(os.readlink(file)) if file.is_symlink() else read_regular(root, path)


def open_regular(root: Path, path: str, is_ours: bool = True) -> BinaryIO:
    """Follows no link; raises OSError otherwise. If not ``is_ours``, permissions stay, and ``root`` may be a link."""
    *above, name = path.split("/")
    top = _open_part(root, _FOLDER | (os.O_NOFOLLOW if is_ours else 0), is_ours=is_ours)
    with _open_below(top, above, is_ours=is_ours) as folder:
        descriptor = _open_part(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, folder.descriptor, is_ours)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")


def _is_folder(name: str, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def open_folder(folder: str | Path, below: int | None = None) -> AbstractContextManager[int]:
    """Of goalseek's own: its owner gets all permissions. ``below`` is for a relative name. Raises OSError for links."""
    return closing(_open_part(folder, _FOLDER | os.O_NOFOLLOW, below))


def _open_part(name: str | Path, flags: int, below: int | None = None, is_ours: bool = True) -> int:
    """One of ours after giving its owner missing permissions: read, or all in a folder."""
    if not is_ours:
        return os.open(name, flags, dir_fd=below)
    try:
        descriptor = os.open(name, flags, dir_fd=below)
    except PermissionError:
        # A program at work may put a link in its place at any moment, and chmod follows links.
        with closing(os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=below)) as place:
            mode = os.fstat(place).st_mode
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                raise
            bits = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR | stat.S_IWUSR
            os.chmod(f"/proc/self/fd/{place}", stat.S_IMODE(mode) | bits)
        return os.open(name, flags, dir_fd=below)
    if flags & os.O_DIRECTORY and ~(mode := os.fstat(descriptor).st_mode) & stat.S_IRWXU:
        with contextlib.suppress(PermissionError):  # somebody else's, whose permissions may be enough
            os.fchmod(descriptor, stat.S_IMODE(mode) | stat.S_IRWXU)
    return descriptor


class SizeExceeded(Exception):
    """The files together are larger than the limit."""


def list_files(
    root: Path, is_skipped: Callable[[str], bool] = lambda path: False, is_ours: bool = True
) -> Iterator[tuple[str, os.stat_result]]:
    """Relative paths of all but folders, in a fixed order; follows no link. A folder is skipped if a file "x" in it is.

    ``is_ours`` is as for ``open_regular``. What is too deep for a path is left out if it is ours; else raises OSError.
    """
    pending = [""]
    while pending:
        folder = pending.pop()
        flags = _FOLDER | (os.O_NOFOLLOW if folder or is_ours else 0)
        try:
            opened = closing(_open_part(root / folder, flags, is_ours=is_ours))
            with opened as descriptor, os.scandir(descriptor) as listing:
                kinds = ((entry, entry.is_dir(follow_symlinks=False)) for entry in listing)
                wanted = [entry for entry, is_dir in kinds if not is_skipped(folder + entry.name + "/x" * is_dir)]
                entries = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in wanted)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG and is_ours:
                continue
            raise
        inner = []
        for name, status in entries:
            path = folder + name
            if stat.S_ISDIR(status.st_mode):
                inner.append(f"{path}/")
            else:
                yield path, status
        pending += reversed(inner)


def copy_regular_files(
    source: Path, target: Path, is_wanted: Callable[[str], bool] | None = None, limit: float = math.inf
) -> dict[str, os.stat_result]:
    """Copy with times; returns each path and its ``stat``. Raises SizeExceeded above ``limit`` bytes together."""
    copies: dict[str, os.stat_result] = {}
    total = 0
    for path, status in list_files(source):
        if not stat.S_ISREG(status.st_mode) or (is_wanted and not is_wanted(path)):
            continue
        try:
            opened = open_regular(source, path)
        except OSError:
            continue
        with opened as file:
            status = os.fstat(file.fileno())
            total += status.st_size
            if total > limit:
                raise SizeExceeded(f"more than {limit} bytes of outputs")
            with create(target / path, 0o600) as copy:
                shutil.copyfileobj(file, copy)
                copy.flush()
                os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode) | stat.S_IWUSR | stat.S_IRUSR)
                os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        copies[path] = status
    return copies


def copy_tree(source: Path, target: Path) -> None:
    """With times and links, for build folders. Raises FileNotFoundError or NotADirectoryError if it is no folder."""
    with own_folder(source):
        recreate_folder(target)
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)


def refuse_records(path: Path, records: Path, option: str = "-o") -> None:
    """Raises GoalseekError if a file that is to be written is the records themselves."""
    if path.exists() and records.exists() and path.samefile(records):
        raise GoalseekError(f"{option} {path}: this is the file of the records", "name another file")


@contextlib.contextmanager
def open_export(path: Path, option: str = "-o") -> Iterator[BinaryIO]:
    """Opens a file that appears at its path when the block ends, and not at all if that fails.

    A pipe or the like is written directly. Raises GoalseekError at once, naming ``option``, if it cannot be written.
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
    """Opens a file that takes the place of ``path`` when the block ends; if that fails, the old one stays.

    ``durable`` syncs it and its name: then no power cut takes it. ``temporary``, by default the path with ".new" at its
    end, is never written through a link; it stays if the process is killed.
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
        if durable:
            sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: bytes | str, durable: bool = False, mode: int = 0o666) -> None:
    """Replaces a file as ``open_atomic`` does. For a ``durable`` one its folder is made."""
    if durable:
        path.parent.mkdir(parents=True, exist_ok=True)
    with open_atomic(path, durable, mode=mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_new(path: Path, content: str, durable: bool = False) -> None:
    """As ``write_atomic``; but a kill may leave a torn file where none was."""
    try:
        with path.open("xb") as file:
            file.write(content.encode())
            if durable:  # a file system with a journal syncs a new file's name with it
                file.flush()
                os.fsync(file.fileno())
    except (FileExistsError, FileNotFoundError):
        write_atomic(path, content, durable)


def read_object(path: Path) -> dict[str, Any]:
    """Empty if the file has no JSON object that can be read."""
    return read_stored(dict, path) or {}


def read_stored(kind: type[Value], path: Path) -> Value | None:
    """The value whose ``to_line`` is in this file; None if it is gone, or holds no such value."""
    try:
        return from_line(kind, path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def sync(path: Path) -> None:
    """To disk: a file, or the names in a folder."""
    with closing(os.open(path, os.O_RDONLY)) as descriptor:
        os.fsync(descriptor)


def clone(source: Path, target: Path, path: str, mode: int) -> None:
    """Copy a file from folder to folder; both share its blocks. Raises OSError, also if the file system cannot."""
    with open_regular(source, path) as file, own_folder(target) as folder, folder.create(path, mode) as copy:
        fcntl.ioctl(copy.fileno(), _CLONE_FILE, file.fileno())


LEAST_FREE = 32 * 2**20
LITTLE_FREE = 2**30
LEAST_AFTER = 2**20
_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_FULL_MESSAGES = (*map(os.strerror, _FULL_ERRNOS), "Out of diskspace")
_REFUSAL_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
_REFUSAL_MESSAGES = (*map(os.strerror, _REFUSAL_ERRNOS), "insufficient permission")


def full_disk_error(error: Exception) -> GoalseekError | None:
    """For a full disk or quota that the system reports, or git in the C locale; else None."""
    is_full = isinstance(error, OSError) and error.errno in _FULL_ERRNOS
    if not is_full and not any(word in str(error) for word in _FULL_MESSAGES):
        return None
    return GoalseekError(f"the disk is full: {error}", "make room, then run the same command again", StopReason.DISK)


def machine_error(error: Exception) -> GoalseekError | None:
    """For a full disk, or a file of another account, on a read-only disk, or in place of a folder; else None."""
    if fault := full_disk_error(error):
        return fault
    if isinstance(error, OSError) and error.errno in _REFUSAL_ERRNOS and error.filename is not None:
        message = f"{os.fsdecode(error.filename)}: {os.strerror(error.errno)}"
    elif not isinstance(error, OSError) and any(word in str(error) for word in _REFUSAL_MESSAGES):
        message = error.stderr if isinstance(error, GitFailed) else str(error)
    else:
        return None
    hint = "check its owner and permissions: ls -ld; then run the same command again"
    return GoalseekError(message, hint, StopReason.REPOSITORY)


def is_full(folder: Path) -> bool:
    """Whether less than a MiB is free on its disk."""
    file_system = os.statvfs(_nearest(folder))
    return bool(file_system.f_blocks) and file_system.f_bavail * file_system.f_frsize < LEAST_AFTER


def refuse_full(folder: Path) -> None:
    """Raises OSError (ENOSPC) if less than a MiB is free: no program can be judged there."""
    if is_full(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def check_free_space(folders: Iterable[Path]) -> list[str]:
    """Warnings about disks with less than a GiB free, one a disk. Raises GoalseekError below 32 MiB."""
    warnings = {}
    for folder in folders:
        nearest = _nearest(folder)
        free = shutil.disk_usage(nearest).free
        where = f"{free / 2**20:.0f} MiB are free on the disk of {nearest}"
        if free < LEAST_FREE:
            hint = f"make room: at least {LEAST_FREE / 2**20:.0f} MiB"
            raise GoalseekError(f"the disk is full: {where}", hint, StopReason.DISK)
        if free < LITTLE_FREE:
            warnings[nearest.stat().st_dev] = f"only {where}"
    return list(warnings.values())


def _nearest(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
