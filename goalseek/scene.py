"""Where a climb stands, as a view shows it between two records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import Standing
from goalseek.limits import Spending, spendings
from goalseek.manifest.tables import Limits

REASONS_SHOWN = 6
TIMES_COUNTED = 15


@dataclass(frozen=True)
class Scene:
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
) -> Scene:
    """The scene of a standing and its last records; ``now`` is what the invocation bounds itself."""
    records = list(newest_first)
    known = (*now, *spendings(limits, standing))
    if standing.baseline is None or standing.best is None:
        return Scene(project, spendings=known)
    keeps = [record.metric.value for record in records if record.epoch == standing.epoch and record.outcome == "kept"]
    tries = [record for record in records if record.outcome != "baseline"]
    return Scene(
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
    times: dict[str, list[float]] = {}
    for record in tries:
        for phase, seconds in record.seconds.items():
            if len(found := times.setdefault(phase, [])) < TIMES_COUNTED:
                found.append(seconds)
    return {phase: median(found) for phase, found in times.items()}
