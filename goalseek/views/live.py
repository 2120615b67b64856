"""The live view of a climb at a terminal: a panel at the bottom, and above it a permanent line for each iteration."""

from __future__ import annotations

import contextlib
import sys
import termios
import time
import typing
from collections.abc import Callable

from goalseek.process import is_ending
from goalseek.project.approval import Approval, Question
from goalseek.project.progress import Progress, format_turn
from goalseek.values import Phase, Stop
from goalseek.views.lines import LineWatch
from goalseek.views.panel import ASCII, Activity, Signs, panel_rows
from goalseek.views.terminal_text import TAIL_BYTES, Paint, is_coloured, last_clean_line, one_line

if typing.TYPE_CHECKING:
    from rich.text import Text

    from goalseek.views.screen import Screen


_ENDING = "interrupted; for what runs to end"


class LiveWatch(LineWatch):
    """The lines of ``LineWatch``, and below them the panel, from the first progress to the end. It must be closed."""

    def __init__(self, paint: Paint, is_verbose: bool, paint_chatter: Paint, color: str) -> None:
        """``color`` is "auto", "always" or "never"."""
        super().__init__(paint, False, is_verbose, paint_chatter)
        self._color = color
        self._signs = choose_signs(sys.stdout.encoding)
        self._screen: Screen | None = None
        self._progress: Progress | None = None
        self._progress_at = self._phase_start = self._wait_start = time.monotonic()
        self._iteration: int | None = None
        self._phase = self._turn = self._waits = ""
        self._turns = 0
        self._tail = b""

    def close(self) -> None:
        """Removes the panel."""
        screen, self._screen = self._screen, None
        if screen:
            screen.stop()

    def on_progress(self, progress: Progress) -> None:
        """The panel shows it."""
        self._progress, self._progress_at = progress, time.monotonic()
        self._open()

    def on_phase(self, iteration: int, name: str) -> None:
        """The panel shows it; also a line on stderr where ``is_verbose``."""
        self._iteration, self._phase, self._turn, self._turns = iteration, name, "", 0
        self._phase_start, self._tail = time.monotonic(), b""
        super().on_phase(iteration, name)

    def on_measurement(self, side: str, number: int) -> None:
        """The panel shows it."""
        self._turns += 1
        self._tail = b""
        if self._phase == Phase.SETTLE:
            self._turn = f"run {self._turns}, {'the best' if side == 'incumbent' else 'the baseline'}"
        elif self._phase == Phase.VERIFY:
            self._turn = format_turn(side, number)

    def on_wait(self, text: str) -> None:
        """The panel shows it; the time is added neither to the phase nor to the budget."""
        now = time.monotonic()
        if self._waits and not text:
            self._phase_start += now - self._wait_start
            self._progress_at += now - self._wait_start
        self._waits, self._wait_start = one_line(text), now

    def on_output(self, chunk: bytes) -> None:
        """The panel shows the last line of the output."""
        self._tail = (self._tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]

    def ask(self, question: Question, poll_approval: Callable[[], Approval | None]) -> Approval | None:
        """Replaces the panel by the question. Input typed before the question is discarded."""
        self.close()
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        approval = super().ask(question, poll_approval)
        self._open()
        return approval

    def on_stopped(self, stop: Stop) -> None:
        """Removes the panel; prints the last line."""
        self.close()
        super().on_stopped(stop)

    def on_failed(self, stop: Stop) -> None:
        """Removes the panel."""
        self.close()
        super().on_failed(stop)

    def _open(self) -> None:
        if self._screen:
            return
        from goalseek.views.screen import Screen, make_console

        self._screen = Screen(make_console(sys.stdout, is_coloured(sys.stdout, self._color)), self._rows)
        self._screen.start()

    def _rows(self, columns: int) -> list[Text]:
        assert self._progress
        now = time.monotonic()
        activity = Activity(
            iteration=self._iteration,
            phase=self._phase,
            seconds=now - self._phase_start,
            since=now - self._progress_at,
            turn=self._turn,
            waits=_ENDING if is_ending() else self._waits,
            says=last_clean_line(self._tail),
        )
        return panel_rows(self._progress, activity, columns, self._signs)


def choose_signs(encoding: str | None) -> Signs:
    """Line-drawing characters, or ASCII ones where the encoding lacks those."""
    signs = Signs()
    try:
        (signs.rule + signs.full + signs.rest + signs.heights + signs.dot).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return signs
