"""The figures of the report: a fold over the rows of ``results.jsonl``, of bounded size for any number of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, NamedTuple, TypeVar

from goalseek.ledger.standing import PROVIDER_FAILED, take_back
from goalseek.statistics.intervals import SettledDifference
from goalseek.statistics.noise_state import NoiseState, RecordedRuns, setting_of
from goalseek.statistics.rotation import Proposal, Proposer, Rotation, author_of, proposers_of
from goalseek.statistics.scale import scale_of
from goalseek.values import Outcome, Phase, Reason, Usage
from goalseek.views.report.incidents import Incident, Incidents, incidents_of, parse_timestamp, pause_before
from goalseek.views.report.rows import (
    HoldoutRow,
    IterationRow,
    Label,
    MeasuredRow,
    Row,
    RunRow,
    SettleRow,
    Try,
    UsageRow,
    label_of,
    look_of,
    settled_of,
    try_of,
)
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


@dataclass
class Spending:
    """Active seconds of agent, verifier and goalseek, seconds of each verify command, usage by provider and model.

    ``seconds`` are the climb's: fewer than those of all parts together where several iterations were under way at once.
    """

    parts: dict[str, float] = field(default_factory=lambda: {"agent": 0.0, "verifier": 0.0, "goalseek": 0.0})
    commands: Counter[str] = field(default_factory=Counter)
    usage: dict[str, UsageRow] = field(default_factory=dict)
    seconds: float = 0.0
    _settling: float = 0.0

    @property
    def total(self) -> Usage:
        """The usage of all providers together."""
        whole = UsageRow()
        for usage in self.usage.values():
            whole.add(usage)
        return whole.usage()

    def add_iteration(self, row: IterationRow) -> None:
        """Adds an iteration."""
        self.seconds += row.climb_seconds
        for phase, seconds in row.seconds.items():
            self.parts[_PARTS.get(phase, "goalseek")] += seconds
        for command in row.verify:
            name = _bounded_name(command.name, 60, self.commands)
            self.commands[name] += command.seconds  # type: ignore[assignment]
        if row.usage.is_known:
            who = _bounded_name(f"{row.provider} {row.model}".strip() or _NAMELESS, 80, self.usage)
            self.usage.setdefault(who, UsageRow()).add(row.usage)

    def add_measurement(self, seconds: float, is_of_settling: bool = False) -> None:
        """Adds a run of the verifier outside an iteration, or a look at the holdout."""
        self._add_verifier(seconds)
        self._settling += seconds if is_of_settling else 0.0

    def add_settled(self, seconds: float) -> None:
        """Adds a settling: of its seconds only those that are not in measurement records already."""
        self._add_verifier(max(0.0, seconds - self._settling))
        self._settling = 0.0

    def _add_verifier(self, seconds: float) -> None:
        self.parts["verifier"] += seconds
        self.seconds += seconds


class EarlierClimb(NamedTuple):
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


@dataclass
class Climb:
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
    spending: Spending = field(default_factory=Spending)
    incidents: Incidents = field(default_factory=Incidents)
    levels: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs_at: list[int] = field(default_factory=list)
    settled: SettledDifference | None = None
    settled_at: int = -1
    looks: list[HoldoutRow] = field(default_factory=list)

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
    """The whole fold, fed a row at a time. ``climb`` is the one under the newest ruler, ``earlier`` those before."""

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

    def add(self, row: Row | None) -> None:
        """Adds one line of the file; None where it is no record."""
        if row is None:
            self.climb.incidents.add(Incident(UNREADABLE_LINE, None))
            return
        self.records += 1
        if row.project != self.project:
            self.project = one_line(row.project, 80) or self.project
        moment = parse_timestamp(row.timestamp)
        climb = self.climb
        if isinstance(row, IterationRow):
            self._add_iteration(row, moment)
        elif isinstance(row, RunRow):
            self._add_run(row)
        elif isinstance(row, MeasuredRow):
            if row.value is not None:
                climb.noise = climb.noise.after_measurement(row.value, (row.tree, row.ruler))
            climb.spending.add_measurement(row.seconds, row.asked_by == "settle")
        elif isinstance(row, SettleRow):
            if settled := settled_of(row):
                climb.settled, climb.settled_at = settled, climb.best.iteration if climb.best else -1
            climb.spending.add_settled(row.seconds)
        elif isinstance(row, HoldoutRow):
            self._add_look(look_of(row))
            climb.spending.add_measurement(row.seconds)
        self.first = self.first or moment
        self.newest = moment or self.newest

    def _add_run(self, row: RunRow) -> None:
        self.runs += 1
        if row.versions:
            items = list(row.versions.items())[:_LEVELS_MOST]
            self.versions = {one_line(name, 40): one_line(str(version), 60) for name, version in items}
        if self.runs > 1 and self.climb.last >= 0:
            next_iteration = self.climb.last + 1
            self.climb.runs_at = [*self.climb.runs_at, next_iteration][-_LIST_MOST:]
            self.climb.incidents.add(Incident("a new run began", next_iteration, one_line(row.began, 200)))

    def _add_iteration(self, row: IterationRow, moment: datetime | None) -> None:
        label = Label(row.outcome, row.reason)
        if label not in self.climb.counts:  # otherwise it is in bounds already
            label = label_of(row)
        if label.outcome == Outcome.BASELINE:
            self._begin(int(row.epoch), row.digests.get("ruler", ""), "source" in row.digests)
        climb = self.climb
        if label not in climb.counts and len(climb.counts) >= _LABELS_MOST:
            label = Label(label.outcome, "others")
        climb.counts[label] += 1
        if row.metric.name != climb.metric:
            climb.metric = one_line(row.metric.name, 60) or climb.metric
        climb.unit = one_line(row.metric.unit, 20)
        climb.direction = "minimize" if row.metric.direction == "minimize" else "maximize"
        climb.last = max(climb.last, int(row.iteration))
        climb.noise = climb.noise.after_iteration(recorded_runs(row, climb))
        climb.moved += any(attempt.reason == Reason.MOVED for attempt in row.attempts)
        climb.benches = max(climb.benches, row.benches or 0)
        if label.outcome == Outcome.BASELINE:
            climb.best, climb.settled = try_of(row, label), None
            climb.baseline = climb.baseline if climb.keeps > 0 else climb.best
        else:
            tries = climb.rejected
            if label.outcome == Outcome.KEPT:
                tries, climb.best = climb.kept, try_of(row, label)
            if row.taken_back is not None:
                climb.reverts += 1
                climb.taken_back = take_back(climb.taken_back, int(row.taken_back), int(row.iteration))
            else:
                climb.rotation = climb.rotation.after(proposal_of(row, label, climb.rotation.efforts))
            tries.add(lambda: try_of(row, label))
        climb.spending.add_iteration(row)
        self._add_level(row.isolation.get("sandbox", ""), row.isolation.get("verifier", ""))
        for incident in incidents_of(row):
            climb.incidents.add(incident)
        if moment and self.newest and (pause := pause_before(row, moment, self.newest)):
            climb.incidents.add(pause)

    def _add_level(self, sandbox: str, verifier: str) -> None:
        levels = self.climb.levels
        level = sandbox, verifier
        if level not in levels:
            level = one_line(sandbox, 30), one_line(verifier, 30)
        if level in levels or len(levels) < _LEVELS_MOST:
            levels[level] += 1

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

    def _add_look(self, look: HoldoutRow) -> None:
        """Adds a look, or replaces it: each has two records, one when it begins and one with its value."""
        others = [other for other in self.climb.looks if other.look != look.look]
        self.climb.looks = [*others, look][-_LIST_MOST:]


def recorded_runs(row: IterationRow, climb: Climb) -> RecordedRuns:
    """What counts of a row for the noise of a climb."""
    is_of_incumbent = climb.best is None or row.base_commit_hash in (None, climb.best.commit)
    code = row.tree_hash or "", row.digests.get("ruler") or climb.noise.ruler
    result, setting = (row.outcome, row.reason, row.metric.value, row.metric.odds), setting_of(row.benches, row.host)
    return RecordedRuns(row.runs, *result, *code, setting, is_of_incumbent)


def proposal_of(row: IterationRow, label: Label, names: Collection[str]) -> Proposal:
    """What counts of a row for its proposer, who is one of ``names`` where there are many."""
    turn = one_line(row.turn_of, 80)
    return Proposal(
        int(row.iteration),
        label.outcome,
        _bounded_name(author_of(row.provider, row.model, turn) or _NAMELESS, 80, names),
        turn,
        row.reason not in PROVIDER_FAILED,
        (row.metric.incumbent, row.metric.value),
        sum(row.seconds.values()),
        row.usage,
    )


def _bounded_name(text: str, limit: int, names: Collection[str]) -> str:
    """The name of at most ``limit`` characters in a text, or another where there are too many names."""
    if text in names:
        return text
    name = one_line(text, limit)
    return name if name in names or len(names) < _NAMED_MOST else _OTHERS
