"""The axes of the plot: which values it spans, and where its lines are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from goalseek.humanize import apart

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_INTERVALS = 5
_LOGARITHMIC_FROM = 30.0
_BEYOND = 0.75
_FURTHEST = 1e300


@dataclass(frozen=True)
class Axis:
    """``ticks`` are evenly spaced on the axis, from its low end to its high one."""

    ticks: tuple[float, ...]
    logarithmic: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The ticks in words."""
        return apart(*self.ticks)

    def place(self, value: float) -> float:
        """Where a value lies, from 0 at the low end to 1 at the high one; beyond them where it is outside."""
        low, high = self.ticks[0], self.ticks[-1]
        if not self.logarithmic:
            return (value - low) / (high - low)
        return math.log(value / low) / math.log(high / low) if value > 0 else -math.inf


def value_axis(core: Sequence[float], others: Sequence[float]) -> Axis:
    """An axis that holds all of ``core``, and of the others the middle nine tenths as far as that leaves core large.

    Logarithmic where the core is positive and its ends are far apart. A value near the largest float, as a verifier may
    give in place of infinity, lies beyond the axis: no float is left for the tick above it.
    """
    core, others = [_bounded(value) for value in core], [_bounded(value) for value in others]
    low, high = min(core), max(core)
    if low > 0 and high / low >= _LOGARITHMIC_FROM:
        return _decades(low, high)
    span = high - low
    ordered = sorted(others)
    if ordered:
        inner_low, inner_high = ordered[len(ordered) // 20], ordered[-1 - len(ordered) // 20]
        if span > 0:
            inner_low, inner_high = max(inner_low, low - _BEYOND * span), min(inner_high, high + _BEYOND * span)
        low, high = min(low, inner_low), max(high, inner_high)
    if not high > low:
        reach = abs(low) / 10 or 1.0
        low, high = low - reach, low + reach
    return _linear(low, high)


def _bounded(value: float) -> float:
    return min(max(value, -_FURTHEST), _FURTHEST)


def count_axis(first: int, last: int) -> Axis:
    """An axis of whole numbers."""
    length = last - first
    if length <= 8:
        return Axis(tuple(float(tick) for tick in range(first, max(last, first + 1) + 1)))
    quarter = math.ceil(length / 4)
    return Axis(tuple(float(first + quarter * place) for place in range(5)))


def _linear(low: float, high: float) -> Axis:
    raw = (high - low) / _INTERVALS
    magnitude = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 0.0
    if not magnitude or not math.isfinite(magnitude):
        return Axis((low, high))
    step = next(step * magnitude for step in _STEPS if step * magnitude >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Axis(tuple(place * step for place in range(first, max(last, first + 1) + 1)))


def _decades(low: float, high: float) -> Axis:
    first, last = math.floor(math.log10(max(low, 1 / _FURTHEST))), math.ceil(math.log10(high))
    every = math.ceil((last - first) / 8)
    last = first + every * math.ceil((last - first) / every)
    return Axis(tuple(10.0**place for place in range(first, last + 1, every)), logarithmic=True)
