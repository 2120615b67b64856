"""A climb at a terminal: a panel at the foot, and above it a line for each iteration, which stays."""

from __future__ import annotations

import contextlib
import sys
import termios
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from goalseek.process import is_ending
from goalseek.project.approval import Approval, Question
from goalseek.project.progress import Progress, turn_in_words
from goalseek.values import Stop
from goalseek.views.lines import LineWatch
from goalseek.views.panel import TYPED, Activity, Signs, rows
from goalseek.views.terminal_text import TAIL_BYTES, Paint, is_coloured, last_line_of, one_line

if TYPE_CHECKING:
    from rich.text import Text

    from goalseek.views.screen import Screen

_ENDING = "interrupted; for what runs to end"


class LiveWatch(LineWatch):
    """Lines as ever, and below them the panel, from the first scene to the end. Close it."""

    def __init__(self, paint: Paint, is_verbose: bool, paint_chatter: Paint, color: str) -> None:
        """``color`` is "auto", "always" or "never"."""
        super().__init__(paint, False, is_verbose, paint_chatter)
        self._color = color
        self._signs = signs_for(sys.stdout.encoding)
        self._screen: Screen | None = None
        self._scene: Progress | None = None
        self._told_at = self._began = self._waited_at = time.monotonic()
        self._iteration: int | None = None
        self._phase = self._turn = self._waits = ""
        self._turns = 0
        self._tail = b""

    def close(self) -> None:
        """Takes the panel away."""
        screen, self._screen = self._screen, None
        if screen:
            screen.stop()

    def on_progress(self, scene: Progress) -> None:
        """The panel shows it."""
        self._scene, self._told_at = scene, time.monotonic()
        self._open()

    def on_phase(self, iteration: int, name: str) -> None:
        """The panel shows it; a line of chatter where it is wanted."""
        self._iteration, self._phase, self._turn, self._turns = iteration, name, "", 0
        self._began, self._tail = time.monotonic(), b""
        super().on_phase(iteration, name)

    def on_measurement(self, of: str, place: int) -> None:
        """The panel shows it."""
        self._turns += 1
        self._tail = b""
        if self._phase == "SETTLE":
            self._turn = f"run {self._turns}, the {'best' if of == 'incumbent' else 'baseline'}"
        elif self._phase == "VERIFY":
            self._turn = turn_in_words(of, place)

    def on_wait(self, text: str) -> None:
        """The panel shows it; neither the phase nor the budget is charged with the time."""
        now = time.monotonic()
        if self._waits and not text:
            self._began += now - self._waited_at
            self._told_at += now - self._waited_at
        self._waits, self._waited_at = one_line(text), now

    def on_output(self, chunk: bytes) -> None:
        """Of what is printed the panel shows the last line."""
        self._tail = (self._tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]

    def ask(self, question: Question, given: Callable[[], Approval | None]) -> Approval | None:
        """Asks in place of the panel. What was typed before the question is no answer to it."""
        self.close()
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        word = super().ask(question, given)
        self._open()
        return word

    def on_stopped(self, stop: Stop) -> None:
        """The panel goes, the last line stays."""
        self.close()
        super().on_stopped(stop)

    def on_failed(self, stop: Stop) -> None:
        """The panel goes."""
        self.close()
        super().on_failed(stop)

    def _open(self) -> None:
        if self._screen:
            return
        from goalseek.views.screen import Screen, console_for

        self._screen = Screen(console_for(sys.stdout, is_coloured(sys.stdout, self._color)), self._rows)
        self._screen.start()

    def _rows(self, columns: int) -> list[Text]:
        assert self._scene
        now = time.monotonic()
        doing = Activity(
            iteration=self._iteration,
            phase=self._phase,
            seconds=now - self._began,
            since=now - self._told_at,
            turn=self._turn,
            waits=_ENDING if is_ending() else self._waits,
            says=last_line_of(self._tail),
        )
        return rows(self._scene, doing, columns, self._signs)


def signs_for(encoding: str | None) -> Signs:
    """Drawn signs, or typed ones where the encoding knows no others."""
    signs = Signs()
    try:
        (signs.rule + signs.full + signs.rest + signs.heights + signs.dot).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return TYPED
    return signs
