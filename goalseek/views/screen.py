"""A panel at the foot of a terminal that keeps its place: when somebody resizes it, types, or stops us with ^Z."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TextIO

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.segment import ControlType
from rich.text import Text

from goalseek.process import is_ending

REFRESHES_A_SECOND = 2
_READ_SECONDS = 0.1
_Modes = list[int | list[bytes | int]]


def console_for(stream: TextIO, is_coloured: bool) -> Console:
    """A console that writes words as they are: nothing highlighted, nothing wrapped by us.

    It is as large as the terminal, whatever COLUMNS and LINES say: a panel that was drawn wider cannot be taken back.
    """
    return Console(
        file=stream,
        color_system="auto" if is_coloured else None,
        highlight=False,
        soft_wrap=True,
        no_color=False,
        _environ={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")},
    )


class Screen(Live):
    """``rows`` (columns) are shown at the foot, twice a second, until ``stop``; what is printed stands above them.

    A thread of rich's draws. Where the terminal is gone, or belongs to another program, nothing is drawn. ^Z takes the
    panel away before the process stops, and ``fg`` draws it anew.
    """

    def __init__(self, console: Console, rows: Callable[[int], list[Text]]) -> None:
        self._rows = _Rows(rows)
        self._typing: _Modes | None = None
        self._modes: _Modes | None = None
        self._stops_at_once = False
        super().__init__(
            self._rows,
            console=console,
            refresh_per_second=REFRESHES_A_SECOND,
            transient=True,
            redirect_stderr=sys.stderr.isatty(),
        )

    def start(self, refresh: bool = True) -> None:
        """Shows the panel; what is typed is not shown from now on, as it would stand in the panel."""
        self._silence()
        with contextlib.suppress(OSError):
            super().start(refresh)
        if threading.current_thread() is threading.main_thread():
            self._stops_at_once = signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
        if self._stops_at_once:
            signal.signal(signal.SIGTSTP, self._suspend)

    def stop(self) -> None:
        """Takes the panel away, and leaves the terminal as it was found."""
        if self._stops_at_once and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if not _is_ours():
            self._forget()
        try:
            with contextlib.suppress(OSError):
                super().stop()
        finally:
            self._unsilence()

    def refresh(self) -> None:
        """Draws the panel where it belongs now."""
        if not _is_ours():
            return
        with contextlib.suppress(OSError), self._lock:
            self._silence()
            self._follow_size()
            super().refresh()

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """What is printed, with the panel below; without it in the background."""
        if _is_ours():
            return super().process_renderables(renderables)
        self._forget()
        return renderables

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Stops the process as ^Z means it, but leaves nothing of the panel behind."""
        self._modes = _modes()
        self.stop()
        _forget_typed()
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)  # stops here, and goes on at ``fg`` or ``bg``
        self._forget()
        self.start()

    def _forget(self) -> None:
        """Nothing of what was drawn is on the screen any more, or in its place."""
        self.vertical_overflow = "ellipsis"
        self._live_render = LiveRender(self._rows, vertical_overflow=self.vertical_overflow)
        self._rows.columns = 0

    def _follow_size(self) -> None:
        """In a terminal that wraps long rows anew when it becomes narrower, goes down to where the panel begins now."""
        columns = self.console.width
        if self._rows.columns <= columns or not _wraps_anew():
            return
        height = min(len(self._rows.widths), self.console.height)
        more = sum(math.ceil(max(width, 1) / columns) for width in self._rows.widths[:height]) - height
        self._rows.columns = columns
        if more > 0:
            self.console.control(Control(*[(ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)] * more))

    def _silence(self) -> None:
        found = _modes() if self._typing is None and _is_ours() else None
        if found is None or not isinstance(found[3], int):
            return
        quiet = self._modes or [*found[:3], found[3] & ~termios.ECHO | termios.NOFLSH, *found[4:]]
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, quiet)
            self._typing = found

    def _unsilence(self) -> None:
        found, self._typing = self._typing, None
        if found is None or not _is_ours():
            return
        if is_ending():  # else another ^C takes away what the terminal has not read: that the panel is gone
            time.sleep(_READ_SECONDS)
            _forget_typed()
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, found)


class _Rows:
    """The rows as they were drawn last: how many columns there were, and how wide each row was."""

    def __init__(self, rows: Callable[[int], list[Text]]) -> None:
        self._rows = rows
        self.columns = 0
        self.widths: list[int] = []

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        drawn = self._rows(options.max_width)[: max(options.size.height - 1, 1)]  # a row that scrolls away stays
        self.columns, self.widths = options.max_width, [row.cell_len for row in drawn]
        yield from _each(drawn)


def _each(rows: list[Text]) -> Iterator[Text]:
    yield from rows


def _modes() -> _Modes | None:
    """How the terminal behaves; None where there is none."""
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        return None


def _forget_typed() -> None:
    """What ^C and ^Z do by themselves, but where they must not take away what we write."""
    if _is_ours():
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _is_ours() -> bool:
    """Whether we are in the foreground: who is not must neither draw nor change how the terminal behaves."""
    try:
        return sys.__stdout__ is None or os.tcgetpgrp(sys.__stdout__.fileno()) == os.getpgrp()
    except (OSError, ValueError):  # a terminal that controls nobody
        return True


def _wraps_anew() -> bool:
    """Whether a narrower terminal wraps what it shows already: nearly all do; xterm, screen and the console cut it."""
    kind = os.environ.get("TERM", "")
    return not os.environ.get("XTERM_VERSION") and kind != "linux" and (kind[:6] != "screen" or "TMUX" in os.environ)
