"""The run folder of one measurement, and whether a file that a number is read from was made by this measurement."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from goalseek.own_folders import empty, make_anew, open_beneath
from goalseek.process import seconds_with_sleep

_REPLACED = "the run folder was replaced"


class Stale(Exception):
    """A file that is there, but was not made by this measurement; the text says how that shows."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that was made for one measurement. ``began`` is its own time: no file in it can be older.

    ``ahead`` is by how much the time of day was ahead then of a clock that nobody can set; both are in nanoseconds.
    """

    path: Path
    device: int
    inode: int
    began: int
    ahead: int

    @classmethod
    def make(cls, path: Path) -> RunFolder:
        """A new empty folder at this place."""
        make_anew(path)
        found = path.stat()
        return cls(path, found.st_dev, found.st_ino, found.st_mtime_ns, _ahead())

    def empty(self) -> None:
        """Removes what is in it."""
        empty(self.path)

    def is_itself(self) -> bool:
        """Whether the folder that was made still stands at its place."""
        try:
            found = self.path.lstat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self.device, self.inode)

    def open(self, path: str) -> int:
        """A descriptor of a regular file in it. Raises OSError where there is none, Stale where it is another's."""
        if self.path.is_symlink():
            raise Stale(_REPLACED)
        descriptor = open_beneath(self.path, path)
        told = _REPLACED if not self.is_itself() else self.why_stale(os.fstat(descriptor))
        if told:
            os.close(descriptor)
            raise Stale(told)
        return descriptor

    def why_stale(self, found: os.stat_result) -> str:
        """Why a file with these facts was not made by this measurement, or ""."""
        if found.st_nlink > 1:
            return "it is a hard link to another file"
        set_back = min(0, _ahead() - self.ahead)  # a clock that was set back meanwhile gave later files an earlier time
        if found.st_mtime_ns < self.began + set_back:
            return "it is older than this measurement"
        return ""


def _ahead() -> int:
    return time.time_ns() - int(seconds_with_sleep() * 1e9)
