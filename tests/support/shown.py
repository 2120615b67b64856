"""goalseek on a terminal whose screen is worked out as a terminal does it, of any size, also while it is resized."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyte
from project import FILES, JUDGE, Project, answer

SECONDS_MOST = 30.0


class Shown:
    """A terminal that cuts rows when it becomes narrower, as xterm does, and controls what runs on it."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        columns: int = 80,
        lines: int = 24,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "goalseek"),
    ) -> None:
        self.raw = b""
        self._heard = 0
        self.screen = pyte.HistoryScreen(columns, lines, history=1000, ratio=1)
        self._stream = pyte.ByteStream(self.screen)
        self._ours, self.theirs = pty.openpty()
        self._set_size(columns, lines)
        given = {**os.environ, "TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)", **(environment or {})}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            if name not in (environment or {}):
                given.pop(name, None)

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.child = subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env=given,
            preexec_fn=take_terminal,
        )

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.terminate()
        self.close()
        self.child.wait(timeout=SECONDS_MOST)

    def close(self) -> None:
        for descriptor in (self._ours, self.theirs):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def rows(self) -> list[str]:
        """What is on the screen, without empty rows at its end."""
        rows = [row.rstrip() for row in self.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def text(self) -> str:
        return "\n".join(self.rows())

    def everything(self) -> list[str]:
        """What is on the screen, and above it what has left it."""
        columns = range(self.screen.columns)
        return ["".join(row[place].data for place in columns).rstrip() for row in self.screen.history.top] + self.rows()

    def hear(self, mark: str) -> str:
        """What was written up to and with ``mark``, since the last time."""
        self._read_until(lambda: self.raw.find(mark.encode(), self._heard) >= 0)
        began, self._heard = self._heard, self.raw.index(mark.encode(), self._heard) + len(mark.encode())
        return self.raw[began : self._heard].decode("utf-8", "replace")

    def ended(self) -> int:
        code = self.child.wait(timeout=SECONDS_MOST)
        self.close()
        return code

    def until(self, holds: Callable[[str], bool]) -> list[str]:
        """The screen as soon as it is so."""
        self._read_until(lambda: holds(self.text()))
        return self.rows()

    def until_end(self) -> list[str]:
        self._read_until(lambda: self.child.poll() is not None)
        while self.read(0.0):
            pass
        return self.rows()

    def _read_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MOST
        while not holds():
            assert time.monotonic() < deadline, self.text()
            self.read(0.05)

    def read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        read = os.read(self._ours, 65536)
        self.raw += read
        self._stream.feed(read)
        return True

    def resize(self, columns: int, lines: int = 24) -> None:
        self.screen.resize(lines, columns)
        self._set_size(columns, lines)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.theirs)[3] & termios.ECHO)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def read_soon(descriptor: int) -> bytes:
    """What comes next, within a minute; nothing at the end."""
    assert select.select([descriptor], [], [], 60)[0], "nothing came for a minute"
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how a terminal ends on Linux
        return b""


def on_a_terminal(folder: Path, *arguments: str, **how: Any) -> str:
    """What goalseek shows there; it must end with 0. ``how`` is ``Shown``'s."""
    with Shown(folder, *arguments, **how) as shown:
        shown.until_end()
        assert shown.child.returncode == 0, shown.raw
    return shown.raw.decode().replace("\r\n", "\n")


def waiting_project(
    top: Path, go: Path, scores: Sequence[float], climbed: int, prints: str = "", **manifest: object
) -> Project:
    """A project whose measurements print and then wait for the file ``go``; it climbed so many steps."""
    judge = f"""printf '{prints}'\nuntil [ -e "$WAIT" ]; do sleep 0.02; done\n{JUDGE}"""
    waits = {"env": {"verify": {"set": {"WAIT": str(go)}}}}
    project = Project.make(top, {**FILES, "hidden/judge.sh": judge}, {**manifest, **waits})
    project.set_moves(*map(answer, scores))
    go.touch()
    project.climb("iterate", "-n", str(climbed))
    go.unlink()
    return project
