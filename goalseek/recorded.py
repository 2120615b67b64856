"""What a folder should hold, and how each file looked when it was put there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from goalseek.git.objects import Entry
from goalseek.own_folders import ForeignPath, parts_of

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
