"""The figures of a night: a fold over the rows of ``results.jsonl`` that stays small however many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from goalseek.statistics.intervals import Settled
from goalseek.views.report.costs import Repeats, Spending
from goalseek.views.report.incidents import Incident, Incidents, incidents_of, moment_of, pause_before
from goalseek.views.report.rows import (
    Label,
    Look,
    Row,
    Try,
    at,
    label_of,
    look_of,
    number_at,
    settled_of,
    text_at,
    try_of,
)
from goalseek.views.terminal_text import one_line

DOTS_MOST = 20_000
KEPT_MOST = 5_000
NO_RECORD = "a line of results.jsonl that is no record"
_LEVELS_MOST = 20
_LABELS_MOST = 100
_BROUGHT_MOST = 100


@dataclass(frozen=True)
class Earlier:
    """A climb under a ruler of before, in numbers; they are never compared with those of another ruler."""

    epoch: int
    first: int
    last: int
    baseline: float
    best: float
    kept: int


Item = TypeVar("Item")


class Thinned(Generic[Item]):
    """Every item up to ``most``; beyond that every second one, then every fourth, and so on, evenly spread."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.items: list[Item] = []
        self.added = 0
        self._stride = 1

    def add(self, make: Callable[[], Item]) -> None:
        """Adds an item, or leaves it out without making it."""
        if self.added % self._stride == 0:
            self.items.append(make())
        self.added += 1
        if len(self.items) > self.most:
            self.items = self.items[::2]
            self._stride *= 2

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return len(self.items) == self.added


@dataclass
class Climb:
    """What happened under one ruler. ``best`` is the newest kept try, or the baseline, ``last`` the last iteration.

    ``measured`` are the candidates that had a number.
    """

    epoch: int = 0
    metric: str = "metric"
    direction: str = "maximize"
    baseline: Try | None = None
    best: Try | None = None
    last: int = -1
    measured: int = 0
    kept: Thinned[Try] = field(default_factory=lambda: Thinned(KEPT_MOST))
    rejected: Thinned[Try] = field(default_factory=lambda: Thinned(DOTS_MOST))
    counts: Counter[Label] = field(default_factory=Counter)
    repeats: Repeats = field(default_factory=Repeats)
    spending: Spending = field(default_factory=Spending)
    incidents: Incidents = field(default_factory=Incidents)
    levels: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs_at: list[int] = field(default_factory=list)
    settled: Settled | None = None
    settled_at: int = -1
    looks: list[Look] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """Iterations but the baseline."""
        return self.kept.added + self.rejected.added

    @property
    def is_settled(self) -> bool:
        """Whether the best was measured afresh since it was kept."""
        return self.settled is not None and self.best is not None and self.settled_at >= self.best.iteration


class Night:
    """Grown a row at a time. ``climb`` is what happened under the newest ruler, ``earlier`` what was before."""

    def __init__(self) -> None:
        self.project = ""
        self.climb = Climb()
        self.earlier: list[Earlier] = []
        self.records = 0
        self.runs = 0
        self.versions: dict[str, str] = {}
        self.first: datetime | None = None
        self.newest: datetime | None = None
        self._worked: datetime | None = None

    def add(self, row: Row | None) -> None:
        """One more line of the file; None where it is no record."""
        if row is None:
            self.climb.incidents.add(Incident(NO_RECORD, None))
            return
        self.records += 1
        self.project = one_line(text_at(row, "project"), 80) or self.project
        moment = moment_of(text_at(row, "timestamp"))
        kind = row["kind"]
        if kind == "run":
            self._add_run(row)
        elif kind == "iteration":
            self._add_iteration(row)
        elif kind == "measurement":
            self.climb.repeats.add_measurement(row)
            self.climb.spending.add_measurement(row)
        elif kind == "settle":
            if found := settled_of(row):
                self.climb.settled, self.climb.settled_at = found, self.climb.last
            self.climb.spending.add_settled(row)
        elif kind == "holdout":
            self._add_look(row)
            self.climb.spending.add_measurement(row)
        self._worked = moment or self._worked
        self.first = self.first or moment
        self.newest = moment or self.newest

    def _add_run(self, row: Row) -> None:
        self.runs += 1
        found = at(row, "versions")
        if isinstance(found, dict):
            told = list(found.items())[:_LEVELS_MOST]
            self.versions = {one_line(name, 40): one_line(str(version), 60) for name, version in told}
        if self.runs > 1 and self.climb.last >= 0:
            following = self.climb.last + 1
            self.climb.runs_at = [*self.climb.runs_at, following][-_BROUGHT_MOST:]
            why = one_line(text_at(row, "began"), 200)
            self.climb.incidents.add(Incident("a new run began", following, why))

    def _add_iteration(self, row: Row) -> None:
        label = label_of(row)
        if label.outcome == "baseline":
            self._begin(row)
        climb = self.climb
        if label not in climb.counts and len(climb.counts) >= _LABELS_MOST:
            label = Label(label.outcome, "others")
        climb.metric = one_line(text_at(row, "metric", "name"), 60) or climb.metric
        climb.direction = "minimize" if text_at(row, "metric", "direction") == "minimize" else "maximize"
        climb.last = int(number_at(row, "iteration") or 0)
        climb.counts[label] += 1
        climb.measured += label.outcome != "baseline" and number_at(row, "metric", "value") is not None
        if label.outcome == "baseline":
            climb.baseline = climb.best = try_of(row, label)
        elif label.outcome == "kept":
            kept = climb.best = try_of(row, label)
            climb.kept.add(lambda: kept)
        else:
            climb.rejected.add(lambda: try_of(row, label))
        climb.repeats.add_iteration(row)
        climb.spending.add_iteration(row)
        level = one_line(text_at(row, "isolation", "sandbox"), 30), one_line(text_at(row, "isolation", "verifier"), 30)
        if level in climb.levels or len(climb.levels) < _LEVELS_MOST:
            climb.levels[level] += 1
        for incident in incidents_of(row):
            climb.incidents.add(incident)
        if pause := pause_before(row, self._worked):
            climb.incidents.add(pause)

    def _begin(self, row: Row) -> None:
        """A ruler's first record: numbers of two rulers are never compared."""
        before = self.climb
        epoch = int(number_at(row, "epoch") or 0)
        if before.baseline is None:
            before.epoch = epoch
            return
        if before.best and before.baseline.value is not None and before.best.value is not None:
            whole = (before.baseline.iteration, before.last, before.baseline.value, before.best.value)
            told = Earlier(before.epoch, *whole, before.kept.added)
            self.earlier = [*self.earlier, told][-_BROUGHT_MOST:]
        self.climb = Climb(epoch)

    def _add_look(self, row: Row) -> None:
        """A look is told twice: as begun, and with its value."""
        look = look_of(row)
        others = [known for known in self.climb.looks if known.number != look.number]
        self.climb.looks = [*others, look][-_BROUGHT_MOST:]
