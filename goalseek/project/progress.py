"""Where a climb stands, as a view shows it between two records."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalseek.humanize import format_number
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Limits, Metric
from goalseek.project.limits import Spending, budget_use

REASONS_SHOWN = 6
TIMES_COUNTED = 15


@dataclass(frozen=True)
class Progress:
    """What is known before the next record.

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
    spendings: tuple[Spending, ...] = ()
    usual: dict[str, float] = field(default_factory=dict)


def turn_in_words(of: str, place: int) -> str:
    """``run 3, the incumbent again``."""
    return f"run {place}, the {of}{' again' if of == 'incumbent' else ''}"


def scene_of(
    project: str,
    limits: Limits,
    standing: Standing,
    newest_first: Iterable[IterationRecord],
    now: tuple[Spending, ...] = (),
) -> Progress:
    """The scene of a standing and its last records; ``now`` is what the invocation bounds itself."""
    records = list(newest_first)
    known = (*now, *budget_use(limits, standing))
    if standing.baseline is None or standing.best is None:
        return Progress(project, spendings=known)
    keeps = [record.metric.value for record in records if record.epoch == standing.epoch and record.outcome == "kept"]
    tries = [record for record in records if record.outcome != "baseline"]
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
        reasons=tuple(record.reason for record in tries[:REASONS_SHOWN]),
        spendings=known,
        usual=_usual(tries),
    )


def _usual(tries: list[IterationRecord]) -> dict[str, float]:
    """Of each phase, the median of the last that had it."""
    from statistics import median

    times: dict[str, list[float]] = {}
    for record in tries:
        for phase, seconds in record.seconds.items():
            if len(found := times.setdefault(phase, [])) < TIMES_COUNTED:
                found.append(seconds)
    return {phase: median(found) for phase, found in times.items()}


KEEPS = 5
WIDTH = 4.0  # standard errors of a proportion


def small_set(metric: Metric, standing: Standing) -> str | None:
    """A warning where five keeps or more have gained less than 4·√(p(1 - p)/n) on n examples, p being the baseline's.

    None where ``metric.examples`` is not given, or the metric is no proportion.
    """
    baseline, best = standing.baseline, standing.best
    if metric.examples is None or baseline is None or best is None or standing.keeps < KEEPS:
        return None
    if not 0 < baseline.value < 1:
        return None
    gain, bound = abs(best.value - baseline.value), reach(baseline.value, metric.examples)
    if gain >= bound:
        return None
    return (
        f"{standing.keeps} keeps gained {format_number(gain)} on {metric.examples} examples, where luck alone reaches "
        f"{format_number(bound)}: a larger set, or a [holdout], would tell"
    )


def reach(share: float, examples: int) -> float:
    """Four standard errors of a proportion measured on so many examples."""
    return WIDTH * math.sqrt(share * (1 - share) / examples)


_NAME = "warned.json"


def new_warnings(logs: Path, run_id: str, told: Mapping[str, str]) -> list[str]:
    """The sentences that this run was not told; from now on it was. ``told`` are all that hold now, by their budget."""
    path = logs / _NAME
    before = _said(path, run_id)
    if before != set(told) and logs.is_dir():
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps({"run_id": run_id, "budgets": sorted(told)}) + "\n")
        temporary.replace(path)
    return [text for budget, text in told.items() if budget not in before]


def _said(path: Path, run_id: str) -> set[str]:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        said = json.loads(path.read_text())
        return set(said["budgets"]) if said["run_id"] == run_id else set()
    return set()
