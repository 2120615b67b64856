"""Disk faults: a full disk, a read-only one, a file of another account, recognised in errors of the system and of git.

A full disk is looked for before a climb starts, and is never taken for the fault of the program that met it.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from goalseek.errors import GitFailed, GoalseekError
from goalseek.values import StopReason

LEAST_FREE = 32 * 2**20
LITTLE_FREE = 2**30
LEAST_AFTER = 2**20
_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_FULL_MESSAGES = (*map(os.strerror, _FULL_ERRNOS), "Out of diskspace")


def full_disk_error(error: Exception) -> GoalseekError | None:
    """The GoalseekError for a full disk or quota that the system reports, or git in the C locale; else None."""
    is_full = isinstance(error, OSError) and error.errno in _FULL_ERRNOS
    if not is_full and not any(word in str(error) for word in _FULL_MESSAGES):
        return None
    return GoalseekError(f"the disk is full: {error}", "make room; the same command goes on", StopReason.DISK)


def is_full(folder: Path) -> bool:
    """Whether less than a MiB is free on the disk of ``folder``."""
    file_system = os.statvfs(next(path for path in (folder, *folder.parents) if path.exists()))
    return bool(file_system.f_blocks) and file_system.f_bavail * file_system.f_frsize < LEAST_AFTER


def refuse_full(folder: Path) -> None:
    """Raises OSError (ENOSPC) where less than a MiB is free for ``folder``: no program can be judged there."""
    if is_full(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def check_free_space(folders: Iterable[Path]) -> list[str]:
    """Warnings about disks with less than a GiB free, one a disk. Raises GoalseekError below 32 MiB."""
    warnings = {}
    for folder in folders:
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(nearest).free
        if free < LEAST_FREE:
            message = f"the disk is full: {_megabytes(free)} are free where {nearest} is"
            raise GoalseekError(message, f"make room: at least {_megabytes(LEAST_FREE)}", StopReason.DISK)
        if free < LITTLE_FREE:
            warnings[nearest.stat().st_dev] = f"only {_megabytes(free)} are free where {nearest} is"
    return list(warnings.values())


def _megabytes(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"


_REFUSAL_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
_REFUSAL_MESSAGES = (*map(os.strerror, _REFUSAL_ERRNOS), "insufficient permission")


def machine_error(error: Exception) -> GoalseekError | None:
    """The GoalseekError for a fault of the machine's, reported by the system or by git in the C locale; else None.

    A full disk, or a file of another account, on a read-only disk, or in place of a folder.
    """
    if fault := full_disk_error(error):
        return fault
    if isinstance(error, OSError) and error.errno in _REFUSAL_ERRNOS and error.filename is not None:
        message = f"{os.fsdecode(error.filename)}: {os.strerror(error.errno)}"
    elif not isinstance(error, OSError) and any(word in str(error) for word in _REFUSAL_MESSAGES):
        message = error.said if isinstance(error, GitFailed) else str(error)
    else:
        return None
    hint = "see whose it is and whether it can be written: ls -ld; then run the same command again"
    return GoalseekError(message, hint, StopReason.REPOSITORY)
