"""A full disk: recognised whoever says so, and never taken for the fault of the code that ran on it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

LEAST_BYTES = 2**20
_NUMBERS = (errno.ENOSPC, errno.EDQUOT)
_WORDS = (*map(os.strerror, _NUMBERS), "Out of diskspace")


def is_full_disk(error: BaseException) -> bool:
    """Whether it is the system that says so, or git, whose words are the C locale's."""
    return (isinstance(error, OSError) and error.errno in _NUMBERS) or any(word in str(error) for word in _WORDS)


def refuse_full(folder: Path) -> None:
    """Raises OSError (ENOSPC) where less than a MiB is left for ``folder``: a program that ran there proves little."""
    found = os.statvfs(folder)
    if found.f_blocks and found.f_bavail * found.f_frsize < LEAST_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
