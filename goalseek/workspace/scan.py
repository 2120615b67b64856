"""Scan of a folder in one walk: what differs from the signatures that were recorded when its files were written.

The walk trusts (modification time, change time, size, mode, inode) and looks into a file only where its change time
is too near to the moment when it was recorded.
"""

from __future__ import annotations

import hashlib
import os
import stat
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from goalseek.own_folders import ForeignPath, open_folder, split_path
from goalseek.values import to_line
from goalseek.workspace.scope import is_tool_cache, parents

if typing.TYPE_CHECKING:
    from goalseek.git.objects import Entry


_NOTHING: dict[str, Signature] = {}
# A new folder below so many others, or so many bytes long, is taken for one thing, whatever is in it.
_DEPTH_LIMIT = 200
_LENGTH_LIMIT = 1000


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


class _Walk(Struct, frozen=True):
    """What a folder is compared with, and the differences so far."""

    root: Path
    recorded: RecordedFiles
    differs: Callable[[str], bool]
    is_left_alone: Callable[[str], bool]
    changed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def walk(
    root: Path, recorded: RecordedFiles, differs: Callable[[str], bool], is_left_alone: Callable[[str], bool]
) -> Changes:
    """Compares a folder with what is recorded of it.

    ``differs`` looks into a recorded file whose signature does not tell. A path that is not recorded, and that
    ``is_left_alone``, is no change.
    """
    state = _Walk(root, recorded, differs, is_left_alone)
    with open_folder(root) as top:
        count = _walk_recorded(state, top, "")
    missing: list[str] = []
    if count < len(recorded.entries):
        present = set(_paths(state, ""))
        missing = [path for path in recorded.entries if path not in present]
    return Changes(tuple(state.changed), tuple(missing), tuple(state.added), tuple(state.folders))


def _walk_recorded(walk: _Walk, descriptor: int, folder: str) -> int:
    """Walks a recorded folder, open as ``descriptor``, and all below it; gives how many recorded names are there."""
    recorded = walk.recorded
    signature_in, racy, count = recorded.signatures.get(folder, _NOTHING).get, recorded.racy, 0
    inner: list[str] = []
    with os.scandir(descriptor) as listing:
        for item in listing:
            name = item.name
            signature = signature_in(name)
            if signature is None:
                path = folder + name
                if walk.is_left_alone(path):
                    continue
                if not item.is_dir(follow_symlinks=False):
                    walk.added.append(path)
                elif path in recorded.below:
                    inner.append(name)
                else:
                    _walk_new(walk, path)
                continue
            count += 1
            current = signature_of(item.stat(follow_symlinks=False))
            if current != signature or (racy and folder + name in racy and walk.differs(folder + name)):
                walk.changed.append(folder + name)
    for name in inner:
        with open_folder(name, descriptor) as below:
            count += _walk_recorded(walk, below, f"{folder}{name}/")
    return count


def _walk_new(walk: _Walk, folder: str) -> bool:
    """Walks a new folder; gives whether something in it is left alone, so that the folder must stay."""
    must_stay = False
    with open_folder(walk.root / folder) as descriptor, os.scandir(descriptor) as listing:
        for item in listing:
            path = f"{folder}/{item.name}"
            is_too_deep = path.count("/") >= _DEPTH_LIMIT or len(os.fsencode(path)) > _LENGTH_LIMIT
            if walk.is_left_alone(path):
                must_stay = True
            elif is_too_deep or not item.is_dir(follow_symlinks=False):
                walk.added.append(path)
            else:
                must_stay = _walk_new(walk, path) or must_stay
    if not must_stay:
        walk.folders.append(folder)
    return must_stay


def _paths(walk: _Walk, folder: str) -> Iterator[str]:
    """Every path below recorded folders that is no folder itself."""
    with os.scandir(walk.root / folder) as listing:
        for item in listing:
            path = folder + item.name
            if path in walk.recorded.below and item.is_dir(follow_symlinks=False):
                yield from _paths(walk, path + "/")
            else:
                yield path


RACY_NANOSECONDS = 20_000_000
Signature = tuple[int, int, int, int, int]


class RecordedFiles(Struct):
    """Files by path, their signatures by folder ("" or "a/b/") and name, and how many files lie below each folder.

    ``racy`` are files whose change time is too near to the moment when they were recorded to tell a later change.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    signatures: dict[str, dict[str, Signature]] = field(default_factory=dict)
    racy: set[str] = field(default_factory=set)
    below: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: dict[str, Entry]) -> RecordedFiles:
        """Files that are not written yet."""
        recorded = cls()
        for path, entry in entries.items():
            recorded.add(path, entry)
        return recorded

    def add(self, path: str, entry: Entry) -> None:
        """Adds a file, or changes what it should be.

        Raises ForeignPath for a path that leads elsewhere, and where one of two would lie below the other: that one
        would be written, and removed, where a link of ours leads.
        """
        if path not in self.entries:
            split_path(path)
            if path in self.below or any(above in self.entries for above in parents(path)):
                raise ForeignPath(f"{path!r} and another entry of its tree lie one below the other")
            for above in parents(path):
                self.below[above] = self.below.get(above, 0) + 1
        self.entries[path] = entry

    def record(self, path: str, signature: Signature, now: int) -> None:
        """Records the signature of a file as it was at ``now`` (nanoseconds since 1970)."""
        folder, name = split(path)
        self.signatures.setdefault(folder, {})[name] = signature
        if signature[1] > now - RACY_NANOSECONDS:
            self.racy.add(path)

    def forget(self, path: str) -> None:
        """Takes a file out."""
        del self.entries[path]
        folder, name = split(path)
        self.signatures.get(folder, {}).pop(name, None)
        self.racy.discard(path)
        for above in parents(path):
            self.below[above] -= 1
            if not self.below[above]:
                del self.below[above]

    def signature(self, path: str) -> Signature:
        """The signature of a file when it was recorded. Raises KeyError where it never was."""
        folder, name = split(path)
        return self.signatures[folder][name]


def signature_of(status: os.stat_result) -> Signature:
    """The signature of a file: modification and change time in nanoseconds, size in bytes, mode and inode."""
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode, status.st_ino


def split(path: str) -> tuple[str, str]:
    """The folder, "" or with a slash at its end, and the name."""
    cut = path.rfind("/") + 1
    return path[:cut], path[cut:]


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
                    files.append(ListedFile(path, status.st_size, status.st_mtime_ns, _kind_of(status.st_mode)))
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


def _kind_of(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "program" if mode & stat.S_IXUSR else "file"
    return "link" if stat.S_ISLNK(mode) else "other"
