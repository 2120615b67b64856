"""Records: the lines of ``results.jsonl``, a type for each kind, fields in the order of the line."""

import json
import math
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Literal

from msgspec import Struct, field

from goalseek.case_scores import CaseScores
from goalseek.humanize import better_or_worse, format_number, format_percent, pluralize
from goalseek.values import IN_TIP, Attempt, CaseResult, CommandRun, Number, Reason, Usage, VerifierRun, from_line

SCHEMA = 2
READABLE_SCHEMAS = (1, SCHEMA)
PROVIDER_FAILED = (Reason.PROVIDER_FAILED, Reason.PROVIDER_TIMEOUT)


class NewerSchema(ValueError):
    """The record of a later version, which may mean what this one does not know."""

    hint = "update goalseek, and run the same command again"


class Head(Struct, kw_only=True, frozen=True):
    """The first fields of every record. ``timestamp`` is UTC; ``epoch`` counts the rulers."""

    schema: int = SCHEMA
    seq: int
    kind: str
    project: str
    run_id: str
    epoch: int
    timestamp: str


class RunRecord(Head, kw_only=True, frozen=True):
    began: str
    versions: dict[str, str]
    sandbox: str
    limits: dict[str, Any]
    ruler: str
    seal: str = ""


class MeasurementRecord(Head, kw_only=True, frozen=True):
    """A verifier run outside an iteration, which a later one under the same ruler need not make again.

    ``host`` is the worker's of a cluster.
    """

    tree: str
    ruler: str
    asked_by: str
    value: Number
    seed: int
    seconds: Number
    guards: dict[str, Number] = field(default_factory=dict)
    verify: tuple[CommandRun, ...] = ()
    cases: CaseScores | None = None
    host: str | None = None
    seal: str = ""


class MetricResult(Struct, frozen=True):
    """The metric of one iteration; ``delta`` is positive where better, ``odds`` is e^LLR where a rule gave odds.

    ``incumbent`` is the median of those of the incumbent's runs that the candidate was compared with. ``needed`` is the
    least ``delta`` that could have been kept, of a candidate that was rejected for its number; None where any could.
    ``unit`` is "s" for a time that goalseek took, else "". If the metric has cases, ``value`` of a candidate that did
    not run on all is the sum of its incumbent's and ``delta``, the mean difference, within the scores seen.
    """

    name: str
    direction: str
    value: Number | None
    incumbent: Number | None
    delta: Number | None
    odds: Number | None = None
    unit: str = ""
    needed: Number | None = None
    cases: CaseResult | None = None


class Isolation(Struct, frozen=True):
    """The level that held: of the sandbox, and of the verifier's weakest command.

    ``driver`` is the level of a try's author, "open" in a checkout or from Python, where hidden files can be read.
    """

    sandbox: str
    verifier: str
    driver: str = ""


class IterationRecord(Head, kw_only=True, frozen=True):
    """One iteration, whatever came of it. Paths are C-quoted as git does.

    ``base_commit_hash`` is the incumbent that a candidate is a change of; a baseline has none, nor has schema 1.
    ``parent_commit_hash`` is the tip that it was committed on. ``stacked`` are the rejected iterations whose changes it
    tries together, ``not_stacked`` such sets that came to nothing before it: their changes did not merge, or their tree
    was measured already. ``provider`` and ``model`` proposed it, in the turn of ``turn_of``: the provider itself, also
    as ``claude fresh``, or another of ``search.rotate``. ``taken_back`` is the kept iteration that it took out of the
    tip. ``usage_before_run`` is the unrecorded usage of earlier runs, which counts in ``limits.total`` only. ``tried``
    is what its author said to have tried and seen before the measurement: nobody has checked that. ``case_ids`` is a
    baseline's table of cases; scores of runs name them by their positions in it.

    Of a climb that has several iterations under way, ``active_seconds`` are those in which it was at work since the
    record before, ``benches`` how many it measures on at once, on ``host``, and ``base_seq`` is the record at whose
    standing this one was decided. Numbers need not rise from record to record then, and what moved no tip may be a
    change of an earlier one. On a cluster, ``benches`` is the most workers on one host, ``machine`` the kind of host
    that measured this one.
    """

    iteration: int
    outcome: str
    reason: str
    why: str
    metric: MetricResult
    runs: tuple[VerifierRun, ...] = ()
    case_ids: tuple[str, ...] = ()
    guards: dict[str, Number] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    commit_hash: str | None = None
    parent_commit_hash: str | None = None
    base_commit_hash: str | None = None
    base_seq: int | None = None
    rollback_commit_hash: str | None = None
    tree_hash: str | None = None
    taken_back: int | None = None
    planned_files: tuple[str, ...] = ()
    changed_files: tuple[str, ...] = ()
    dropped_files: tuple[str, ...] = ()
    changed_loc: int = 0
    hypothesis_summary: str = ""
    tried: str = ""
    stacked: tuple[int, ...] = ()
    not_stacked: tuple[tuple[int, ...], ...] = ()
    provider: str = ""
    model: str = ""
    turn_of: str | None = None
    usage: Usage = Usage()
    usage_before_run: Usage | None = None
    seconds: dict[str, Number] = field(default_factory=dict)
    active_seconds: Number | None = None
    verify: tuple[CommandRun, ...] = ()
    isolation: Isolation
    benches: int | None = None
    host: str | None = None
    machine: str | None = None
    digests: dict[str, str] = field(default_factory=dict)
    directions: tuple[str, ...] = ()
    run_dir: str
    notes: tuple[str, ...] = ()
    seal: str = ""

    @property
    def landed_commit_hash(self) -> str | None:
        """Where its landing moved the tip; None if the tip stayed."""
        return self.rollback_commit_hash or (self.commit_hash if self.outcome in IN_TIP else None)

    @property
    def may_be_late(self) -> bool:
        """Whether others may have landed meanwhile: it moved no tip, and was not alone under way."""
        return self.benches is not None and self.landed_commit_hash is None

    @property
    def climb_seconds(self) -> Number:
        """Its part of the climb's time: the seconds of its phases, unless others were under way."""
        return sum(self.seconds.values()) if self.active_seconds is None else self.active_seconds

    @property
    def earlier_commits(self) -> tuple[str, ...]:
        """Those of its attempts since it last moved, oldest first: the last is the parent of ``commit_hash``."""
        since_move = [*takewhile(lambda attempt: attempt.base_commit_hash is None, reversed(self.attempts))]
        return tuple(attempt.commit_hash for attempt in reversed(since_move) if attempt.commit_hash)

    @property
    def further_parents(self) -> tuple[str, ...]:
        """Of its ledger commit after the first: its candidate, and versions moved from earlier tips."""
        moved = (commits[-1] for _, commits in self.moved_versions if commits)
        return tuple(commit for commit in (self.commit_hash, *moved) if commit)

    @property
    def first_base_commit_hash(self) -> str | None:
        """The incumbent at which it was begun; it may have moved to later ones since."""
        return next((base for base, _ in self.moved_versions), self.base_commit_hash)

    @property
    def moved_versions(self) -> Iterator[tuple[str, list[str]]]:
        """Each version that moved to a later tip: its incumbent, and its tries' commits in order."""
        commits: list[str] = []
        for attempt in self.attempts:
            commits += [attempt.commit_hash] if attempt.commit_hash else []
            if attempt.base_commit_hash:
                yield attempt.base_commit_hash, commits
                commits = []


class SettledDifference(Struct, frozen=True):
    """``difference`` is positive if better; ``before`` and ``after`` are medians; ``interval`` is None for one pair.

    All are in the metric's units; but ``difference`` and ``interval`` are shares of ``before`` if ``in_percent``. The
    interval is over the ``cases`` if the metric has so many.
    """

    pairs: int
    before: float
    after: float
    difference: float
    interval: tuple[float, float] | None
    in_percent: bool
    unit: str = ""
    cases: int | None = None

    @property
    def is_sure(self) -> bool:
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    @property
    def no_gain(self) -> str:
        """``no gain shown: -9.4% to 15.2% (5 pairs)`` if zero lies inside the interval; else ""."""
        if self.interval is None or self.is_sure:
            return ""
        low, high = map(self.format_size, self.interval)
        return f"no gain shown: {low} to {high} ({self._counts})"

    def in_words(self) -> str:
        """``3.1% better (95% interval 1.2% to 5.0%), the mean of 5 pairs``; ``3.1% better (exactly), 2 pairs``."""
        is_exact, size = False, self.format_size
        gain = self.difference
        text = f"{size(abs(gain))} {better_or_worse(gain)}" if gain else "no difference"
        if self.interval:
            low, high = (size(end) for end in self.interval)
            is_exact = math.isclose(*self.interval, rel_tol=1e-9, abs_tol=1e-12)
            interval = f"{low} to {high}" + (", rounded" if low == high else "")
            text += " (exactly)" if is_exact else f" (95% interval {interval})"
        of = "" if is_exact or self.interval is None else "the mean of "
        return f"{text}, {of}{self._counts}"

    @property
    def _counts(self) -> str:
        pairs = pluralize(self.pairs, "pair")
        return pairs if self.cases is None else f"{pluralize(self.cases, 'case')} in {pairs}"

    def format_size(self, size: float) -> str:
        return format_percent(size) if self.in_percent else format_number(size, self.unit, digits=4)


class SettleRecord(Head, kw_only=True, frozen=True):
    """The claim: baseline and best, which was kept in ``iteration``, measured afresh in turn.

    ``pairs`` are (baseline, best), ``baseline`` and ``best`` their medians, all in the metric's units. ``difference``
    is positive where better; it and its 95% interval are shares of the baseline where ``in_percent``, else in the
    metric's units. The interval is None for a single pair.

    If the metric has ``cases``, the interval is over so many of them, also for a single pair. ``left`` estimates what
    remains of the difference after the luck of the cases, on which the kept changes were chosen.
    """

    metric: str
    direction: str
    ruler: str
    baseline_commit_hash: str
    best_commit_hash: str
    iteration: int
    pairs: tuple[tuple[Number, Number], ...]
    baseline: Number
    best: Number
    difference: Number
    interval: tuple[Number, Number] | None
    in_percent: bool
    seconds: Number
    why: str
    unit: str = ""
    cases: int | None = None
    left: Number | None = None
    seal: str = ""

    @property
    def left_in_words(self) -> str:
        """``; about 0.024 of it is left after the luck of the cases, an estimate``, or ""."""
        size = "" if self.left is None else format_number(self.left, digits=2)
        return size and f"; about {size} of it is left after the luck of the cases, an estimate"

    @property
    def result(self) -> SettledDifference:
        figures = self.baseline, self.best, self.difference, self.interval, self.in_percent, self.unit, self.cases
        return SettledDifference(len(self.pairs), *figures)


class HoldoutRecord(Head, kw_only=True, frozen=True):
    """A look at the holdout: written as ``begun`` before it is made, and again with what came of it.

    ``of`` is "baseline" or "best", which was kept in ``iteration``. ``gap`` is the verifier's gain less the holdout's,
    in the metric's units.
    """

    look: int
    of: str
    iteration: int
    commit_hash: str
    ruler: str
    reason: str
    value: Number | None = None
    gap: Number | None = None
    seconds: Number = 0.0
    why: str = ""
    seal: str = ""


Record = RunRecord | MeasurementRecord | IterationRecord | SettleRecord | HoldoutRecord

KINDS: dict[str, type[Record]] = {
    "run": RunRecord,
    "measurement": MeasurementRecord,
    "iteration": IterationRecord,
    "settle": SettleRecord,
    "holdout": HoldoutRecord,
}


class _Kind(Struct):
    kind: Any = None
    schema: Any = None


class _MetricValue(Struct, frozen=True, gc=False):
    name: str
    value: Number | None
    unit: str = ""


class _Ruler(Struct, frozen=True, gc=False):
    ruler: str = ""


class IterationSummary(Struct, frozen=True, kw_only=True, gc=False):
    """The fields that ``log`` and the index need: reading them alone takes a third of the time."""

    schema: Literal[1, 2]
    kind: Literal["iteration"]
    timestamp: str
    iteration: int
    outcome: str
    reason: str
    why: str
    metric: _MetricValue
    hypothesis_summary: str = ""
    tree_hash: str | None = None
    digests: _Ruler = _Ruler()


def parse_record(line: str | bytes) -> Record:
    """Raises ValueError for an unknown kind or a line that is no record, NewerSchema for that of a later version."""
    try:
        head = from_line(_Kind, line)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError):
        raise ValueError("not a record") from None
    if isinstance(head.schema, int) and head.schema > SCHEMA:
        readable = " and ".join(map(str, READABLE_SCHEMAS))
        raise NewerSchema(f"a newer goalseek wrote this record, of schema {head.schema}; this one reads {readable}")
    if not isinstance(head.kind, str) or head.kind not in KINDS or head.schema not in READABLE_SCHEMAS:
        raise ValueError("not a record")
    return from_line(KINDS[head.kind], line)


def parse_summary(line: str | bytes) -> IterationSummary | None:
    """None if the record is not an iteration. Raises ValueError for a line that is no record."""
    try:
        return from_line(IterationSummary, line)
    except (ValueError, RecursionError):
        parse_record(line)
        return None
