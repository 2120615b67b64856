"""Progress of a climb as a view shows it between two records, and the warnings about its numbers and budgets."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalseek.files import write_atomic
from goalseek.humanize import format_number
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Limits, Metric
from goalseek.project.limits import BudgetUse, budget_use
from goalseek.values import Outcome

REASONS_LIMIT = 6
MEDIAN_OF = 15


@dataclass(frozen=True)
class Progress:
    """The values and budgets that a view shows before the next record.

    ``best`` and ``baseline`` are values of this epoch, None before the first; ``climb`` are the baseline's and those
    of the keeps after it, oldest first; ``reasons`` of the last iterations are newest first. ``usual`` are the median
    seconds of each phase.
    """

    project: str
    metric: str = ""
    direction: str = ""
    baseline: float | None = None
    best: float | None = None
    climb: tuple[float, ...] = ()
    kept: int = 0
    tried: int = 0
    stagnation: int = 0
    reasons: tuple[str, ...] = ()
    spendings: tuple[BudgetUse, ...] = ()
    usual: dict[str, float] = field(default_factory=dict)


def format_turn(side: str, number: int) -> str:
    """``run 3, the incumbent again``."""
    return f"run {number}, the {side}{' again' if side == 'incumbent' else ''}"


def progress_of(
    project: str,
    limits: Limits,
    standing: Standing,
    newest_first: Iterable[IterationRecord],
    invocation_spendings: tuple[BudgetUse, ...] = (),
) -> Progress:
    """The progress of a standing and its last records; ``invocation_spendings`` are those of its own bounds."""
    records = list(newest_first)
    spendings = (*invocation_spendings, *budget_use(limits, standing))
    if standing.baseline is None or standing.best is None:
        return Progress(project, spendings=spendings)
    keeps = [
        record.metric.value for record in records if record.epoch == standing.epoch and record.outcome == Outcome.KEPT
    ]
    tries = [record for record in records if record.outcome != Outcome.BASELINE]
    return Progress(
        project=project,
        metric=standing.metric,
        direction=standing.direction,
        baseline=standing.baseline.value,
        best=standing.best.value,
        climb=(standing.baseline.value, *(value for value in reversed(keeps) if value is not None)),
        kept=standing.keeps,
        tried=standing.last_iteration - standing.baseline.iteration,
        stagnation=standing.stagnation,
        reasons=tuple(record.reason for record in tries[:REASONS_LIMIT]),
        spendings=spendings,
        usual=_median_seconds(tries),
    )


def _median_seconds(tries: list[IterationRecord]) -> dict[str, float]:
    """The median seconds of each phase, over the last ``TIMES_COUNTED`` iterations that had it."""
    from statistics import median

    times: dict[str, list[float]] = {}
    for record in tries:
        for phase, seconds in record.seconds.items():
            if len(phase_times := times.setdefault(phase, [])) < MEDIAN_OF:
                phase_times.append(seconds)
    return {phase: median(phase_times) for phase, phase_times in times.items()}


MIN_KEEPS = 5
STANDARD_ERRORS = 4.0  # standard errors of a proportion


def small_set_warning(metric: Metric, standing: Standing) -> str | None:
    """A warning where five keeps or more have gained less than 4·√(p(1 - p)/n) on n examples, p being the baseline's.

    None where ``metric.examples`` is not given, or the metric is no proportion.
    """
    baseline, best = standing.baseline, standing.best
    if metric.examples is None or baseline is None or best is None or standing.keeps < MIN_KEEPS:
        return None
    if not 0 < baseline.value < 1:
        return None
    gain, bound = abs(best.value - baseline.value), luck_bound(baseline.value, metric.examples)
    if gain >= bound:
        return None
    return (
        f"{standing.keeps} keeps gained {format_number(gain)} on {metric.examples} examples, where luck alone reaches "
        f"{format_number(bound)}: a larger set, or a [holdout], would tell"
    )


def luck_bound(share: float, examples: int) -> float:
    """Four standard errors of a proportion measured on so many examples."""
    return STANDARD_ERRORS * math.sqrt(share * (1 - share) / examples)


_WARNED_FILE = "warned.json"


def new_warnings(logs: Path, run_id: str, warnings: Mapping[str, str]) -> list[str]:
    """The warnings, given by their budget, that this run has not shown yet; stores that they are shown."""
    path = logs / _WARNED_FILE
    known_budgets = _read_known_budgets(path, run_id)
    if known_budgets != set(warnings) and logs.is_dir():
        write_atomic(path, json.dumps({"run_id": run_id, "budgets": sorted(warnings)}) + "\n")
    return [text for budget, text in warnings.items() if budget not in known_budgets]


def _read_known_budgets(path: Path, run_id: str) -> set[str]:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        state = json.loads(path.read_text())
        return set(state["budgets"]) if state["run_id"] == run_id else set()
    return set()
