"""``state.json``: status, phase, heartbeat and spend of the run for people and dashboards, never read to decide."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from goalseek.files import write_atomic
from goalseek.humanize import format_duration, format_moment, pluralize
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.manifest.tables import Limits
from goalseek.own_folders import remove_if_exists
from goalseek.values import DataClass, StopReason, from_plain, to_plain

HEARTBEAT_SECONDS = 5.0
MIN_WRITE_SECONDS = 0.1
STALE_SECONDS = 30.0
SILENT_SECONDS = 120.0
_UNSENT = "unsent.txt"
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


class UnderWay(DataClass):
    """An iteration that is under way beside others; ``waits`` says what for, where its ``stage`` is "waiting".

    The other stages are "proposing", "measuring" and "landing". ``since`` is when that began.
    """

    iteration: int
    stage: str
    phase: str | None
    waits: str
    since: str
    title: str = ""


class RunState(DataClass):
    """The fields of ``state.json`` that do not come from the standing.

    Of several iterations at once each is in ``under_way``, and ``balance`` says whether agents or benches wait for the
    others; ``iteration`` and ``phase`` are those of one at a time.
    """

    status: str
    run_id: str
    started_at: str
    iteration: int | None = None
    phase: str | None = None
    phase_started_at: str | None = None
    stop_reason: str | None = None
    ended_at: str | None = None
    next: str = ""
    turn: str = ""
    silent_since: str = ""
    under_way: tuple[UnderWay, ...] = ()
    balance: str = ""


class StateFile:
    """Writes the file, without fsync; where its folder is gone, or without a ``path``, nothing is written.

    A change within ``MIN_WRITE_SECONDS`` of the last write is written by the next heartbeat: nobody can read faster,
    and each write makes the disk work.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._content: tuple[RunState, Standing, Limits] | None = None
        self._latest: RunState | None = None
        self._written_at = 0.0
        self._has_unwritten = False

    @property
    def has_content(self) -> bool:
        """Whether this invocation has written the file."""
        return self._content is not None

    @property
    def silent_since(self) -> str:
        """Since when the provider's program has printed nothing; "" where it prints."""
        return self._latest.silent_since if self._latest else ""

    @property
    def moment(self) -> RunState | None:
        """What it shows; None before the first."""
        return self._latest

    def show(self, moment: RunState, standing: Standing, limits: Limits) -> None:
        """Replaces the contents."""
        self._content = (moment, standing, limits)
        self._replace(moment)

    def set_turn(self, turn: str) -> None:
        """Sets ``turn``: ``run 2, the candidate``."""
        if self._content and turn:
            self._content = (replace(self._content[0], turn=turn), *self._content[1:])
            self._replace(self._content[0])

    def set_silent_since(self, since: str) -> None:
        """Sets since when the provider's program has printed nothing, "" where it prints; a heartbeat writes it."""
        if self._content and self._latest and bool(since) != bool(self._latest.silent_since):
            self._content = (replace(self._content[0], silent_since=since), *self._content[1:])
            self._latest = replace(self._latest, silent_since=since)

    def waiting(self, text: str) -> None:
        """Sets the status to waiting, with what for; "" where the wait is over."""
        if self._content:
            moment = self._content[0]
            self._replace(replace(moment, status="waiting", next=text) if text else moment)

    def beat(self) -> None:
        """Renews the heartbeat, when it is time, and writes what is not written yet."""
        if self._latest and (self._has_unwritten or self._seconds_since_write() >= HEARTBEAT_SECONDS):
            self._write(self._latest)

    def _replace(self, moment: RunState) -> None:
        is_same_status = self._latest is not None and self._latest.status == moment.status
        self._latest = moment
        if is_same_status and self._seconds_since_write() < MIN_WRITE_SECONDS:
            self._has_unwritten = True
            return
        self._write(moment)

    def _seconds_since_write(self) -> float:
        return time.monotonic() - self._written_at

    def _write(self, moment: RunState) -> None:
        assert self._content
        self._has_unwritten, self._written_at = True, time.monotonic()
        if self.path and self.path.parent.is_dir():
            write_state(self.path, moment, *self._content[1:])
        self._has_unwritten = False


def format_phase(state: dict[str, Any], now: datetime | None = None) -> str:
    """``in VERIFY of iteration 3 since 2026-01-01T00:00:00Z``; "" where nobody is at work. With ``now``: ``for 5m``."""
    if state.get("status") not in ACTIVE_STATUSES:
        return ""
    if under_way := read_under_way(state):
        return f"with {len(under_way)} iterations under way: {count_stages(under_way)}"
    if not state.get("phase"):
        return ""
    start = str(state.get("phase_started_at"))
    seconds = seconds_since(state, "phase_started_at") if now else None
    duration = f"since {start}" if seconds is None else f"for {format_duration(max(seconds, 0.0))}"
    return f"in {state['phase']} of iteration {state.get('iteration')} {duration}"


def read_under_way(state: dict[str, Any]) -> tuple[UnderWay, ...]:
    """The iterations under way at once; none where one follows the other, or where they cannot be read."""
    try:
        return tuple(from_plain(UnderWay, one) for one in state.get("under_way", ()))
    except (ValueError, TypeError):
        return ()


def count_stages(under_way: Iterable[UnderWay]) -> str:
    """``2 proposing, 1 measuring``."""
    counts = Counter(one.stage for one in under_way)
    return ", ".join(f"{counts[stage]} {stage}" for stage in _STAGES if counts[stage])


def seconds_since(state: dict[str, Any], key: str) -> float | None:
    """The seconds since this time in it, that of the heartbeat, say; None where none can be read."""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(str(state[key]))).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None


def elapsed_since(moment: object) -> float:
    """Seconds since a stored time; 0 where it is none, or is still to come."""
    return max(seconds_since({"": moment}, "") or 0.0, 0.0)


def write_state(path: Path, moment: RunState, standing: Standing, limits: Limits) -> None:
    """Replaces the file."""
    state: dict[str, Any] = {
        **to_plain(moment),
        "heartbeat_at": utc_now(),
        "pid": os.getpid(),
        "host": os.uname().nodename,
        "best": _commit_row(standing.best),
        "incumbent": _commit_row(standing.incumbent),
        "spend": to_plain(standing.spend),
        "limits": to_plain(limits),
    }
    write_atomic(path, json.dumps(state) + "\n")


def read_state(path: Path) -> dict[str, Any]:
    """The contents of the file; empty where there is none that can be read."""
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def store_notification(logs: Path, failure: str) -> None:
    """Stores that a notification failed, and why; "" says that one was sent, so that earlier failures are over."""
    if not failure:
        remove_if_exists(logs / _UNSENT)
        return
    with (logs / _UNSENT).open("a", encoding="utf-8") as file:
        file.write(" ".join(failure.split()) + "\n")


def describe_unsent(logs: Path) -> str:
    """``2 notifications failed since one was sent, the last: sh ended with 7``; "" where none has."""
    try:
        failures = (logs / _UNSENT).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    count = pluralize(len(failures), "notification")
    return f"{count} failed since one was sent, the last: {failures[-1]}" if failures else ""


def describe_end(status: str, stop_reason: str | None) -> str:
    """How the last invocation ended, in words; the status itself where it has no end."""
    if status in (*ACTIVE_STATUSES, StopReason.INTERRUPTED):
        return status
    return _END_TEXTS.get(stop_reason or "", status)


def utc_now() -> str:
    """Now, UTC, to the second."""
    return format_moment(0)


def _commit_row(commit: MeasuredCommit | None) -> dict[str, Any] | None:
    return {"iteration": commit.iteration, "value": commit.value, "commit": commit.commit} if commit else None
