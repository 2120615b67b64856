"""The picture of a run: what it does now, in memory and in ``state.json``, for people and dashboards.

It is never read to decide.
"""

from __future__ import annotations

import contextlib
import copy
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from goalseek.disk import write_atomic
from goalseek.humanize import format_duration, format_moment
from goalseek.project.limits import Clock
from goalseek.values import Phase, StopReason, from_plain, to_plain

if TYPE_CHECKING:
    from goalseek.ledger.checkpoints import PhaseSeconds
    from goalseek.project.observer import Observer

HEARTBEAT_SECONDS = 5.0
MIN_WRITE_SECONDS = 0.1
MOMENT_SECONDS = 2.0
STALE_SECONDS = 30.0
SILENT_SECONDS = 120.0
ACTIVE_STATUSES = ("running", "waiting")
_STAGES = ("proposing", "measuring", "landing", "waiting")
_END_TEXTS: dict[str, str] = {
    StopReason.COUNT: "finished as asked",
    StopReason.FOR: "finished: the time of --for is over",
    StopReason.UNTIL: "finished: the goal of --until is met",
    StopReason.ASKED: "stopped on request",
    StopReason.TARGET: "stopped at metric.target",
    StopReason.ITERATIONS: "stopped at limits.iterations",
    StopReason.TIME: "stopped at limits.time",
    StopReason.DEADLINE: "stopped at limits.deadline",
    StopReason.TOKENS: "stopped at limits.tokens",
    StopReason.COST: "stopped at limits.cost_usd",
    StopReason.FAILURES: "failed: limits.failures were reached",
    StopReason.BASELINE_FAILED: "failed: the baseline has no number",
    StopReason.INCUMBENT_FAILED: "failed: the incumbent has no number any more",
    StopReason.VERIFIER_SAID_STOP: "failed: a verify command asked for the end",
    StopReason.REPOSITORY: "blocked by the state of the repository",
    StopReason.PROVIDER: "blocked by the provider",
    StopReason.SANDBOX: "blocked by the sandbox",
    StopReason.AUTH: "blocked: the provider refuses the login",
    StopReason.DISK: "blocked: the disk is full",
    StopReason.TAMPERED: "blocked: what measures has changed",
    StopReason.NEEDS_HUMAN: "blocked until a person decides",
    StopReason.BUG: "failed by a bug in goalseek",
}


class OpenIteration(Struct, frozen=True):
    """An iteration that is under way beside others; ``waits`` says what for, where its ``stage`` is "waiting".

    The other stages are "proposing", "measuring" and "landing". ``since`` is when that began.
    """

    iteration: int
    stage: str
    phase: str | None
    waits: str
    since: str
    title: str = ""


class Picture(Struct, frozen=True):
    """The fields of ``state.json``, in their order; the default one is that of a climb which nobody has begun.

    Of several iterations at once each is in ``under_way``, and ``balance`` says whether agents or benches wait for the
    others; ``iteration`` and ``phase`` are those of one at a time. ``turn`` is the run of the verifier, and ``next``
    what a person can do; while it waits, what for. ``silent_since`` is since when the provider's program has printed
    nothing. ``heartbeat_at`` is set as it is written.
    """

    status: str = "pending"
    run_id: str = ""
    started_at: str = ""
    iteration: int | None = None
    phase: str | None = None
    phase_started_at: str | None = None
    stop_reason: str | None = None
    ended_at: str | None = None
    next: str = ""
    turn: str = ""
    silent_since: str = ""
    under_way: tuple[OpenIteration, ...] = ()
    balance: str = ""
    heartbeat_at: str | None = None
    pid: int = 0
    host: str = ""
    best: dict[str, Any] | None = None
    incumbent: dict[str, Any] | None = None
    spend: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)

    @property
    def is_at_work(self) -> bool:
        """Whether the run goes on."""
        return self.status in ACTIVE_STATUSES

    @property
    def waits(self) -> str:
        """What the run waits for; "" where it works."""
        return self.next if self.status == "waiting" else ""

    def phase_in_words(self, is_for: bool = False) -> str:
        """``in VERIFY of iteration 3 since 2026-01-01T00:00:00Z``, or ``for 5m``; "" where nobody is at work."""
        if not self.is_at_work:
            return ""
        if self.under_way:
            return f"with {len(self.under_way)} iterations under way: {count_stages(self.under_way)}"
        if not self.phase:
            return ""
        since = self.phase_started_at
        duration = f"for {format_duration(seconds_since(since))}" if is_for else f"since {since}"
        return f"in {self.phase} of iteration {self.iteration} {duration}"


def read_picture(path: Path, is_held: bool = True) -> Picture:
    """The picture in the file; the default one where there is none that can be read.

    Where no process holds the project's lock, a run that seems to be at work was interrupted.
    """
    try:
        picture = from_plain(Picture, json.loads(path.read_text()))
    except (OSError, ValueError):
        return Picture()
    if picture.is_at_work and not is_held:
        nothing = {"phase": None, "phase_started_at": None, "under_way": (), "balance": ""}
        picture = structs.replace(picture, status="interrupted", next="goalseek iterate goes on", **nothing)
    return picture if picture.is_at_work else structs.replace(picture, heartbeat_at=None)


def describe_end(status: str, stop_reason: str | None) -> str:
    """How the last invocation ended, in words; the status itself where it has no end."""
    if status in (*ACTIVE_STATUSES, StopReason.INTERRUPTED):
        return status
    return _END_TEXTS.get(stop_reason or "", status)


def count_stages(under_way: Iterable[OpenIteration]) -> str:
    """``2 proposing, 1 measuring``."""
    counts = Counter(one.stage for one in under_way)
    return ", ".join(f"{counts[stage]} {stage}" for stage in _STAGES if counts[stage])


def seconds_since(moment: str | None) -> float:
    """Seconds since a stored time; 0 where it is still to come, or is none."""
    try:
        return max((datetime.now(UTC) - datetime.fromisoformat(moment or "")).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0


class Activity:
    """What an invocation is doing, as its ``picture`` shows it, and the seconds that it has worked.

    The picture is written to ``state.json``, without fsync; where its folder is gone, or without a ``path``, nothing is
    written. A change within ``MIN_WRITE_SECONDS`` of the last write is written by the next heartbeat: nobody can read
    faster, and each write makes the disk work.

    ``phase_seconds`` count the present step's time. ``waited`` are the seconds of waits since the last record, by what
    was waited for. ``clock`` is that of deadlines.
    """

    def __init__(self, path: Path | None, observer: Callable[[], Observer]) -> None:
        self.picture = Picture()
        self.clock = Clock.started()
        self.started_at = format_moment()
        self.last_phase = ""
        self.phase_seconds: PhaseSeconds | None = None
        self.waited: dict[str, float] = {}
        self._path = path
        self._observer = observer
        self._turns = 0
        self._written_at = 0.0
        self._has_unwritten = False
        self._idle_seconds = 0.0
        self._wait_start: float | None = None

    def beside(self, observer: Callable[[], Observer]) -> Activity:
        """That of another thread of the same invocation, which has its own phases and waits, and writes no file."""
        other = copy.copy(self)
        other.picture, other._path, other._observer = Picture(), None, observer
        other.last_phase, other.phase_seconds, other.waited, other._wait_start = "", None, {}, None
        return other

    @property
    def is_shown(self) -> bool:
        """Whether the picture is of this invocation."""
        return self.picture != Picture()

    def show(self, picture: Picture) -> None:
        """Shows this from now on."""
        is_same_status = picture.status == self.picture.status
        if picture.phase != self.picture.phase:
            self._turns = 0
        self.picture = picture
        self._observer().on_picture(picture)
        self._has_unwritten = True
        if not is_same_status or self._seconds_since_write() >= MIN_WRITE_SECONDS:
            self._write()

    def show_turn(self, side: str, number: int) -> None:
        """Shows which tree is measured, in its run of this number; settling counts the runs of both together."""
        phase = self.picture.phase
        if phase == Phase.SETTLE:
            self._turns += 1
            turn = f"run {self._turns}, {'the best' if side == 'incumbent' else 'the baseline'}"
        elif phase == Phase.VERIFY:
            turn = f"run {number}, the {side}{' again' if side == 'incumbent' else ''}"
        else:
            return
        self.show(structs.replace(self.picture, turn=turn))

    def show_silence(self, since: str) -> None:
        """Shows since when the provider's program has printed nothing, "" where it prints; a heartbeat writes it."""
        if self.is_shown and bool(since) != bool(self.picture.silent_since):
            self.picture = structs.replace(self.picture, silent_since=since)

    def beat(self) -> None:
        """Renews the heartbeat, when it is time, and writes what is not written yet; keeps the stored seconds fresh."""
        if self.is_shown and (self._has_unwritten or self._seconds_since_write() >= HEARTBEAT_SECONDS):
            self._write()
        if self.phase_seconds:
            self.phase_seconds.beat()

    def _seconds_since_write(self) -> float:
        return time.monotonic() - self._written_at

    def _write(self) -> None:
        self._has_unwritten, self._written_at = True, time.monotonic()
        if self._path and self._path.parent.is_dir():
            write_atomic(self._path, json.dumps({**to_plain(self.picture), "heartbeat_at": format_moment()}) + "\n")
        self._has_unwritten = False

    def seconds(self) -> float:
        """Seconds on a clock that stops while the run waits for somebody else, and while the machine sleeps."""
        return (time.monotonic() if self._wait_start is None else self._wait_start) - self._idle_seconds

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """While this block waits, the picture says what for, and the time counts for no phase."""
        start = self._wait_start = time.monotonic()
        self._observer().on_note(text)
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
        """Whether it waits for somebody else now."""
        return self._wait_start is not None

    def note_wait(self, why: str, seconds: float) -> None:
        """Adds a wait that is over to those for the same."""
        self.waited[why] = self.waited.get(why, 0.0) + seconds

    @property
    def wait_notes(self) -> tuple[str, ...]:
        """A sentence for each thing that was waited for since the last record."""
        return tuple(f"waited {format_duration(seconds)}: {why}" for why, seconds in self.waited.items())

    @contextlib.contextmanager
    def making_tree(self, root: Path) -> Iterator[None]:
        """Notes that a tree is being made, where this block takes longer than ``MOMENT_SECONDS``."""
        text = f"a tree of the repository is being made in {root}: once, later it is only brought up to date"
        timer = threading.Timer(MOMENT_SECONDS, lambda: self._observer().on_note(text))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
