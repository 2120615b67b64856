"""The figures of the report: a fold over the records, of bounded size for any number of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Generic, TypeVar

from msgspec import Struct, field, structs

from goalseek.ledger.standing import take_back
from goalseek.records import (
    Head,
    HoldoutRecord,
    IterationRecord,
    MeasurementRecord,
    RunRecord,
    SettledDifference,
    SettleRecord,
)
from goalseek.statistics.noise_state import NoiseState
from goalseek.statistics.rotation import Proposer, Rotation, author_of, proposers_of
from goalseek.statistics.scale import scale_of
from goalseek.values import Outcome, Phase, Reason, Usage
from goalseek.views.report.incidents import Incident, Incidents, incidents_of, parse_timestamp
from goalseek.views.report.tries import Label, Try, label_of, try_of
from goalseek.views.terminal_text import one_line

MAX_DOTS = 20_000
MAX_KEPT = 5_000
UNREADABLE_LINE = "a line of results.jsonl that is no record"
_LEVELS_MOST = 20
_LABELS_MOST = 100
_LIST_MOST = 100
_PARTS: dict[str, str] = {
    **dict.fromkeys((Phase.PLAN, Phase.APPLY_CHANGE, "REPAIR", Phase.REVIEW), "agent"),
    Phase.VERIFY: "verifier",
}
_NAMED_MOST = 50
_OTHERS = "others"
_NAMELESS = "not named"


class Expenses(Struct):
    """Active seconds of agent, verifier and goalseek, seconds of each verify command, usage by provider and model.

    ``seconds`` are the climb's: fewer than those of all parts together where several iterations were under way at once.
    ``settling`` are those of a settling's measurements that have a record before the settling has its own.
    """

    parts: dict[str, float] = field(default_factory=lambda: {"agent": 0.0, "verifier": 0.0, "goalseek": 0.0})
    commands: Counter[str] = field(default_factory=Counter)
    usage: dict[str, Usage] = field(default_factory=dict)
    seconds: float = 0.0
    settling: float = 0.0

    @property
    def total(self) -> Usage:
        """The usage of all providers together."""
        return Usage.total(self.usage.values())

    def add_iteration(self, record: IterationRecord) -> None:
        """Adds an iteration."""
        self.seconds += record.climb_seconds
        for phase, seconds in record.seconds.items():
            self.parts[_PARTS.get(phase, "goalseek")] += seconds
        for command in record.verify:
            name = _bounded_name(command.name, 60, self.commands)
            self.commands[name] += command.seconds  # type: ignore[assignment]
        if record.usage.tokens or record.usage.has_cost:
            who = _bounded_name(f"{record.provider} {record.model}".strip() or _NAMELESS, 80, self.usage)
            self.usage[who] = self.usage.get(who, Usage()).plus(record.usage)

    def add_verifier(self, seconds: float) -> None:
        """Adds what the verifier took outside an iteration."""
        self.parts["verifier"] += seconds
        self.seconds += seconds


class EarlierClimb(Struct, frozen=True):
    """The figures of a climb under an earlier ruler; numbers of different rulers are never compared."""

    epoch: int
    first: int
    last: int
    baseline: float
    best: float
    kept: int


Item = TypeVar("Item")


class ThinnedList(Generic[Item]):
    """A list of at most ``limit`` items: all up to that, then every second one added, every fourth, and so on."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.items: list[Item] = []
        self.added = 0
        self._stride = 1

    def add(self, make: Callable[[], Item]) -> None:
        """Adds the item that ``make`` gives, or leaves it out without calling that."""
        if self.added % self._stride == 0:
            self.items.append(make())
        self.added += 1
        if len(self.items) > self._limit:
            self.items = self.items[::2]
            self._stride *= 2


class Climb(Struct):
    """The iterations under one ruler. ``best`` is the newest kept try, or the baseline; ``last`` the last iteration.

    ``first`` is the first baseline of all where another verifier measured it, or other code was put in its place.
    ``reverts`` counts the kept tries that took one back, ``taken_back`` has those that are not in the best any more.
    ``moved`` counts those that others' landings moved, ``benches`` is how many were measured at once, at most.
    """

    epoch: int = 0
    ruler: str = ""
    first: Try | None = None
    metric: str = "metric"
    direction: str = "maximize"
    unit: str = ""
    baseline: Try | None = None
    best: Try | None = None
    last: int = -1
    taken_back: dict[int, int] = field(default_factory=dict)
    reverts: int = 0
    moved: int = 0
    benches: int = 0
    kept: ThinnedList[Try] = field(default_factory=lambda: ThinnedList(MAX_KEPT))
    rejected: ThinnedList[Try] = field(default_factory=lambda: ThinnedList(MAX_DOTS))
    counts: Counter[Label] = field(default_factory=Counter)
    noise: NoiseState = NoiseState()
    rotation: Rotation = Rotation()
    spending: Expenses = field(default_factory=Expenses)
    incidents: Incidents = field(default_factory=Incidents)
    levels: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs_at: list[int] = field(default_factory=list)
    settled: SettledDifference | None = None
    settled_at: int = -1
    looks: list[HoldoutRecord] = field(default_factory=list)

    @property
    def proposers(self) -> tuple[Proposer, ...]:
        """Who has proposed, and what they gained."""
        return proposers_of(self.rotation.without(self.taken_back), scale_of(self.direction, self.noise.all_positive))

    @property
    def keeps(self) -> int:
        """The number of kept changes that the best has: without those that a person took back."""
        return self.kept.added - self.reverts - len(self.taken_back)

    @property
    def tried(self) -> int:
        """The number of iterations without the baseline and a person's reverts."""
        return self.kept.added + self.rejected.added - self.reverts

    @property
    def is_exposed(self) -> bool:
        """Whether candidate code could read the hidden files in one of the iterations."""
        return any(verifier == "both" for _, verifier in self.levels)

    @property
    def is_settled(self) -> bool:
        """Whether the best was settled since it was kept."""
        return self.settled is not None and self.best is not None and self.settled_at == self.best.iteration


class ReportFigures:
    """The whole fold, fed a record at a time. ``climb`` is the one under the newest ruler, ``earlier`` those before."""

    def __init__(self) -> None:
        self.project = ""
        self.climb = Climb()
        self.earlier: list[EarlierClimb] = []
        self.records = 0
        self.runs = 0
        self.versions: dict[str, str] = {}
        self.first: datetime | None = None
        self.newest: datetime | None = None

    @property
    def period(self) -> str:
        """The time from the first record to the newest, as ``3 Jan 21:04 to 05:30 UTC``; "" without any."""
        if not self.first or not self.newest:
            return ""
        first, newest = self.first.astimezone(UTC), self.newest.astimezone(UTC)
        end = f"{newest:%H:%M}" if first.date() == newest.date() else f"{newest.day} {newest:%b %H:%M}"
        return f"{first.day} {first:%b %H:%M} to {end} UTC"

    def add(self, record: Head | None) -> None:
        """Adds one record; None for a line that is none."""
        if record is None:
            self.climb.incidents.add(Incident(UNREADABLE_LINE, None))
            return
        self.records += 1
        if record.project != self.project:
            self.project = one_line(record.project, 80) or self.project
        moment = parse_timestamp(record.timestamp)
        climb, spending = self.climb, self.climb.spending
        if isinstance(record, IterationRecord):
            self._add_iteration(record, moment)
        elif isinstance(record, RunRecord):
            self.runs += 1
            if record.versions:
                items = list(record.versions.items())[:_LEVELS_MOST]
                self.versions = {one_line(name, 40): one_line(version, 60) for name, version in items}
            if self.runs > 1 and climb.last >= 0:
                climb.runs_at = [*climb.runs_at, climb.last + 1][-_LIST_MOST:]
                climb.incidents.add(Incident("a new run began", climb.last + 1, one_line(record.began, 200)))
        elif isinstance(record, MeasurementRecord):
            if not math.isnan(record.value):
                climb.noise = climb.noise.after_measurement(record.value, (record.tree, record.ruler))
            spending.add_verifier(record.seconds)
            spending.settling += record.seconds if record.asked_by == "settle" else 0.0
        elif isinstance(record, SettleRecord):
            if not math.isnan(record.difference):
                climb.settled = structs.replace(record.result, unit=one_line(record.unit, 20))
                climb.settled_at = climb.best.iteration if climb.best else -1
            spending.add_verifier(max(0.0, record.seconds - spending.settling))
            spending.settling = 0.0
        elif isinstance(record, HoldoutRecord):
            of = record.of if record.of in (Outcome.BASELINE, "best") else ""
            why = one_line(record.why, 300) if record.reason == "failed" else ""
            others = [look for look in climb.looks if look.look != record.look]  # it has a record as it begins, too
            climb.looks = [*others, structs.replace(record, of=of, why=why)][-_LIST_MOST:]
            spending.add_verifier(record.seconds)
        self.first = self.first or moment
        self.newest = moment or self.newest

    def _add_iteration(self, record: IterationRecord, moment: datetime | None) -> None:
        label = Label(record.outcome, record.reason)
        if label not in self.climb.counts:  # otherwise it is in bounds already
            label = label_of(record)
        if label.outcome == Outcome.BASELINE:
            self._begin(record.epoch, record.digests.get("ruler", ""), "source" in record.digests)
        climb = self.climb
        if label not in climb.counts and len(climb.counts) >= _LABELS_MOST:
            label = Label(label.outcome, "others")
        climb.counts[label] += 1
        if record.metric.name != climb.metric:
            climb.metric = one_line(record.metric.name, 60) or climb.metric
        climb.unit = one_line(record.metric.unit, 20)
        climb.direction = "minimize" if record.metric.direction == "minimize" else "maximize"
        climb.last = max(climb.last, record.iteration)
        climb.noise = climb.noise.after_iteration(record, climb.best.commit if climb.best else None)
        climb.moved += any(attempt.reason == Reason.MOVED for attempt in record.attempts)
        climb.benches = max(climb.benches, record.benches or 0)
        if label.outcome == Outcome.BASELINE:
            climb.best, climb.settled = try_of(record, label), None
            climb.baseline = climb.baseline if climb.keeps > 0 else climb.best
        else:
            tries = climb.rejected
            if label.outcome == Outcome.KEPT:
                tries, climb.best = climb.kept, try_of(record, label)
            if record.taken_back is not None:
                climb.reverts += 1
                climb.taken_back = take_back(climb.taken_back, record.taken_back, record.iteration)
            else:
                author = author_of(record.provider, record.model, record.turn_of or "") or _NAMELESS
                author = _bounded_name(author, 80, climb.rotation.efforts)
                proposed = structs.replace(record, provider=author, model="", turn_of=None)
                climb.rotation = climb.rotation.after(proposed)
            tries.add(lambda: try_of(record, label))
        climb.spending.add_iteration(record)
        level = record.isolation.sandbox, record.isolation.verifier
        if level not in climb.levels:
            level = one_line(level[0], 30), one_line(level[1], 30)
        if level in climb.levels or len(climb.levels) < _LEVELS_MOST:
            climb.levels[level] += 1
        idle = (moment - self.newest).total_seconds() if moment and self.newest else 0.0
        for incident in incidents_of(record, idle):
            climb.incidents.add(incident)

    def _begin(self, epoch: int, ruler: str, has_other_code: bool) -> None:
        """Begins a climb at the first record under a ruler: numbers of two are never compared; or of other code."""
        before = self.climb
        if before.baseline is None:
            before.epoch, before.ruler = epoch, ruler
        if before.baseline is None or (ruler and ruler == before.ruler and not has_other_code):
            return
        if before.best and before.baseline.value is not None and before.best.value is not None:
            figures = (before.baseline.iteration, before.last, before.baseline.value, before.best.value)
            earlier = EarlierClimb(before.epoch, *figures, before.keeps)
            self.earlier = [*self.earlier, earlier][-_LIST_MOST:]
        self.climb = Climb(epoch, ruler, before.first or before.baseline)


def _bounded_name(text: str, limit: int, names: Collection[str]) -> str:
    """The name of at most ``limit`` characters in a text, or another where there are too many names."""
    if text in names:
        return text
    name = one_line(text, limit)
    return name if name in names or len(names) < _NAMED_MOST else _OTHERS
