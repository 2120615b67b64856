"""goalseek at a terminal, with a person who reads and types."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from project import Project


def read_soon(descriptor: int) -> bytes:
    """What comes next, within a minute; nothing at the end."""
    assert select.select([descriptor], [], [], 60)[0], "nothing came for a minute"
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how a terminal ends on Linux
        return b""


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
            read = read_soon(self._ours)
            assert read, self._unread
            self._unread += read.decode("utf-8", "replace")
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
    while read := read_soon(ours):
        shown += read
    os.close(ours)
    assert started.wait(timeout=120) == 0, shown
    return shown.decode().replace("\r\n", "\n")
