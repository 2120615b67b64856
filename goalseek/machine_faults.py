"""What the machine refuses, in words for people: room on the disk, and leave to read or write a file."""

from __future__ import annotations

import errno
import os

from goalseek.errors import UNFIT, GoalseekError
from goalseek.full_disk import as_full_disk
from goalseek.git import GitFailed

_REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
_WORDS = tuple(map(os.strerror, _REFUSALS))


def as_machine_fault(error: Exception) -> GoalseekError | None:
    """The error for people, where the machine is at fault, and not goalseek."""
    return as_full_disk(error) or _as_refusal(error)


def _as_refusal(error: Exception) -> GoalseekError | None:
    """A file of another account, on a read-only disk, or where a folder should be; git says so in the C locale."""
    if isinstance(error, OSError) and error.errno in _REFUSALS and error.filename is not None:
        told = f"{os.fsdecode(error.filename)}: {os.strerror(error.errno)}"
    elif isinstance(error, GitFailed) and any(word in error.said for word in _WORDS):
        told = error.said
    else:
        return None
    hint = "see whose it is and whether it can be written: ls -ld; then run the same command again"
    return GoalseekError(told, hint, UNFIT, "repository")
