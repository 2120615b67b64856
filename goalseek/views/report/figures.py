"""The figures of the report: a fold over any number of records, bounded in size, with printable texts only."""

import contextlib
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from msgspec import Struct, field, structs

from goalseek import records
from goalseek.humanize import format_duration, parse_duration
from goalseek.ledger.standing import take_back
from goalseek.records import IterationRecord
from goalseek.statistics.cases import CaseHistory
from goalseek.statistics.noise import NoiseState, scale_of
from goalseek.statistics.rotation import Proposer, Rotation, author_of, proposers_of
from goalseek.values import OPEN, Outcome, Phase, Reason, Usage
from goalseek.views.terminal_text import one_line

_TEXT_MOST = 400
_FILES_MOST = 8
_GUARDS_MOST = 100
_STACKED_MOST = 20
_OUTCOMES = frozenset(Outcome)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Label(Struct, frozen=True, gc=False):
    outcome: str
    reason: str


class Try(Struct, frozen=True, gc=False):
    """``seconds`` are active ones, ``stacked`` the tries put together; ``guards`` of baseline and kept tries only."""

    iteration: int
    label: Label
    value: float | None
    incumbent: float | None
    title: str
    why: str
    commit: str
    parent: str
    files: tuple[str, ...]
    changed_loc: int
    seconds: float
    when: str
    guards: dict[str, float]
    stacked: tuple[int, ...] = ()


def try_of(record: IterationRecord, label: Label) -> Try:
    hashes = (record.commit_hash, record.parent_commit_hash)
    commit, parent = (text if text and _HASH.fullmatch(text) else "" for text in hashes)  # they are arguments of git
    files = [one_line(name, 200) for name in record.changed_files[:_FILES_MOST]]
    if len(record.changed_files) > _FILES_MOST:
        files.append(f"and {len(record.changed_files) - _FILES_MOST} more")
    guards = list(record.guards)[:_GUARDS_MOST] if label.outcome in (Outcome.BASELINE, Outcome.KEPT) else ()
    return Try(
        iteration=record.iteration,
        label=label,
        value=record.metric.value,
        incumbent=record.metric.incumbent,
        title=one_line(record.hypothesis_summary, _TEXT_MOST),
        why=one_line(record.why, _TEXT_MOST),
        commit=commit,
        parent=parent,
        files=tuple(files),
        changed_loc=record.changed_loc,
        seconds=sum(record.seconds.values(), 0.0),
        when=one_line(record.timestamp, 40),
        guards={one_line(name, 80): record.guards[name] for name in guards},
        stacked=record.stacked[:_STACKED_MOST],
    )


PAUSE_SECONDS = 120.0
_SHOWN_MOST = 40
_REASONS: dict[str, str] = {
    Reason.VERIFY_TIMEOUT: "the verifier timed out",
    Reason.PROVIDER_TIMEOUT: "the agent timed out",
    Reason.PROVIDER_FAILED: "the agent failed",
    Reason.INTERRUPTED: "interrupted for good",
    Reason.CONFLICT: "did not merge with newer kept changes",
}
_NOTES = {
    ("a call in ",): "a call to the agent was killed, and is charged",
    ("programs that the provider left",): "programs ended that the agent left running",
    ("waited ",): "waited for the agent",
    ("an earlier invocation ended",): "resumed in the middle of an iteration",
    ("in PLAN ", "in APPLY_CHANGE ", "in REPAIR ", "in REVIEW "): "a call to the agent failed, and was made again",
    ("review",): "review comments",
    ("shared files are not",): "measured with other shared files than the baseline",
}
_WAITED = re.compile(r"waited ((?:\d{1,9}(?:\.\d)?[smhd] ?)+): ")


class Incidents(Struct):
    """``newest`` holds the iteration and the text of each, by kind."""

    counts: Counter[str] = field(default_factory=Counter)
    newest: dict[str, deque[tuple[int | None, str]]] = field(default_factory=dict)

    def add(self, kind: str, iteration: int | None, text: str = "") -> None:
        self.counts[kind] += 1
        self.newest.setdefault(kind, deque(maxlen=_SHOWN_MOST)).append((iteration, text))

    def add_iteration(self, record: IterationRecord, idle: float) -> None:
        """``idle`` seconds passed since the record before; a pause is the part without activity and waits."""
        iteration = record.iteration
        if reason := _REASONS.get(record.reason):
            self.add(reason, iteration, one_line(record.why, 300))
        for stack in record.not_stacked:
            kind = "stacks that do not merge, or were measured already"
            self.add(kind, iteration, one_line(str(list(stack)), 80))
        for command in record.verify:
            if command.killed:
                programs = "a program" if command.killed == 1 else f"{command.killed} programs"
                text = f"{one_line(command.name, 60)} left {programs}"
                self.add("programs ended that the verifier left running", iteration, text)
        for note in record.notes:
            kind = next((kind for begins, kind in _NOTES.items() if note.startswith(begins)), "noted")
            self.add(kind, iteration, one_line(note, 400))
        if idle >= PAUSE_SECONDS:
            idle -= record.climb_seconds
            idle -= sum(parse_duration(match[1]) for note in record.notes if (match := _WAITED.match(note)))
        if idle >= PAUSE_SECONDS:
            # The records do not tell a stop from a kill, a machine asleep or a question to a person.
            self.add("nothing was at work", iteration, f"for {format_duration(idle)} before or within it")


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
    """``seconds`` are fewer than all ``parts`` if iterations overlapped; ``settling`` ones have no record yet."""

    parts: dict[str, float] = field(default_factory=lambda: {"agent": 0.0, "verifier": 0.0, "goalseek": 0.0})
    commands: Counter[str] = field(default_factory=Counter)
    usage: dict[str, Usage] = field(default_factory=dict)
    seconds: float = 0.0
    settling: float = 0.0

    @property
    def total(self) -> Usage:
        return Usage.total(self.usage.values())

    def add_iteration(self, record: IterationRecord) -> None:
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
        self.parts["verifier"] += seconds
        self.seconds += seconds


class EarlierClimb(Struct, frozen=True):
    epoch: int
    first: int
    last: int
    baseline: float
    best: float
    kept: int


class ThinnedList:
    """Holds at most ``limit`` items: all up to that, then every second one added, every fourth, and so on."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.items: list[Try] = []
        self.added = 0
        self._stride = 1

    def add(self, make: Callable[[], Try]) -> None:
        if self.added % self._stride == 0:
            self.items.append(make())
        self.added += 1
        if len(self.items) > self._limit:
            self.items = self.items[::2]
            self._stride *= 2


class ClimbFigures(Struct):
    """The iterations under one ruler; ``best`` is the newest kept try, or the baseline.

    ``first`` is the first baseline of all, under another verifier or code. ``reverts`` counts kept tries that took one
    back, ``moved`` the tries that others' landings moved; ``benches`` is the most that were measured at once.
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
    kept: ThinnedList = field(default_factory=lambda: ThinnedList(MAX_KEPT))
    rejected: ThinnedList = field(default_factory=lambda: ThinnedList(MAX_DOTS))
    counts: Counter[Label] = field(default_factory=Counter)
    noise: NoiseState = NoiseState()
    cases: CaseHistory = field(default_factory=CaseHistory)
    rotation: Rotation = Rotation()
    spending: Expenses = field(default_factory=Expenses)
    incidents: Incidents = field(default_factory=Incidents)
    levels: Counter[tuple[str, str]] = field(default_factory=Counter)
    open_tries: int = 0  # whose authors could read the hidden files
    runs_at: list[int] = field(default_factory=list)
    settled: records.SettledDifference | None = None
    settled_at: int = -1
    left: str = ""  # of the settled difference, after the luck of the cases
    looks: list[records.HoldoutRecord] = field(default_factory=list)

    @property
    def proposers(self) -> tuple[Proposer, ...]:
        return proposers_of(self.rotation.without(self.taken_back), scale_of(self.direction, self.noise.all_positive))

    @property
    def keeps(self) -> int:
        """The kept changes in the best, without those that a person took back."""
        return self.kept.added - self.reverts - len(self.taken_back)

    @property
    def tried(self) -> int:
        """Without the baseline and a person's reverts."""
        return self.kept.added + self.rejected.added - self.reverts

    @property
    def is_exposed(self) -> bool:
        return any(verifier == "both" for _, verifier in self.levels)

    @property
    def is_settled(self) -> bool:
        return self.settled is not None and self.best is not None and self.settled_at == self.best.iteration


class ReportFigures(Struct):
    """``climb`` is the one under the newest ruler, ``earlier`` are those before."""

    project: str = ""
    climb: ClimbFigures = field(default_factory=ClimbFigures)
    earlier: list[EarlierClimb] = field(default_factory=list)
    record_count: int = 0
    runs: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    first: datetime | None = None
    newest: datetime | None = None

    @property
    def period(self) -> str:
        """From the first record to the newest, as ``3 Jan 21:04 to 05:30 UTC``."""
        if not self.first or not self.newest:
            return ""
        first, newest = self.first.astimezone(UTC), self.newest.astimezone(UTC)
        end = f"{newest:%H:%M}" if first.date() == newest.date() else f"{newest.day} {newest:%b %H:%M}"
        return f"{first.day} {first:%b %H:%M} to {end} UTC"

    def add(self, record: records.Head | None) -> None:
        """``record`` is None for an unreadable line."""
        if record is None:
            self.climb.incidents.add(UNREADABLE_LINE, None)
            return
        self.record_count += 1
        if record.project != self.project:
            self.project = one_line(record.project, 80) or self.project
        moment: datetime | None = None
        with contextlib.suppress(ValueError):
            moment = datetime.fromisoformat(record.timestamp)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        climb, spending = self.climb, self.climb.spending
        if isinstance(record, IterationRecord):
            self._add_iteration(record, moment)
        elif isinstance(record, records.RunRecord):
            self.runs += 1
            if record.versions:
                items = list(record.versions.items())[:_LEVELS_MOST]
                self.versions = {one_line(name, 40): one_line(version, 60) for name, version in items}
            if self.runs > 1 and climb.last >= 0:
                climb.runs_at = [*climb.runs_at, climb.last + 1][-_LIST_MOST:]
                climb.incidents.add("a new run began", climb.last + 1, one_line(record.began, 200))
        elif isinstance(record, records.MeasurementRecord):
            if not math.isnan(record.value):
                climb.noise = climb.noise.after_measurement(record)
            spending.add_verifier(record.seconds)
            spending.settling += record.seconds if record.asked_by == "settle" else 0.0
        elif isinstance(record, records.SettleRecord):
            if not math.isnan(record.difference):
                climb.settled = structs.replace(record.result, unit=one_line(record.unit, 20))
                climb.left = record.left_in_words
                climb.settled_at = climb.best.iteration if climb.best else -1
            spending.add_verifier(max(0.0, record.seconds - spending.settling))
            spending.settling = 0.0
        elif isinstance(record, records.HoldoutRecord):
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
            outcome = record.outcome if record.outcome in _OUTCOMES else Outcome.SKIPPED.value
            label = Label(outcome, one_line(record.reason, 40))
        if label.outcome == Outcome.BASELINE:
            before, ruler = self.climb, record.digests.get("ruler", "")
            if before.baseline is None:
                before.epoch, before.ruler = record.epoch, ruler
            elif not ruler or ruler != before.ruler or "source" in record.digests:
                # A climb begins: numbers of two rulers are never compared, nor those of other code.
                if before.best and before.baseline.value is not None and before.best.value is not None:
                    span, values = (before.baseline.iteration, before.last), (before.baseline.value, before.best.value)
                    earlier = EarlierClimb(before.epoch, *span, *values, before.keeps)
                    self.earlier = [*self.earlier, earlier][-_LIST_MOST:]
                self.climb = ClimbFigures(record.epoch, ruler, before.first or before.baseline)
        climb = self.climb
        if label not in climb.counts and len(climb.counts) >= _LABELS_MOST:
            label = Label(label.outcome, "others")
        climb.counts[label] += 1
        if record.metric.name != climb.metric:
            climb.metric = one_line(record.metric.name, 60) or climb.metric
        climb.unit = one_line(record.metric.unit, 20)
        climb.direction = "minimize" if record.metric.direction == "minimize" else "maximize"
        climb.last = max(climb.last, record.iteration)
        if climb.noise.cases:
            climb.cases.add(climb.noise.cases, record.runs, 1 if climb.direction == "maximize" else -1)
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
        climb.open_tries += record.isolation.driver == OPEN
        level = record.isolation.sandbox, record.isolation.verifier
        if level not in climb.levels:
            level = one_line(level[0], 30), one_line(level[1], 30)
        if level in climb.levels or len(climb.levels) < _LEVELS_MOST:
            climb.levels[level] += 1
        idle = (moment - self.newest).total_seconds() if moment and self.newest else 0.0
        climb.incidents.add_iteration(record, idle)


def _bounded_name(text: str, limit: int, names: Collection[str]) -> str:
    """The first ``limit`` characters, or "others" if there are too many names."""
    if text in names:
        return text
    name = one_line(text, limit)
    return name if name in names or len(names) < _NAMED_MOST else _OTHERS
