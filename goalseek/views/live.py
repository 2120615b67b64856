"""The live view of a climb at a terminal: a panel at the bottom, and above it a permanent line for each iteration."""

from __future__ import annotations

import sys
import time
import typing
from collections.abc import Callable

from msgspec import structs

from goalseek.process import is_ending
from goalseek.project.approval import Approval, Question
from goalseek.project.picture import Picture, seconds_since
from goalseek.project.progress import Progress
from goalseek.views.lines import LineWatch
from goalseek.views.panel import Frame, format_silence, panel_rows
from goalseek.views.terminal_text import TAIL_BYTES, choose_signs, clean_lines

if typing.TYPE_CHECKING:
    from rich.text import Text

    from goalseek.views.screen import Screen


class LiveWatch(LineWatch):
    """The lines of ``LineWatch``, and below them the panel, from the first progress to the end. It must be closed.

    ``ended`` says how a climb ended that is only followed, once it has.
    """

    def __init__(self, color: str, is_verbose: bool) -> None:
        super().__init__(color, False, is_verbose)
        self.ended = ""
        self._color = color
        self._signs = choose_signs(sys.stdout)
        self._screen: Screen | None = None
        self._progress: Progress | None = None
        self._picture = Picture()
        self._progress_at = self._phase_start = self._wait_start = self._printed_at = time.monotonic()
        self._tail = b""
        self._is_asking = False

    def close(self) -> None:
        """Removes the panel, as the end of the invocation does."""
        screen, self._screen = self._screen, None
        if screen:
            screen.stop()

    def on_progress(self, progress: Progress) -> None:
        """The panel shows it."""
        self._progress, self._progress_at = progress, time.monotonic() - seconds_since(progress.read_at)
        self._open()

    def on_phase(self, iteration: int, name: str) -> None:
        """The panel shows it; also a line on stderr where ``is_verbose``."""
        self._picture = structs.replace(self._picture, phase=None, phase_started_at=None, turn="")
        self.on_picture(structs.replace(self._picture, iteration=iteration, phase=name))
        super().on_phase(iteration, name)

    def on_picture(self, picture: Picture) -> None:
        """The panel shows it; the time of a wait is added neither to the phase nor to the budget."""
        now, before, self._picture = time.monotonic(), self._picture, picture
        if before.waits and not picture.waits:
            self._phase_start += now - self._wait_start
            self._progress_at += now - self._wait_start
        if before.waits != picture.waits:
            self._wait_start = self._printed_at = now
        if (before.iteration, before.phase) != (picture.iteration, picture.phase):
            self._phase_start, self._printed_at = now - seconds_since(picture.phase_started_at), now
            self._tail = b""
        if before.turn != picture.turn:
            self._tail = b""
        if before.started_at != picture.started_at:
            self._progress_at = max(self._progress_at, now - seconds_since(picture.started_at))

    def on_output(self, chunk: bytes) -> None:
        """The panel shows the last line of the output."""
        self._printed_at = time.monotonic()
        self._tail = (self._tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]

    def ask(self, question: Question, poll_approval: Callable[[], Approval | None]) -> Approval | None:
        """Replaces the panel by the question. Input typed before the question is discarded."""
        from goalseek.views.screen import discard_input

        self.close()
        discard_input()
        self._is_asking = True
        approval = super().ask(question, poll_approval)
        self._is_asking = False
        self._open()
        return approval

    def _open(self) -> None:
        from goalseek.views.screen import Screen

        if self._screen is None and not self._is_asking:
            self._screen = Screen(self._color, self._rows)
            self._screen.start()

    def _rows(self, columns: int) -> list[Text]:
        assert self._progress
        now, picture = time.monotonic(), self._picture
        if is_ending():
            picture = structs.replace(picture, status="waiting", next="interrupted; for what runs to end")
        silence = max(now - self._printed_at, seconds_since(picture.silent_since))
        says = format_silence(silence) or next(iter(clean_lines(self._tail)[::-1]), "").strip()
        frame = Frame(self._progress, picture, now - self._phase_start, now - self._progress_at, says)
        if self.ended:
            frame = Frame(self._progress, ended=self.ended)
        return panel_rows(frame, columns, self._signs)
