"""A fixed evaluation set wears out: many tries against few examples climb by luck, and no repeat shows it."""

from __future__ import annotations

import math

from goalseek.humanize import number
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Metric

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
        f"{standing.keeps} keeps gained {number(gain)} on {metric.examples} examples, where luck alone reaches "
        f"{number(bound)}: a larger set, or a [holdout], would tell"
    )


def reach(share: float, examples: int) -> float:
    """Four standard errors of a proportion measured on so many examples."""
    return WIDTH * math.sqrt(share * (1 - share) / examples)
