"""goalseek at a terminal, with a person who reads and types."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

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


def on_a_terminal(
    folder: Path, *arguments: str, columns: int = 80, environment: Mapping[str, str] | None = None
) -> str:
    """What goalseek shows there; it must end with 0."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "goalseek", *arguments]
    given = {**os.environ, "TERM": "xterm-256color", **(environment or {})}
    started = subprocess.Popen(command, cwd=folder, stdin=its, stdout=its, stderr=its, env=given)
    os.close(its)
    shown = b""
    try:
        while read := os.read(ours, 65536):
            shown += read
    except OSError:  # how a terminal ends on Linux
        pass
    os.close(ours)
    assert started.wait() == 0, shown
    return shown.decode().replace("\r\n", "\n")
