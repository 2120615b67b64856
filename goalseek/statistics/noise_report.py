"""Noise report of repeat runs of unchanged code: sd, outliers, skew, drift, and what they mean for a climb. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from goalseek.statistics.scale import MAD_TO_SD, Scale, mean, median, scale_of, solve, variance

_OUTLIER_DISTANCE = 3.5  # robust sd from the median
POWER = ((1.5, 0.5), (2.0, 0.75), (2.5, 0.88), (3.0, 0.95))
"""True effects in sd, and about the share of candidates with such an effect that the rule keeps; by simulation."""


class NoiseReport(Struct, frozen=True):
    """What ``values`` of unchanged code show.

    ``sd``, its 90% ``interval``, and ``drift`` are shares where ``in_percent``, else in the metric's units. Drift is
    the change over all runs by the slope, positive where the values got better, None where it is not clear.
    ``skew`` is positive where the longer tail is on the worse side, None where there are too few values to tell.
    """

    values: tuple[float, ...]
    deterministic: bool
    middle: float
    in_percent: bool
    sd: float
    interval: tuple[float, float]
    outliers: tuple[float, ...]
    skew: float | None
    drift: float | None

    @property
    def sd_in_units(self) -> float:
        """The sd in the metric's units."""
        return self.sd * self.middle if self.in_percent else self.sd


def noise_report(direction: str, values: Sequence[float]) -> NoiseReport:
    """What the values show, in the order in which they were measured. Raises ValueError for fewer than two."""
    if len(values) < 2:
        raise ValueError("noise is seen in two runs at least")
    in_percent = all(value > 0 for value in values)
    scale = scale_of(direction, in_percent)
    xs = scale.all(values)
    center = median(xs)
    sd = robust_sd(xs)
    return NoiseReport(
        values=tuple(values),
        deterministic=len(set(values)) == 1,
        middle=scale.middle(values),
        in_percent=in_percent,
        sd=sd,
        interval=sd_interval(sd, len(values)),
        outliers=tuple(
            value for value, x in zip(values, xs, strict=True) if abs(x - center) > _OUTLIER_DISTANCE * sd > 0
        ),
        skew=skewness(xs) if len(xs) >= 8 and sd > 0 else None,
        drift=_drift(scale, values),
    )


def robust_sd(xs: Sequence[float]) -> float:
    """1.4826 times the median distance from the median; the plain standard deviation where that is 0."""
    center = median(xs)
    robust = MAD_TO_SD * median([abs(x - center) for x in xs])
    return robust or math.sqrt(variance(xs))


def sd_interval(sd: float, count: int) -> tuple[float, float]:
    """Where the true sd lies nine times in ten, from that of ``count`` normal values: its square is chi-squared."""
    freedom = count - 1
    low, high = chi_squared_quantile(0.95, freedom), chi_squared_quantile(0.05, freedom)
    return sd * math.sqrt(freedom / low), sd * math.sqrt(freedom / high)


def chi_squared_quantile(probability: float, freedom: int) -> float:
    """The value below which a share of ``probability`` of the chi-squared distribution lies."""
    shape = freedom / 2

    def distribution(value: float) -> float:
        """The regularized lower incomplete gamma function P(freedom/2, value/2), by its power series."""
        half = value / 2
        if half <= 0:
            return 0.0
        term = total = 1 / shape
        divisor = shape
        while term > total * 1e-15:
            divisor += 1
            term *= half / divisor
            total += term
        return min(1.0, total * math.exp(shape * math.log(half) - half - math.lgamma(shape)))

    return solve(distribution, probability, freedom + 50 * math.sqrt(2 * freedom) + 50)


def skewness(xs: Sequence[float]) -> float:
    """The third central moment over the second to the power 3/2. Raises ZeroDivisionError where all are equal."""
    middle = mean(xs)
    second, third = (mean([(x - middle) ** power for x in xs]) for power in (2, 3))
    return third / float(second**1.5)


def expected_false_keeps(candidates: int) -> float:
    """How many of so many useless candidates keep-if-better keeps: H(N+1) - 1, the records after the baseline's."""
    return math.fsum(1 / rank for rank in range(2, candidates + 2))


def false_gain(sd: float, candidates: int) -> float:
    """How much better than the baseline the best of so many useless candidates seems, on average, in units of ``sd``.

    It is sd·Φ⁻¹(p); p is Blom's (1958) for the largest of N+1 normal values, the baseline's among them.
    """
    count = candidates + 1
    return sd * _normal_quantile((count - 0.375) / (count + 0.25))


def repeats_for(sd: float, min_delta: float) -> int:
    """How many repeats make a gain of ``min_delta`` 1.5 sd of their mean: ⌈(1.5·sd/D)²⌉, at least one.

    Raises ValueError where ``min_delta`` is not more than zero.
    """
    if not min_delta > 0:
        raise ValueError("min_delta is more than zero")
    return max(1, math.ceil((1.5 * sd / min_delta) ** 2))


def _normal_quantile(probability: float) -> float:
    from statistics import NormalDist  # slow to import, and iterate needs none of it

    return NormalDist().inv_cdf(probability)


def power_line(sd: float) -> tuple[tuple[float, float], ...]:
    """True effects in the units of ``sd``, with the share of such candidates that the rule keeps."""
    return tuple((effect * sd, share) for effect, share in POWER)


def _drift(scale: Scale, values: Sequence[float]) -> float | None:
    """The change from first to last along Theil and Sen's slope, where Kendall's test is sure of one (5%)."""
    xs, count = scale.all(values), len(values)
    steps = [(xs[later] - xs[earlier], later - earlier) for later in range(count) for earlier in range(later)]
    score = sum((step > 0) - (step < 0) for step, _ in steps)
    error = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    if abs(score) - 1 <= _normal_quantile(0.975) * error:
        return None
    return -median([step / distance for step, distance in steps]) * (count - 1)
