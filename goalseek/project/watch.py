"""What a view is told while a climb goes on. Each method does nothing here; a view overrides what it shows."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

if typing.TYPE_CHECKING:
    from goalseek.ledger.records import HoldoutRecord, IterationRecord, SettleRecord
    from goalseek.project.approval import Approval, Question
    from goalseek.project.progress import Progress
    from goalseek.sandbox.level import SandboxLevel
    from goalseek.values import Stop


class Watch:
    """Told by the loop, in the order in which things happen."""

    def on_note(self, text: str) -> None:
        """Something that a person should know."""

    def on_sandbox(self, level: SandboxLevel, not_enforced: tuple[str, ...]) -> None:
        """At which level programs are kept in their place, and what they can do in spite of it."""

    def on_budget(self, text: str) -> None:
        """Most of a budget is spent."""
        self.on_note(text)

    def on_progress(self, scene: Progress) -> None:
        """Where the climb stands before each iteration and at the end, and what bounds it."""

    def on_phase(self, iteration: int, name: str) -> None:
        """A phase begins."""

    def on_measurement(self, of: str, place: int) -> None:
        """VERIFY begins a run, counted from 1, of the "candidate" or the "incumbent"."""

    def on_wait(self, text: str) -> None:
        """Nothing goes on but a wait, and what for; "" at its end."""

    def on_output(self, chunk: bytes) -> None:
        """A provider or the verifier printed something."""

    def on_record(self, record: IterationRecord) -> None:
        """An iteration ended, and counts."""

    def on_settled(self, record: SettleRecord) -> None:
        """The result was measured afresh."""

    def on_holdout(self, record: HoldoutRecord) -> None:
        """A look at the holdout was made."""

    def is_attended(self) -> bool:
        """Whether a person is there who can be asked."""
        return False

    def ask(self, question: Question, given: Callable[[], Approval | None]) -> Approval | None:
        """A person's word on a verdict, where one is there; ``given`` looks for one that came from elsewhere.

        None where nobody will answer any more. May take hours; is left by KeyboardInterrupt to be asked again.
        """
        return None

    def on_stopped(self, stop: Stop) -> None:
        """The invocation ends."""

    def on_failed(self, stop: Stop) -> None:
        """The invocation ends by an error, which the command shows."""


class Relay(Watch):
    """Hands everything on to ``shown``."""

    def __init__(self, shown: Watch) -> None:
        self._shown = shown

    def on_note(self, text: str) -> None:
        """Handed on."""
        self._shown.on_note(text)

    def on_sandbox(self, level: SandboxLevel, not_enforced: tuple[str, ...]) -> None:
        """Handed on."""
        self._shown.on_sandbox(level, not_enforced)

    def on_budget(self, text: str) -> None:
        """Handed on."""
        self._shown.on_budget(text)

    def on_progress(self, scene: Progress) -> None:
        """Handed on."""
        self._shown.on_progress(scene)

    def on_phase(self, iteration: int, name: str) -> None:
        """Handed on."""
        self._shown.on_phase(iteration, name)

    def on_measurement(self, of: str, place: int) -> None:
        """Handed on."""
        self._shown.on_measurement(of, place)

    def on_wait(self, text: str) -> None:
        """Handed on."""
        self._shown.on_wait(text)

    def on_output(self, chunk: bytes) -> None:
        """Handed on."""
        self._shown.on_output(chunk)

    def on_record(self, record: IterationRecord) -> None:
        """Handed on."""
        self._shown.on_record(record)

    def on_settled(self, record: SettleRecord) -> None:
        """Handed on."""
        self._shown.on_settled(record)

    def on_holdout(self, record: HoldoutRecord) -> None:
        """Handed on."""
        self._shown.on_holdout(record)

    def is_attended(self) -> bool:
        """As the other watch has it."""
        return self._shown.is_attended()

    def ask(self, question: Question, given: Callable[[], Approval | None]) -> Approval | None:
        """Handed on."""
        return self._shown.ask(question, given)

    def on_stopped(self, stop: Stop) -> None:
        """Handed on."""
        self._shown.on_stopped(stop)

    def on_failed(self, stop: Stop) -> None:
        """Handed on."""
        self._shown.on_failed(stop)


OUTPUT = "output.log"
BYTES_MOST = 2**20


class OutputLog(Relay):
    """Writes output into a file that begins anew past a mebibyte, and hands everything on.

    For people, never read to decide: where it cannot be written, it is not.
    """

    def __init__(self, shown: Watch, path: Path) -> None:
        super().__init__(shown)
        self._path = path
        self._file: BinaryIO | None = None
        self._title = b""

    def on_phase(self, iteration: int, name: str) -> None:
        """Handed on; the phase's name stands above what it prints."""
        self._title = f"[{name} of iteration {iteration}]\n".encode()
        super().on_phase(iteration, name)

    def on_output(self, chunk: bytes) -> None:
        """Written, and handed on."""
        with contextlib.suppress(OSError):
            self._write(self._title + chunk[-BYTES_MOST:])
            self._title = b""
        super().on_output(chunk)

    def on_stopped(self, stop: Stop) -> None:
        """Handed on; the file is closed."""
        self._close()
        super().on_stopped(stop)

    def on_failed(self, stop: Stop) -> None:
        """Handed on; the file is closed."""
        self._close()
        super().on_failed(stop)

    def _write(self, content: bytes) -> None:
        if self._file is None:
            self._file = self._path.open("wb", buffering=0)
        if self._file.tell() + len(content) > BYTES_MOST:
            self._file.seek(0)
            self._file.truncate()
        self._file.write(content)

    def _close(self) -> None:
        if self._file:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
