"""A panel at the bottom of a terminal that survives resizing, typing, ^Z and printed lines."""

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


def make_console(stream: TextIO, is_coloured: bool) -> Console:
    """A rich console without highlighting and wrapping.

    It has the size of the terminal and ignores COLUMNS and LINES: a panel drawn too wide could not be erased.
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
    """Shows ``rows(columns)`` at the bottom, drawn twice a second until ``stop``; printed lines go above them.

    A thread of rich draws. Where the terminal is gone, or this process is in the background, nothing is drawn. ^Z
    removes the panel before the process stops, and ``fg`` draws it again.
    """

    def __init__(self, console: Console, rows: Callable[[int], list[Text]]) -> None:
        self._rows = _Rows(rows)
        self._saved_modes: _Modes | None = None
        self._resumed_modes: _Modes | None = None
        self._handles_suspend = False
        super().__init__(
            self._rows,
            console=console,
            refresh_per_second=REFRESHES_A_SECOND,
            transient=True,
            redirect_stderr=sys.stderr.isatty(),
        )

    def start(self, refresh: bool = True) -> None:
        """Shows the panel, and turns the terminal's echo off: typed characters would appear inside the panel."""
        self._echo_off()
        with contextlib.suppress(OSError):
            super().start(refresh)
        if threading.current_thread() is threading.main_thread():
            self._handles_suspend = signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
        if self._handles_suspend:
            signal.signal(signal.SIGTSTP, self._suspend)

    def stop(self) -> None:
        """Removes the panel, and restores the modes of the terminal."""
        if self._handles_suspend and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if not _is_foreground():
            self._reset_render()
        try:
            with contextlib.suppress(OSError):
                super().stop()
        finally:
            self._restore_modes()

    def refresh(self) -> None:
        """Draws the panel for the present size of the terminal; nothing in the background."""
        if not _is_foreground():
            return
        with contextlib.suppress(OSError), self._lock:
            self._echo_off()
            self._adjust_to_width()
            super().refresh()

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """The printed lines, with the panel below; without it in the background."""
        if _is_foreground():
            return super().process_renderables(renderables)
        self._reset_render()
        return renderables

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Handles ^Z: removes the panel, stops the process, and draws the panel again when it is continued."""
        self._resumed_modes = _modes()
        self.stop()
        _flush_input()
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)  # stops here, and continues at ``fg`` or ``bg``
        self._reset_render()
        self.start()

    def _reset_render(self) -> None:
        """Forgets what was drawn: it is not on the screen any more, or not where it was."""
        self.vertical_overflow = "ellipsis"
        self._live_render = LiveRender(self._rows, vertical_overflow=self.vertical_overflow)
        self._rows.columns = 0

    def _adjust_to_width(self) -> None:
        """In a terminal that has become narrower and wraps rows again, erases the lines that the panel takes more."""
        columns = self.console.width
        if self._rows.columns <= columns or not _rewraps():
            return
        height = min(len(self._rows.widths), self.console.height)
        more = sum(math.ceil(max(width, 1) / columns) for width in self._rows.widths[:height]) - height
        self._rows.columns = columns
        if more > 0:
            self.console.control(Control(*[(ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)] * more))

    def _echo_off(self) -> None:
        modes = _modes() if self._saved_modes is None and _is_foreground() else None
        if modes is None or not isinstance(modes[3], int):
            return
        quiet = self._resumed_modes or [*modes[:3], modes[3] & ~termios.ECHO | termios.NOFLSH, *modes[4:]]
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, quiet)
            self._saved_modes = modes

    def _restore_modes(self) -> None:
        modes, self._saved_modes = self._saved_modes, None
        if modes is None or not _is_foreground():
            return
        if is_ending():  # else another ^C discards output the terminal has not read yet: the removal of the panel
            time.sleep(_READ_SECONDS)
            _flush_input()
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, modes)


class _Rows:
    """Draws the rows, and records the columns there were and the width of each row, in cells."""

    def __init__(self, rows: Callable[[int], list[Text]]) -> None:
        self._rows = rows
        self.columns = 0
        self.widths: list[int] = []

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = max(options.size.height - 1, 1)  # a row that scrolls out cannot be erased
        rows = self._rows(options.max_width)[:height]
        self.columns, self.widths = options.max_width, [row.cell_len for row in rows]
        yield from _each(rows)


def _each(rows: list[Text]) -> Iterator[Text]:
    yield from rows


def _modes() -> _Modes | None:
    """The modes of the terminal (termios); None where stdin is no terminal."""
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        return None


def _flush_input() -> None:
    """Discards unread input, as ^C and ^Z do without NOFLSH, which is set here as they would discard output too."""
    if _is_foreground():
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _is_foreground() -> bool:
    """Whether this process is in the foreground: otherwise it must neither draw nor change the terminal's modes."""
    try:
        return sys.__stdout__ is None or os.tcgetpgrp(sys.__stdout__.fileno()) == os.getpgrp()
    except (OSError, ValueError):  # not a controlling terminal
        return True


def _rewraps() -> bool:
    """Whether the terminal rewraps its lines when it becomes narrower: most do; xterm, screen and the console cut."""
    kind = os.environ.get("TERM", "")
    return not os.environ.get("XTERM_VERSION") and kind != "linux" and (kind[:6] != "screen" or "TMUX" in os.environ)
