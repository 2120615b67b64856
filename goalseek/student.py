"""Quantiles of Student's t distribution, by its density and bisection."""

from __future__ import annotations

import functools
import math

_PANELS = 400


@functools.cache
def student_quantile(probability: float, freedom: int) -> float:
    """The t below which a share of ``probability`` lies, to nine digits. Raises ValueError outside (0, 1)."""
    if not 0 < probability < 1 or freedom < 1:
        raise ValueError("a probability between 0 and 1, and at least one degree of freedom")
    if probability < 0.5:
        return -student_quantile(1 - probability, freedom)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if 0.5 + _from_zero(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _from_zero(angle: float, freedom: int) -> float:
    """The probability of 0 < t < √freedom·tan(angle), where the density is cos(angle)^(freedom-1): Simpson's rule."""
    width = angle / _PANELS
    heights = [math.cos(width * place) ** (freedom - 1) for place in range(_PANELS + 1)]
    area = width / 3 * (heights[0] + 4 * sum(heights[1::2]) + 2 * sum(heights[2:-1:2]) + heights[-1])
    whole = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi) / 2
    return area * math.exp(whole)
