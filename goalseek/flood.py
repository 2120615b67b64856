"""How much a change may be: people read it, and each file of it becomes an object of git's. More is refused unread."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

FILES_MOST = 20_000
BYTES_MOST = 256 * 1024 * 1024


@dataclass
class Flood:
    """The files of one change, counted before any is read: one with holes in it is as large as it says."""

    files: int = 0
    size: int = 0

    def counted(self, path: Path) -> str:
        """Counts one more file; why that is too much, or "". Raises OSError where there is none."""
        found = path.lstat()
        size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        self.files += 1
        self.size += size
        if self.files > FILES_MOST:
            return f"the change has more than {FILES_MOST} files"
        if self.size > BYTES_MOST:
            return f"with its {size} bytes the change is larger than {BYTES_MOST // 1024**2} MiB"
        return ""
