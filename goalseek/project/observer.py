"""The observer of a climb, an observer that forwards to another one, and the log of the programs' output.

The loop calls ``on_...`` as things happen. Each method does nothing here; a view overrides what it shows.
"""

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


class Observer:
    """The loop calls these methods in the order in which things happen."""

    def on_note(self, text: str) -> None:
        """Something that a person should know."""

    def on_sandbox(self, level: SandboxLevel, not_enforced: tuple[str, ...]) -> None:
        """The level of the sandbox, and what programs can do in spite of it."""

    def on_budget(self, text: str) -> None:
        """Most of a budget is spent."""
        self.on_note(text)

    def on_progress(self, progress: Progress) -> None:
        """The values and budgets of the climb, before each iteration and at the end."""

    def on_phase(self, iteration: int, name: str) -> None:
        """A phase begins."""

    def on_measurement(self, side: str, number: int) -> None:
        """VERIFY begins a run, counted from 1, of the "candidate" or the "incumbent"."""

    def on_wait(self, text: str) -> None:
        """A wait begins, with what for; "" at its end."""

    def on_output(self, chunk: bytes) -> None:
        """A provider or the verifier printed something."""

    def on_record(self, record: IterationRecord) -> None:
        """An iteration ended, and counts."""

    def on_settled(self, record: SettleRecord) -> None:
        """The result was measured afresh."""

    def on_holdout(self, record: HoldoutRecord) -> None:
        """A look at the holdout was made."""

    def is_attended(self) -> bool:
        """Whether a person can be asked."""
        return False

    def ask(self, question: Question, read_approval: Callable[[], Approval | None]) -> Approval | None:
        """A person's approval of a verdict; ``read_approval`` looks for one that was given by another process.

        None where nobody will answer any more. May take hours; KeyboardInterrupt leaves it, to be asked again.
        """
        return None

    def on_stopped(self, stop: Stop) -> None:
        """The invocation ends."""

    def on_failed(self, stop: Stop) -> None:
        """The invocation ends by an error, which the command shows."""


class ForwardingObserver(Observer):
    """Forwards everything to ``target``."""

    def __init__(self, target: Observer) -> None:
        self._target = target

    def on_note(self, text: str) -> None:
        """Forwarded."""
        self._target.on_note(text)

    def on_sandbox(self, level: SandboxLevel, not_enforced: tuple[str, ...]) -> None:
        """Forwarded."""
        self._target.on_sandbox(level, not_enforced)

    def on_budget(self, text: str) -> None:
        """Forwarded."""
        self._target.on_budget(text)

    def on_progress(self, progress: Progress) -> None:
        """Forwarded."""
        self._target.on_progress(progress)

    def on_phase(self, iteration: int, name: str) -> None:
        """Forwarded."""
        self._target.on_phase(iteration, name)

    def on_measurement(self, side: str, number: int) -> None:
        """Forwarded."""
        self._target.on_measurement(side, number)

    def on_wait(self, text: str) -> None:
        """Forwarded."""
        self._target.on_wait(text)

    def on_output(self, chunk: bytes) -> None:
        """Forwarded."""
        self._target.on_output(chunk)

    def on_record(self, record: IterationRecord) -> None:
        """Forwarded."""
        self._target.on_record(record)

    def on_settled(self, record: SettleRecord) -> None:
        """Forwarded."""
        self._target.on_settled(record)

    def on_holdout(self, record: HoldoutRecord) -> None:
        """Forwarded."""
        self._target.on_holdout(record)

    def is_attended(self) -> bool:
        """Whether the target can ask a person."""
        return self._target.is_attended()

    def ask(self, question: Question, read_approval: Callable[[], Approval | None]) -> Approval | None:
        """Forwarded."""
        return self._target.ask(question, read_approval)

    def on_stopped(self, stop: Stop) -> None:
        """Forwarded."""
        self._target.on_stopped(stop)

    def on_failed(self, stop: Stop) -> None:
        """Forwarded."""
        self._target.on_failed(stop)


OUTPUT = "output.log"
MAX_BYTES = 2**20


class OutputLog(ForwardingObserver):
    """Writes output to a file that begins anew past a mebibyte, and forwards everything.

    For people, never read to decide: where it cannot be written, output is not logged.
    """

    def __init__(self, target: Observer, path: Path) -> None:
        super().__init__(target)
        self._path = path
        self._file: BinaryIO | None = None
        self._title = b""

    def on_phase(self, iteration: int, name: str) -> None:
        """Forwarded; the phase's name is written above what it prints."""
        self._title = f"[{name} of iteration {iteration}]\n".encode()
        super().on_phase(iteration, name)

    def on_output(self, chunk: bytes) -> None:
        """Written, and forwarded."""
        with contextlib.suppress(OSError):
            self._write(self._title + chunk[-MAX_BYTES:])
            self._title = b""
        super().on_output(chunk)

    def on_stopped(self, stop: Stop) -> None:
        """Forwarded; the file is closed."""
        self._close()
        super().on_stopped(stop)

    def on_failed(self, stop: Stop) -> None:
        """Forwarded; the file is closed."""
        self._close()
        super().on_failed(stop)

    def _write(self, content: bytes) -> None:
        if self._file is None:
            self._file = self._path.open("wb", buffering=0)
        if self._file.tell() + len(content) > MAX_BYTES:
            self._file.seek(0)
            self._file.truncate()
        self._file.write(content)

    def _close(self) -> None:
        if self._file:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
