"""The recorded values under another rule: which decisions would differ, and where other limits would have ended it.

It is a fold over the records and needs nothing else. Only up to the first decision that differs is it how the climb
would have gone: from there on the candidates would have been changes of something else, so each later decision is
judged by itself, against what was recorded before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from msgspec import Struct

from goalseek.ledger.records import IterationRecord, Record
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Limits, Metric
from goalseek.phase_values import Evidence, Verdict
from goalseek.project.limits import PACE_ITERATIONS, median_iteration_seconds, why_stop
from goalseek.statistics.noise_state import NoiseState, setting_of
from goalseek.statistics.scale import representative
from goalseek.statistics.sequential_test import AcceptanceRule, baseline_needs_run
from goalseek.values import Number, Outcome, Reason, StopReason, VerifierRun

_BY_THE_NUMBER = (
    Reason.BETTER,
    Reason.SIMPLER,
    Reason.WORSE,
    Reason.TIE,
    Reason.WITHIN_NOISE,
    Reason.BELOW_MIN_DELTA,
    Reason.SEED_FIXED,
)


class Judgement(Struct, frozen=True):
    """A decision as it was recorded, and what the other rule makes of the same runs.

    Where it needs more runs than were recorded, ``new_outcome`` is None and ``why`` says which. ``in_order``: all
    decisions before it are the same under both rules; else it is judged by itself.
    """

    iteration: int
    title: str
    value: Number | None
    outcome: str
    reason: str
    new_outcome: str | None
    new_reason: str
    why: str
    in_order: bool

    @property
    def is_same(self) -> bool:
        """Whether both rules keep, or both revert."""
        return self.new_outcome == self.outcome


class RunEnd(Struct, frozen=True):
    """The limit that would have ended the run after the record of ``iteration``, and the best value until then."""

    iteration: int
    reason: StopReason | str
    why: str
    best: Number | None


class Rejudged(Struct, frozen=True):
    """All decisions by the number since the newest baseline, oldest first, or until ``end``.

    ``others`` counts the iterations that something else decided, such as a guard or a failure. ``metric``, which is its
    name and direction, ``last_iteration``, that of the newest record, and ``best`` are the records' own.
    """

    decisions: tuple[Judgement, ...]
    others: int
    end: RunEnd | None
    metric: tuple[str, str]
    last_iteration: int
    best: Number | None

    @property
    def same(self) -> int:
        """How many decisions are the same before the first that is not."""
        return next((index for index, row in enumerate(self.decisions) if not row.is_same), len(self.decisions))


def rejudge(records: Iterable[Record], metric: Metric | None, limits: Limits, target: Metric) -> Rejudged | None:
    """The decisions since the newest baseline under the rule of ``metric``, or as recorded where that is None.

    The run ends by ``limits`` or at the target of ``target``, as far as the decisions are the same. None where there is
    no baseline.
    """
    before, rows = Standing(), list[Record]()
    for record in records:
        if isinstance(record, IterationRecord) and record.outcome == Outcome.BASELINE:
            for row in rows:
                before = before.after(row)
            rows = []
        rows.append(record)
    if not rows or not isinstance(baseline := rows[0], IterationRecord) or baseline.outcome != Outcome.BASELINE:
        return None
    recorded, assumed = before.after(baseline), before.after(_judge_baseline(metric, baseline) if metric else baseline)
    decisions: list[Judgement] = []
    bases = {row.base_seq for row in rows if isinstance(row, IterationRecord)}
    noise_at: dict[int | None, NoiseState] = {}  # at these records: while one is tried, others may be recorded
    pace = deque[IterationRecord](maxlen=PACE_ITERATIONS)
    others, in_order, end = 0, True, None
    for index, record in enumerate(rows[1:], start=1):
        as_judged, standing = record, assumed if in_order else recorded
        if standing.seq in bases:
            noise_at[standing.seq] = standing.noise
        if isinstance(record, IterationRecord):
            if in_order and (end := _find_end(limits, target, assumed, pace, rows[index - 1])):
                break
            pace.appendleft(record)
            if metric and _is_by_the_number(record):
                noise = noise_at.get(record.base_seq, standing.noise)
                verdict, runs = judge(metric, noise.under(setting_of(record.benches, record.host)), record)
                decisions.append(_judgement(record, verdict, runs, in_order))
                in_order = in_order and decisions[-1].is_same
                as_judged = _apply(record, verdict, runs) if in_order else record
            elif metric:
                others += 1
        assumed = assumed.after(as_judged) if in_order else assumed
        recorded = recorded.after(record)
    else:
        end = _find_end(limits, target, assumed, pace, rows[-1]) if in_order else None
    iterations = [row for row in rows if isinstance(row, IterationRecord)]
    best = [row.metric.value for row in iterations if row.outcome in (Outcome.BASELINE, Outcome.KEPT)][-1]
    name = (baseline.metric.name, baseline.metric.direction)
    return Rejudged(tuple(decisions), others, end, name, iterations[-1].iteration, best)


def judge(metric: Metric, state: NoiseState, record: IterationRecord) -> tuple[Verdict | str, tuple[VerifierRun, ...]]:
    """The verdict on a candidate by as many of its recorded runs as the rule asks for, and these runs.

    Where it asks for one more than were recorded, the side whose run is missing stands in place of the verdict.
    """
    waiting = {side: deque(run for run in record.runs if run.of == side) for side in ("candidate", "incumbent")}
    rule = AcceptanceRule(metric, (), {}, state, int(record.reason == Reason.SIMPLER))
    runs: tuple[VerifierRun, ...] = ()
    while not isinstance(step := rule.next_step(Evidence(runs)), Verdict):
        if not waiting[step]:
            return step, runs
        runs = (*runs, waiting[step].popleft())
    return step, runs


def _is_by_the_number(record: IterationRecord) -> bool:
    """Whether the rule decided it, or the valid range of the metric."""
    is_range = record.reason == Reason.NOT_VALID and record.why.startswith(f"{record.metric.name} is ")
    return record.reason in _BY_THE_NUMBER or is_range


def _judge_baseline(metric: Metric, record: IterationRecord) -> IterationRecord:
    """The baseline with as many of its runs as the rule asks for; with all of them where it asks for more."""
    runs: list[VerifierRun] = []
    values: list[float] = []
    for run in record.runs:
        if not baseline_needs_run(metric, values):
            break
        runs.append(run)
        values += [] if run.value is None else [run.value]
    if not values:
        return record
    return replace(record, runs=tuple(runs), metric=replace(record.metric, value=representative(values)))


def _judgement(
    record: IterationRecord, verdict: Verdict | str, runs: Sequence[VerifierRun], in_order: bool
) -> Judgement:
    recorded = (record.iteration, record.hypothesis_summary, record.metric.value, record.outcome, record.reason)
    if isinstance(verdict, Verdict):
        return Judgement(*recorded, verdict.outcome, verdict.reason, verdict.why, in_order)
    count = sum(run.of == verdict for run in record.runs)
    why = f"it asks for run {count + 1} of the {verdict}, and {count} {'was' if count == 1 else 'were'} recorded"
    return Judgement(*recorded, None, "", why, in_order)


def _apply(record: IterationRecord, verdict: Verdict | str, runs: tuple[VerifierRun, ...]) -> IterationRecord:
    """The record as the other rule would have left it, whose decision is the same."""
    assert isinstance(verdict, Verdict)
    value = record.metric.value if verdict.value is None else verdict.value
    metric = replace(record.metric, value=value, odds=verdict.odds)
    return replace(record, runs=runs, reason=verdict.reason, metric=metric)


def _find_end(
    limits: Limits, target: Metric, standing: Standing, pace: Iterable[IterationRecord], last: Record
) -> RunEnd | None:
    """The limit that keeps another iteration from beginning after ``last``; None where there is none."""
    now = datetime.fromisoformat(last.timestamp) if limits.deadline else datetime.now(UTC)
    stop = why_stop(limits, target, standing.for_run(last.run_id), now, median_iteration_seconds(pace))
    best = standing.best.value if standing.best else None
    return RunEnd(standing.last.iteration, stop.reason, stop.why, best) if stop and standing.last else None
