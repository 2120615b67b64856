"""The picture of a run at work, in memory and in ``state.json``, for people and dashboards: never read to decide."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from goalseek.disk import read_stored
from goalseek.humanize import format_duration
from goalseek.values import StopReason

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
    StopReason.VERIFIER_SAID_STOP: "failed: a verify command said stop",
    StopReason.REPOSITORY: "blocked by the state of the repository",
    StopReason.PROVIDER: "blocked by the provider",
    StopReason.SANDBOX: "blocked by the sandbox",
    StopReason.AUTH: "blocked: the provider refuses the login",
    StopReason.DISK: "blocked: the disk is full",
    StopReason.CLUSTER: "blocked by the cluster",
    StopReason.TAMPERED: "blocked: what measures has changed",
    StopReason.NEEDS_HUMAN: "blocked until a person decides",
    StopReason.BUG: "failed by a bug in goalseek",
}


class OpenIteration(Struct, frozen=True):
    iteration: int
    stage: str  # "proposing", "measuring", "landing" or "waiting"
    phase: str | None
    waits: str
    since: str
    title: str = ""


class Picture(Struct, frozen=True):
    """The fields of ``state.json``, in order; the default is a climb that never began."""

    status: str = "pending"
    run_id: str = ""
    started_at: str = ""
    iteration: int | None = None
    phase: str | None = None  # None with several at once, which ``under_way`` lists
    phase_started_at: str | None = None
    stop_reason: str | None = None
    ended_at: str | None = None
    next: str = ""  # for a person to do; the cause of a wait
    turn: str = ""  # the run of the verifier
    silent_since: str = ""
    under_way: tuple[OpenIteration, ...] = ()
    balance: str = ""  # whether agents or benches wait
    workers: tuple[str, ...] = ()  # of a cluster, a line each
    heartbeat_at: str | None = None
    pid: int = 0
    host: str = ""
    best: dict[str, Any] | None = None
    incumbent: dict[str, Any] | None = None
    spend: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)

    @property
    def is_at_work(self) -> bool:
        return self.status in ACTIVE_STATUSES

    @property
    def waits(self) -> str:
        return self.next if self.status == "waiting" else ""

    def phase_in_words(self, is_for: bool = False) -> str:
        """``in VERIFY of iteration 3 since 2026-01-01T00:00:00Z``, or ``for 5m``; "" if nobody is at work."""
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
    """The default picture if none can be read. ``is_held``: a process holds the project's lock."""
    picture = read_stored(Picture, path) or Picture()
    if picture.is_at_work and not is_held:  # it was killed
        nothing = {"phase": None, "phase_started_at": None, "under_way": (), "balance": "", "workers": ()}
        picture = structs.replace(picture, status="interrupted", next="goalseek iterate goes on", **nothing)
    return picture if picture.is_at_work else structs.replace(picture, heartbeat_at=None)


def describe_end(status: str, stop_reason: str | None) -> str:
    if status in (*ACTIVE_STATUSES, StopReason.INTERRUPTED):
        return status
    return _END_TEXTS.get(stop_reason or "", status)


def count_stages(under_way: Iterable[OpenIteration]) -> str:
    counts = Counter(one.stage for one in under_way)
    return ", ".join(f"{counts[stage]} {stage}" for stage in _STAGES if counts[stage])


def seconds_since(moment: str | None) -> float:
    """0 for a time in the future, and for none."""
    try:
        return max((datetime.now(UTC) - datetime.fromisoformat(moment or "")).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0
