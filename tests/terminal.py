"""A command line on a pseudo-terminal of a given size."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path


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
