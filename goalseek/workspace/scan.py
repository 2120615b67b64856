"""One walk of a folder: what in it differs from what was recorded when its files were put there.

The walk trusts (modification time, change time, size, mode, inode) and looks into a file only where its change time
is too near to the moment when it was recorded.
"""

from __future__ import annotations

import hashlib
import os
import stat
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from goalseek.own_folders import ForeignPath, open_folder, parts_of
from goalseek.values import to_line
from goalseek.workspace.scope import DROPPINGS

if typing.TYPE_CHECKING:
    from goalseek.git.objects import Entry


_NOTHING: dict[str, Signature] = {}
# A new folder below so many others, or so many bytes long, is taken for one thing, whatever is in it.
_DEEPEST_NEW = 200
_LONGEST_NEW = 1000


@dataclass(frozen=True)
class Changes:
    """What one walk found: paths that are no longer as recorded, recorded ones that are gone, and new ones.

    ``folders`` are new folders that hold nothing that was recorded. A changed or new path may be of any kind.
    """

    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.missing or self.added or self.folders)


@dataclass(frozen=True)
class _Walk:
    """What a folder is held against, and what is found on the way."""

    root: Path
    recorded: Recorded
    differs: Callable[[str], bool]
    is_left_alone: Callable[[str], bool]
    changed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def walk(
    root: Path, recorded: Recorded, differs: Callable[[str], bool], is_left_alone: Callable[[str], bool]
) -> Changes:
    """Holds a folder against what is recorded of it.

    ``differs`` looks into a recorded file whose signature does not tell. A path that is not recorded, and that
    ``is_left_alone``, is no change.
    """
    at_work = _Walk(root, recorded, differs, is_left_alone)
    with open_folder(root) as top:
        seen = _known(at_work, top, "")
    missing = recorded.missing(_paths(at_work, "")) if seen < len(recorded.entries) else []
    return Changes(tuple(at_work.changed), tuple(missing), tuple(at_work.added), tuple(at_work.folders))


def _known(walk: _Walk, descriptor: int, folder: str) -> int:
    """Walks a recorded folder, open as ``descriptor``, and all below it; how many recorded names are still there."""
    recorded = walk.recorded
    known_of, racy, seen = recorded.signatures.get(folder, _NOTHING).get, recorded.racy, 0
    inner: list[str] = []
    with os.scandir(descriptor) as listing:
        for item in listing:
            name = item.name
            known = known_of(name)
            if known is None:
                _unknown(walk, item, folder + name, inner)
                continue
            seen += 1
            signature = signature_of(item.stat(follow_symlinks=False))
            if signature != known or (racy and folder + name in racy and walk.differs(folder + name)):
                walk.changed.append(folder + name)
    for name in inner:
        with open_folder(name, descriptor) as below:
            seen += _known(walk, below, f"{folder}{name}/")
    return seen


def _unknown(walk: _Walk, item: os.DirEntry[str], path: str, inner: list[str]) -> None:
    if walk.is_left_alone(path):
        return
    if not item.is_dir(follow_symlinks=False):
        walk.added.append(path)
    elif path in walk.recorded.below:
        inner.append(item.name)
    else:
        _new(walk, path)


def _new(walk: _Walk, folder: str) -> bool:
    """Walks a new folder; whether something in it is left alone, so that the folder has to stay."""
    stays = False
    with open_folder(walk.root / folder) as descriptor, os.scandir(descriptor) as listing:
        for item in listing:
            path = f"{folder}/{item.name}"
            if walk.is_left_alone(path):
                stays = True
            elif item.is_dir(follow_symlinks=False):
                if path.count("/") >= _DEEPEST_NEW or len(os.fsencode(path)) > _LONGEST_NEW:
                    walk.added.append(path)
                else:
                    stays = _new(walk, path) or stays
            else:
                walk.added.append(path)
    if not stays:
        walk.folders.append(folder)
    return stays


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


@dataclass
class Recorded:
    """Files by path, their signatures by folder ("" or "a/b/") and name, and how many files lie below each folder.

    ``racy`` are files whose change time is too near to the moment when they were recorded to tell a later change.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    signatures: dict[str, dict[str, Signature]] = field(default_factory=dict)
    racy: set[str] = field(default_factory=set)
    below: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: dict[str, Entry]) -> Recorded:
        """Files that are not written yet."""
        made = cls()
        for path, entry in entries.items():
            made.expect(path, entry)
        return made

    def expect(self, path: str, entry: Entry) -> None:
        """Adds a file, or changes what it should be.

        Raises ForeignPath for a path that leads elsewhere, and where one of two would lie below the other: that one
        would be written, and removed, in the place that a link of ours leads to.
        """
        if path not in self.entries:
            parts_of(path)
            if path in self.below or any(above in self.entries for above in parents(path)):
                raise ForeignPath(f"{path!r} and another entry of its tree lie one below the other")
            for above in parents(path):
                self.below[above] = self.below.get(above, 0) + 1
        self.entries[path] = entry

    def record(self, path: str, signature: Signature, now: int) -> None:
        """How the file looks, seen at ``now`` (nanoseconds since 1970)."""
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
        """How a file looked when it was recorded."""
        folder, name = split(path)
        return self.signatures[folder][name]

    def missing(self, there: Iterable[str]) -> list[str]:
        """Files that are not among those found."""
        found = set(there)
        return [path for path in self.entries if path not in found]


def signature_of(found: os.stat_result) -> Signature:
    """How a file looks: modification and change time in nanoseconds, size in bytes, mode and inode."""
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode, found.st_ino


def split(path: str) -> tuple[str, str]:
    """The folder, "" or with a slash at its end, and the name."""
    cut = path.rfind("/") + 1
    return path[:cut], path[cut:]


def parents(path: str) -> Iterator[str]:
    """The folders above a path, nearest first."""
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path


@dataclass(frozen=True)
class Listed:
    """One file: its path below the folder, its size in bytes, its modification time in nanoseconds since 1970.

    ``kind`` is "file", "program" (it may be run), "link", or "other".
    """

    path: str
    size: int
    time: int
    kind: str = "file"


Listing = tuple[Listed, ...]


def list_folder(root: Path, most: int | None = None, left_out: Callable[[str], bool] = DROPPINGS) -> Listing:
    """The files below a folder in the order of their paths, at most ``most``, without caches; no link is followed.

    A folder counts by the files in it. Raises OSError where it cannot be read.
    """
    found: list[Listed] = []
    pending = [""]
    while pending and (most is None or len(found) < most):
        folder = pending.pop()
        inner: list[str] = []
        with os.scandir(root / folder) as listing:
            for item in sorted(listing, key=lambda item: item.name):
                path = folder + item.name
                if item.is_dir(follow_symlinks=False):
                    if not left_out(path + "/x"):
                        inner.append(path + "/")
                elif not left_out(path):
                    found.append(_listed(path, item.stat(follow_symlinks=False)))
        pending += reversed(inner)
    return tuple(found[:most])


def digest_of(listing: Listing) -> str:
    """Names a listing."""
    return hashlib.sha256(to_line(listing).encode("utf-8", "surrogateescape")).hexdigest()


def differing(before: Listing, after: Listing) -> list[str]:
    """The paths that are in one of the two only, or with another size, time or kind."""
    was, now = {item.path: item for item in before}, {item.path: item for item in after}
    return sorted(path for path in {**was, **now} if was.get(path) != now.get(path))


def _listed(path: str, found: os.stat_result) -> Listed:
    kind = "other"
    if stat.S_ISLNK(found.st_mode):
        kind = "link"
    elif stat.S_ISREG(found.st_mode):
        kind = "program" if found.st_mode & stat.S_IXUSR else "file"
    return Listed(path, found.st_size, found.st_mtime_ns, kind)
