"""goalseek at a terminal, with a person who reads and types."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time

from project import Project


class Terminal:
    """goalseek at a terminal of its own."""

    def __init__(self, project: Project, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "goalseek", *arguments]
        self.child = subprocess.Popen(
            command, cwd=project.folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self._unread = ""

    def until(self, mark: str) -> str:
        """What is shown up to and with ``mark``, since the last time."""
        deadline = time.monotonic() + 30
        while mark not in self._unread:
            assert time.monotonic() < deadline, self._unread
            self._unread += os.read(self._ours, 4096).decode("utf-8", "replace")
        seen, _, self._unread = self._unread.partition(mark)
        return seen + mark

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def ended(self) -> int:
        code = self.child.wait(timeout=30)
        os.close(self._ours)
        return code
