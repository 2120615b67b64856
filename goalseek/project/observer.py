"""The observer of a climb, several observers in one, and the log of the programs' output.

The loop calls ``on_...`` as things happen. Each method does nothing here; a view overrides what it shows.
"""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

if typing.TYPE_CHECKING:
    from goalseek.project.approval import Approval, Question
    from goalseek.project.picture import Picture
    from goalseek.project.progress import Progress
    from goalseek.records import HoldoutRecord, IterationRecord, SettleRecord
    from goalseek.sandbox.level import SandboxLevel
    from goalseek.values import Stop


class Observer:
    """The loop calls these methods in the order in which things happen."""

    def of(self, iteration: int) -> Observer:
        """The observer of what happens in one of several iterations that are under way at once."""
        return self

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

    def on_picture(self, picture: Picture) -> None:
        """What the run does now is something else: a phase, a run of the verifier, a wait or its end."""

    def on_output(self, chunk: bytes) -> None:
        """A provider or the verifier printed something."""

    def on_record(self, record: IterationRecord | SettleRecord | HoldoutRecord) -> None:
        """An iteration ended, and counts; the result was measured afresh; or a look at the holdout was made."""

    def on_question(self, question: Question) -> None:
        """A verdict waits for a person's approval, who is to be asked."""

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
        """The invocation ends by an error or a signal, which the command shows."""
        self.on_stopped(stop)


class Observers(Observer):
    """Calls each of ``observers``, in this order; those that can ask a person are asked until one has an answer."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def of(self, iteration: int) -> Observer:
        """Those of one iteration."""
        return Observers(*(observer.of(iteration) for observer in self._observers))

    def is_attended(self) -> bool:
        """Whether one of them can ask a person."""
        return any(observer.is_attended() for observer in self._observers)

    def ask(self, question: Question, read_approval: Callable[[], Approval | None]) -> Approval | None:
        """The first answer."""
        answers = (observer.ask(question, read_approval) for observer in self._observers)
        return next(filter(None, answers), None)


def _for_each(name: str) -> Callable[..., None]:
    def call(self: Observers, *arguments: object) -> None:
        for observer in self._observers:
            getattr(observer, name)(*arguments)

    return call


for _name in vars(Observer):
    if _name.startswith("on_"):
        setattr(Observers, _name, _for_each(_name))


OUTPUT = "output.log"
MAX_BYTES = 2**20


class OutputLog(Observer):
    """Writes output to a file that begins anew past a mebibyte.

    For people, never read to decide: where it cannot be written, output is not logged. Those of several iterations
    write to the file of the ``whole``, each its title wherever another one has written there.
    """

    def __init__(self, path: Path, whole: OutputLog | None = None) -> None:
        self._path = path
        self._whole = whole or self
        self._title = self._last_title = b""
        self._file: BinaryIO | None = None

    def of(self, iteration: int) -> OutputLog:
        """Writes to the same file."""
        return OutputLog(self._path, self._whole)

    def on_phase(self, iteration: int, name: str) -> None:
        """The phase's name is written above what it prints."""
        self._title = f"[{name} of iteration {iteration}]\n".encode()

    def on_output(self, chunk: bytes) -> None:
        """Written, with the title where this one is a new one."""
        whole, content = self._whole, chunk[-MAX_BYTES:]
        if self._title is not whole._last_title:
            whole._last_title, content = self._title, self._title + content
        with contextlib.suppress(OSError):
            file = whole._file = whole._file or self._path.open("wb", buffering=0)
            if file.tell() + len(content) > MAX_BYTES:
                file.seek(0)
                file.truncate()
            file.write(content)

    def on_stopped(self, stop: Stop) -> None:
        """The file is closed."""
        if self._file:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
