"""What is claimed in the end: two trees measured afresh in turn, and the difference with its 95% interval.

Unbiased whatever was decided before, because no run that led to a decision counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from goalseek.humanize import counted, percent
from goalseek.middle import median
from goalseek.spread import scale_of
from goalseek.student import student_quantile

PAIRS = 5
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Settled:
    """``before`` and ``after`` are medians in the metric's units; ``difference`` is positive where better.

    The difference and its interval are shares of ``before`` where ``in_percent``, else in the metric's units. The
    interval is None for a single pair.
    """

    pairs: int
    before: float
    after: float
    difference: float
    interval: tuple[float, float] | None
    in_percent: bool

    @property
    def is_sure(self) -> bool:
        """Whether zero lies outside the interval."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    def in_words(self) -> str:
        """``3.1% better (95% interval 1.2% to 5.0%), 5 pairs``; ``3.1% better (exactly), 2 pairs``."""
        size = percent if self.in_percent else "{:.4g}".format
        change = "better" if self.difference > 0 else "worse"
        told = "no difference" if self.difference == 0 else f"{size(abs(self.difference))} {change}"
        if self.interval:
            low, high = (size(end) for end in self.interval)
            is_exact = math.isclose(*self.interval, rel_tol=1e-9, abs_tol=1e-12)
            interval = f"{low} to {high}" + (", rounded" if low == high else "")
            told += " (exactly)" if is_exact else f" (95% interval {interval})"
        return f"{told}, {counted(self.pairs, 'pair')}"


def settle(direction: str, pairs: Sequence[tuple[float, float]]) -> Settled:
    """The difference of pairs (before, after), with Student's 95% interval of its mean.

    Where all values are positive the mean is that of their logarithms' differences, and told as a share: the smaller
    value for minimize, or the larger for maximize, over the other. Raises ValueError without a pair.
    """
    if not pairs:
        raise ValueError("nothing was measured")
    positive = all(value > 0 for pair in pairs for value in pair)
    scale = scale_of(direction, positive)
    gains = [scale.x(before) - scale.x(after) for before, after in pairs]
    count = len(gains)
    mean = math.fsum(gains) / count

    def told(gain: float) -> float:
        return -scale.sign * math.expm1(-scale.sign * gain) if positive else gain

    interval = None
    if count > 1:
        variance = math.fsum((gain - mean) ** 2 for gain in gains) / (count - 1)
        reach = student_quantile((1 + CONFIDENCE) / 2, count - 1) * math.sqrt(variance / count)
        interval = (told(mean - reach), told(mean + reach))
    before, after = median([pair[0] for pair in pairs]), median([pair[1] for pair in pairs])
    return Settled(count, before, after, told(mean), interval, positive)
