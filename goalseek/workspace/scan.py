"""Listings of folders: their files by path, size, time and kind; what differs in one, and at mount points."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from goalseek.disk import open_folder
from goalseek.values import to_line
from goalseek.workspace.scope import is_tool_cache

if typing.TYPE_CHECKING:
    from goalseek.git.objects import Entry


class Changes(Struct, frozen=True):
    """The result of one walk: paths that are no longer as recorded, recorded ones that are gone, and new ones.

    ``folders`` are new folders that hold nothing that was recorded. A changed or new path may be of any kind.
    """

    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.missing or self.added or self.folders)


class ListedFile(Struct, frozen=True):
    """One file: its path below the folder, size in bytes, modification time in nanoseconds since 1970, and kind.

    That is "file", "program" (it may be run), "link", or "other".
    """

    path: str
    size: int
    time: int
    kind: str = "file"


Listing = tuple[ListedFile, ...]


def list_folder(root: Path, limit: int | None = None, is_skipped: Callable[[str], bool] = is_tool_cache) -> Listing:
    """The files below a folder in the order of their paths, at most ``limit``, without caches; no link is followed.

    Folders are listed by their files only. Raises OSError where it cannot be read.
    """
    files: list[ListedFile] = []
    pending = [""]
    while pending and (limit is None or len(files) < limit):
        folder = pending.pop()
        inner: list[str] = []
        with os.scandir(root / folder) as listing:
            for item in sorted(listing, key=lambda item: item.name):
                path = folder + item.name
                if item.is_dir(follow_symlinks=False):
                    if not is_skipped(path + "/x"):
                        inner.append(path + "/")
                elif not is_skipped(path):
                    status = item.stat(follow_symlinks=False)
                    kind = "link" if stat.S_ISLNK(status.st_mode) else "other"
                    if stat.S_ISREG(status.st_mode):
                        kind = "program" if status.st_mode & stat.S_IXUSR else "file"
                    files.append(ListedFile(path, status.st_size, status.st_mtime_ns, kind))
        pending += reversed(inner)
    return tuple(files[:limit])


def digest_of(listing: Listing | Mapping[str, Entry]) -> str:
    """The SHA-256 of a listing, in hex."""
    return hashlib.sha256(to_line(listing).encode("utf-8", "surrogateescape")).hexdigest()


def content_digest(file: Path) -> str:
    """The SHA-256 of a file's content, in hex; "" where it cannot be read."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""


def changed_paths(before: Listing, after: Listing) -> list[str]:
    """The paths that are in one of the two only, or with another size, time or kind."""
    was, now = {item.path: item for item in before}, {item.path: item for item in after}
    return sorted(path for path in {**was, **now} if was.get(path) != now.get(path))


def occupied_paths(root: Path, paths: Iterable[str]) -> list[str]:
    """Of the paths in a tree that something is mounted on, those where more than an empty mount point stands.

    A path below a link is none of them: the link itself is what somebody put there.
    """

    def is_occupied(path: str) -> bool:
        *above, name = path.split("/")
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            folder = stack.enter_context(open_folder(root))
            for part in above:
                folder = stack.enter_context(open_folder(part, folder))
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                return bool(os.listdir(stack.enter_context(open_folder(name, folder))))
            return not stat.S_ISREG(status.st_mode) or status.st_size > 0
        return False

    return [path for path in sorted(paths) if is_occupied(path)]
