"""A disk with no room left: seen before the start, and recognised in an error, whoever says it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError

LEAST_FREE = 32 * 2**20
LITTLE_FREE = 2**30
_FULL = (errno.ENOSPC, errno.EDQUOT)


def as_full_disk(error: Exception) -> GoalseekError | None:
    """The error for people, where it is the system that says so, or git, whose words are the C locale's."""
    words = [os.strerror(number) for number in _FULL]
    is_full = isinstance(error, OSError) and error.errno in _FULL
    if not is_full and not any(word in str(error) for word in words):
        return None
    return GoalseekError(f"the disk is full: {error}", "make room; the same command goes on", UNFIT, "disk")


def free_room(folders: Iterable[Path]) -> list[str]:
    """What to say of disks that are nearly full. Raises GoalseekError for one on which nothing could be done."""
    told = {}
    for folder in folders:
        there = next(place for place in (folder, *folder.parents) if place.exists())
        free = shutil.disk_usage(there).free
        if free < LEAST_FREE:
            message = f"{_megabytes(free)} are free on the disk of {there}"
            raise GoalseekError(message, f"make room: at least {_megabytes(LEAST_FREE)}", UNFIT, "disk")
        if free < LITTLE_FREE:
            told[there.stat().st_dev] = f"only {_megabytes(free)} are free on the disk of {there}"
    return list(told.values())


def _megabytes(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"
