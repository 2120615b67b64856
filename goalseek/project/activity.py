"""The activity of an invocation: its picture, the seconds of its phases, and the observers of its events."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import threading
import time
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, structs

from goalseek.disk import write_atomic
from goalseek.humanize import format_moment
from goalseek.ledger.checkpoints import SECONDS, Checkpoints
from goalseek.project.limits import Clock
from goalseek.project.picture import Picture
from goalseek.values import Phase, Stop, to_plain

if typing.TYPE_CHECKING:
    from goalseek.project.approval import Approval, Question
    from goalseek.project.progress import Progress
    from goalseek.records import HoldoutRecord, IterationRecord, SettleRecord
    from goalseek.sandbox.level import SandboxLevel

BEAT_SECONDS = 0.5
HEARTBEAT_SECONDS = 5.0
MOMENT_SECONDS = 2.0
OUTPUT = "output.log"
MAX_OUTPUT = 2**20


class Observer:
    """Receives the events of the loop. Each method does nothing here; a view overrides those that it shows."""

    def of(self, iteration: int) -> Observer:
        """The observer of one of several iterations under way."""
        return self

    def on_note(self, text: str) -> None:
        pass

    def on_sandbox(self, level: SandboxLevel, not_enforced: tuple[str, ...]) -> None:
        """``not_enforced``: accesses that programs have in spite of the sandbox."""

    def on_budget(self, text: str) -> None:
        self.on_note(text)

    def on_progress(self, progress: Progress) -> None:
        """Called before each iteration and at the end."""

    def on_phase(self, iteration: int, name: str) -> None:
        pass

    def on_picture(self, picture: Picture) -> None:
        """Another phase, run of the verifier or wait began, or the wait ended."""

    def on_output(self, chunk: bytes) -> None:
        """Output of a provider or of the verifier."""

    def on_record(self, record: IterationRecord | SettleRecord | HoldoutRecord) -> None:
        """Called once the record counts."""

    def on_question(self, question: Question) -> None:
        """A verdict waits for a person, who has to be asked."""

    def is_attended(self) -> bool:
        return False

    def ask(self, question: Question, read_approval: Callable[[], Approval | None]) -> Approval | None:
        """A person's answer; ``read_approval`` looks for one that another process stored.

        None if nobody will answer any more. May take hours; KeyboardInterrupt leaves it, to be asked again.
        """
        return None

    def on_stopped(self, stop: Stop) -> None:
        pass

    def on_failed(self, stop: Stop) -> None:
        """An error or a signal ends the invocation; the command shows it."""
        self.on_stopped(stop)


class Observers(Observer):
    """Calls every observer in order; asks those that can ask a person until one has an answer."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers
        for name in vars(Observer):
            if name.startswith("on_"):
                setattr(self, name, functools.partial(self._tell, name))

    def _tell(self, name: str, *arguments: object) -> None:
        for observer in self._observers:
            getattr(observer, name)(*arguments)

    def of(self, iteration: int) -> Observer:
        return Observers(*(observer.of(iteration) for observer in self._observers))

    def is_attended(self) -> bool:
        return any(observer.is_attended() for observer in self._observers)

    def ask(self, question: Question, read_approval: Callable[[], Approval | None]) -> Approval | None:
        answers = (observer.ask(question, read_approval) for observer in self._observers)
        return next(filter(None, answers), None)


class OutputLog(Observer):
    """Writes output for people to a file, which begins anew past a mebibyte; errors of the disk are ignored."""

    def __init__(self, path: Path, whole: OutputLog | None = None) -> None:
        self._path = path
        self._whole = whole or self  # several iterations write to one file, each under its title
        self._title = self._last_title = b""
        self._file: BinaryIO | None = None

    def of(self, iteration: int) -> OutputLog:
        return OutputLog(self._path, self._whole)

    def on_phase(self, iteration: int, name: str) -> None:
        self._title = f"[{name} of iteration {iteration}]\n".encode()

    def on_output(self, chunk: bytes) -> None:
        whole, content = self._whole, chunk[-MAX_OUTPUT:]
        if self._title is not whole._last_title:
            whole._last_title, content = self._title, self._title + content
        with contextlib.suppress(OSError):
            file = whole._file = whole._file or self._path.open("wb", buffering=0)
            if file.tell() + len(content) > MAX_OUTPUT:
                file.seek(0)
                file.truncate()
            file.write(content)

    def on_stopped(self, stop: Stop) -> None:
        if self._file:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


class Timing(Struct):
    seconds: float = 0.0  # set once the block is over


class PhaseSeconds:
    """Active seconds by phase for the next record, stored with ``checkpoints``."""

    def __init__(self, checkpoints: Checkpoints, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._checkpoints = checkpoints
        self.phases = checkpoints.load_seconds()
        self.before = sum(self.phases.values())  # of a process that was killed
        self._phase = ""
        self._counted_until = 0.0
        self._stored_at = clock()
        self._is_stored = True

    @contextlib.contextmanager
    def of(self, phase: str) -> Iterator[Timing]:
        """Add the block's duration to the phase, however it ends; store it at once if the block raises."""
        timing, is_cut_short = Timing(), True
        began = self._counted_until = self._clock()
        self._phase = phase
        try:
            yield timing
            is_cut_short = False
        finally:
            self._count(self._clock(), is_cut_short)
            timing.seconds = self._counted_until - began
            self._phase = ""

    def beat(self) -> None:
        """Store the seconds of the current phase, at most every BEAT_SECONDS."""
        if self._phase and (now := self._clock()) - self._counted_until >= BEAT_SECONDS:
            self._count(now, must_store=True)

    @property
    def uncounted(self) -> float:
        return self._clock() - self._counted_until if self._phase else 0.0

    def forget(self) -> None:
        self._checkpoints.forget(SECONDS)
        self._is_stored = True

    def close(self) -> None:
        """Store the remaining seconds: ``status`` and the limits of the next process count them."""
        if not self._is_stored:
            self._checkpoints.note_seconds(self.phases)

    def _count(self, now: float, must_store: bool) -> None:
        self.phases[self._phase] = self.phases.get(self._phase, 0.0) + now - self._counted_until
        self._counted_until = now
        self._is_stored = must_store or now - self._stored_at >= BEAT_SECONDS  # a phase's checkpoint says it too
        if self._is_stored:
            self._stored_at = now
            self._checkpoints.note_seconds(self.phases)


class Activity:
    """The picture of an invocation and its active seconds. Without a ``path``, or once its folder is gone, no file."""

    def __init__(self, path: Path | None, observer: Observer) -> None:
        self.observer = observer
        self.picture = Picture()
        self.clock = Clock()  # of deadlines
        self.started_at = format_moment()
        self.last_phase = ""
        self.phase_seconds: PhaseSeconds | None = None
        self.waited: dict[str, float] = {}  # seconds since the last record, by cause
        self._path = path
        self._turns = 0
        self._written_at = 0.0
        self._has_unwritten = False
        self._idle_seconds = 0.0
        self._wait_start: float | None = None

    def beside(self, observer: Observer) -> Activity:
        """The activity of another thread of this invocation: phases and waits of its own, no file."""
        other = copy.copy(self)
        other.picture, other._path, other.observer = Picture(), None, observer
        other.last_phase, other.phase_seconds, other.waited, other._wait_start = "", None, {}, None
        return other

    @property
    def is_shown(self) -> bool:
        return self.picture != Picture()

    def show(self, picture: Picture) -> None:
        is_same_status = picture.status == self.picture.status
        if picture.phase != self.picture.phase:
            self._turns = 0
        self.picture = picture
        self.observer.on_picture(picture)
        self._has_unwritten = True
        # The next heartbeat writes an earlier picture: nobody reads faster, and each write makes the disk work.
        if not is_same_status or self._seconds_since_write() >= BEAT_SECONDS:
            self.write()

    def show_turn(self, side: str, number: int, so_far: str) -> None:
        """Show the run of the verifier, and what came of those before it; settling counts the runs of both trees."""
        phase = self.picture.phase
        if phase == Phase.SETTLE:
            self._turns += 1
            turn = f"run {self._turns}, {'the best' if side == 'incumbent' else 'the baseline'}"
        elif phase == Phase.VERIFY:
            turn = f"run {number}, the {side}{' again' if side == 'incumbent' else ''}{so_far and f': {so_far}'}"
        else:
            return
        self.show(structs.replace(self.picture, turn=turn))

    def show_silence(self, since: str) -> None:
        """Since when the provider's program is silent, "" if it prints; the next heartbeat writes it."""
        if self.is_shown and bool(since) != bool(self.picture.silent_since):
            self.picture = structs.replace(self.picture, silent_since=since)

    def beat(self) -> None:
        """Renew the heartbeat if due, write a pending picture, store the seconds."""
        due = BEAT_SECONDS if self._has_unwritten else HEARTBEAT_SECONDS
        if self.is_shown and self._seconds_since_write() >= due:
            with contextlib.suppress(OSError):  # a program runs, and it would be taken for its error
                self.write()
        if self.phase_seconds:
            self.phase_seconds.beat()

    def close(self) -> None:
        if self.phase_seconds:
            self.phase_seconds.close()

    def _seconds_since_write(self) -> float:
        return time.monotonic() - self._written_at

    def write(self) -> None:
        self._has_unwritten, self._written_at = True, time.monotonic()
        if self._path and self._path.parent.is_dir():
            write_atomic(self._path, json.dumps({**to_plain(self.picture), "heartbeat_at": format_moment()}) + "\n")
        self._has_unwritten = False

    def seconds(self) -> float:
        """Seconds of a clock that stops during waits and while the machine sleeps."""
        return (time.monotonic() if self._wait_start is None else self._wait_start) - self._idle_seconds

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """The picture shows ``text`` during this block, and the time counts for no phase."""
        start = self._wait_start = time.monotonic()
        self.observer.on_note(text)
        before = self.picture
        if self.is_shown:
            self.show(structs.replace(before, status="waiting", next=text))
        try:
            yield
        finally:
            self._wait_start = None
            self._idle_seconds += time.monotonic() - start
            if self.is_shown:
                self.show(structs.replace(self.picture, status=before.status, next=before.next))

    @property
    def is_waiting(self) -> bool:
        return self._wait_start is not None

    def note_wait(self, why: str, seconds: float) -> None:
        self.waited[why] = self.waited.get(why, 0.0) + seconds

    @contextlib.contextmanager
    def making_tree(self, root: Path) -> Iterator[None]:
        """Note that a tree is being made if this block takes longer than MOMENT_SECONDS."""
        text = f"a tree of the repository is being made in {root}: only once; goalseek updates it later"
        timer = threading.Timer(MOMENT_SECONDS, lambda: self.observer.on_note(text))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
