"""A full disk: seen before the start, recognised whoever says so, and never taken for the fault of what ran on it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from goalseek.errors import UNFIT, GitFailed, GoalseekError

LEAST_FREE = 32 * 2**20
LITTLE_FREE = 2**30
LEAST_AFTER = 2**20
_NUMBERS = (errno.ENOSPC, errno.EDQUOT)
_WORDS = (*map(os.strerror, _NUMBERS), "Out of diskspace")


def as_full_disk(error: Exception) -> GoalseekError | None:
    """The error for people, where it is the system that says so, or git, whose words are the C locale's."""
    is_full = isinstance(error, OSError) and error.errno in _NUMBERS
    if not is_full and not any(word in str(error) for word in _WORDS):
        return None
    return GoalseekError(f"the disk is full: {error}", "make room; the same command goes on", UNFIT, "disk")


def is_full_disk(error: OSError) -> bool:
    """Whether the system says that there is no room."""
    return error.errno in _NUMBERS


def is_full(folder: Path) -> bool:
    """Whether less than a MiB is left for ``folder``."""
    found = os.statvfs(next(place for place in (folder, *folder.parents) if place.exists()))
    return bool(found.f_blocks) and found.f_bavail * found.f_frsize < LEAST_AFTER


def refuse_full(folder: Path) -> None:
    """Raises OSError (ENOSPC) where less than a MiB is left for ``folder``: a program that ran there proves little."""
    if is_full(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def free_room(folders: Iterable[Path]) -> list[str]:
    """What to say of disks that are nearly full. Raises GoalseekError for one on which nothing could be done."""
    told = {}
    for folder in folders:
        there = next(place for place in (folder, *folder.parents) if place.exists())
        free = shutil.disk_usage(there).free
        if free < LEAST_FREE:
            message = f"the disk is full: {_megabytes(free)} are free where {there} is"
            raise GoalseekError(message, f"make room: at least {_megabytes(LEAST_FREE)}", UNFIT, "disk")
        if free < LITTLE_FREE:
            told[there.stat().st_dev] = f"only {_megabytes(free)} are free where {there} is"
    return list(told.values())


def _megabytes(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"


_REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
_FAULTS = tuple(map(os.strerror, _REFUSALS))


def as_machine_fault(error: Exception) -> GoalseekError | None:
    """The error for people, where the machine is at fault, and not goalseek."""
    return as_full_disk(error) or _as_refusal(error)


def _as_refusal(error: Exception) -> GoalseekError | None:
    """A file of another account, on a read-only disk, or where a folder should be; git says so in the C locale."""
    if isinstance(error, OSError) and error.errno in _REFUSALS and error.filename is not None:
        told = f"{os.fsdecode(error.filename)}: {os.strerror(error.errno)}"
    elif isinstance(error, GitFailed) and any(word in error.said for word in _FAULTS):
        told = error.said
    else:
        return None
    hint = "see whose it is and whether it can be written: ls -ld; then run the same command again"
    return GoalseekError(told, hint, UNFIT, "repository")
