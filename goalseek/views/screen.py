"""A panel at the bottom of a terminal that survives resizing, typing, ^Z and printed lines."""

import math
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from rich.console import Console, ConsoleRenderable, Group
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.segment import ControlType
from rich.text import Text

from goalseek.process import is_ending
from goalseek.views.terminal_text import is_coloured, is_foreground

_READ_SECONDS = 0.1
_NO_TERMINAL = (termios.error, OSError, ValueError)


class Screen(Live):
    """A thread of rich draws ``rows(columns)`` twice a second until ``stop``; printed lines go above them.

    Nothing is drawn without a terminal or in the background; ^Z removes the panel, and ``fg`` draws it again.
    """

    def __init__(self, color: str, rows: Callable[[int], list[Text]]) -> None:
        # it ignores COLUMNS and LINES: a panel drawn too wide for the terminal could not be erased
        variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        console = Console(
            file=sys.stdout,
            color_system="auto" if is_coloured(sys.stdout, color) else None,
            highlight=False,
            soft_wrap=True,
            no_color=False,
            _environ=variables,
        )
        self._rows = rows
        self._columns = 0
        self._widths: list[int] = []
        self._saved_modes: list[Any] | None = None
        self._resumed_modes: list[Any] | None = None
        super().__init__(console=console, refresh_per_second=2, transient=True, redirect_stderr=sys.stderr.isatty())

    def start(self, refresh: bool = True) -> None:
        if signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL:  # before it draws: ^Z may come at once
            signal.signal(signal.SIGTSTP, self._suspend)
        self._echo_off()  # typed characters would appear inside the panel
        with suppress(OSError):
            super().start(refresh)

    def stop(self) -> None:
        if signal.getsignal(signal.SIGTSTP) == self._suspend:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if not is_foreground(sys.__stdout__):
            self._forget_drawing()
        try:
            with suppress(OSError):
                super().stop()
        finally:
            modes, self._saved_modes = self._saved_modes, None
            if modes is not None and is_foreground(sys.__stdout__):
                if is_ending():  # else another ^C discards output the terminal has not read yet: the panel's removal
                    time.sleep(_READ_SECONDS)
                    discard_input()
                with suppress(*_NO_TERMINAL):
                    termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, modes)

    def refresh(self) -> None:
        if is_foreground(sys.__stdout__):
            with suppress(OSError), self._lock:
                self._echo_off()
                super().refresh()

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """The printed lines, with the panel below; without it in the background."""
        with self._lock:
            if not is_foreground(sys.__stdout__):
                self._forget_drawing()
                return renderables
            columns, lines = self.console.size
            wrapped = 0  # rows more that the panel takes in a terminal that has become narrower and wraps rows again
            if self._columns > columns and _rewraps():
                wrapped = sum(math.ceil(max(width, 1) / columns) - 1 for width in self._widths[:lines])
            erase = Control(*[(ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)] * wrapped)
            rows = self._rows(columns)[: max(lines - 1, 1)]  # a row that scrolls out cannot be erased
            self._columns, self._widths = columns, [row.cell_len for row in rows]
            self._live_render.set_renderable(Group(*rows))
            return [erase, *super().process_renderables(renderables)]

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        with suppress(*_NO_TERMINAL):
            self._resumed_modes = termios.tcgetattr(sys.stdin.fileno())
        self.stop()
        discard_input()
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)  # stops here, and continues at ``fg`` or ``bg``
        self._forget_drawing()
        self.start()

    def _forget_drawing(self) -> None:  # it is not on the screen any more, or not where it was
        self._live_render = LiveRender("")
        self._columns = 0

    def _echo_off(self) -> None:
        if self._saved_modes is not None or not is_foreground(sys.__stdout__):
            return
        with suppress(*_NO_TERMINAL):
            modes: list[Any] = termios.tcgetattr(sys.stdin.fileno())
            quiet = self._resumed_modes or [*modes[:3], modes[3] & ~termios.ECHO | termios.NOFLSH, *modes[4:]]
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, quiet)
            self._saved_modes = modes


def discard_input() -> None:
    """As ^C and ^Z do without NOFLSH, which is set here because they would discard output too."""
    if is_foreground(sys.__stdout__):
        with suppress(*_NO_TERMINAL):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _rewraps() -> bool:
    kind = os.environ.get("TERM", "")  # most terminals rewrap a line that is too long; xterm, screen, the console cut
    return not os.environ.get("XTERM_VERSION") and kind != "linux" and (kind[:6] != "screen" or "TMUX" in os.environ)
