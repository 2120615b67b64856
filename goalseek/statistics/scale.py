"""The scale on which values are compared, and the sd of one run of unchanged code on it. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from goalseek.values import Number

Pair = tuple[Number, Number]
_CLIP = 2.5
POOLED_PAIRS = 5
MAD_TO_SD = 1.4826  # of normal values


class Scale(Struct, frozen=True):
    """x = f(y), lower is better: f is s·log(y) where all values are positive, else s·y; s is 1 for minimize, else -1.

    The sign goes on x, never on y before the log.
    """

    sign: int
    logarithmic: bool

    def x(self, value: float) -> float:
        return self.sign * (math.log(value) if self.logarithmic else value)

    def value(self, x: float) -> float:
        return math.exp(self.sign * x) if self.logarithmic else self.sign * x

    def better_by(self, value: float, than: float) -> float:
        """How much better a value is than another, in their units; negative where worse."""
        return self.sign * (than - value)

    def middle(self, values: Sequence[float]) -> float:
        """The median, in the values' units; of an even number the scale's mean of the middle two. No value: IndexError.

        On the logarithmic scale that is the geometric mean, so that y and 1/y have the same middle.
        """
        ordered = sorted(values)
        low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
        if low == high:
            return low
        return math.sqrt(low) * math.sqrt(high) if self.logarithmic else low / 2 + high / 2

    def all(self, values: Iterable[float]) -> list[float]:
        return [self.x(value) for value in values]


def scale_of(direction: str, all_positive: bool) -> Scale:
    return Scale(1 if direction == "minimize" else -1, all_positive)


def successive_pairs(values: Sequence[float]) -> tuple[Pair, ...]:
    return tuple(itertools.pairwise(values))


def spread(scale: Scale, pairs: Sequence[Pair], others: Iterable[float] = ()) -> float:
    """The standard deviation of one run on the scale, from ``pairs`` of successive repeats of the same code.

    r are their differences over √2, so that a slow drift cancels; m = 1.4826·median|r|. The answer is the larger of m
    and the root mean square of r, clipped at 2.5 m where m > 0, times 1 + 1/n for n differences; never below the
    smallest step between two values among the pairs and ``others``. It is 0 where all of these are equal.
    """
    ordered = sorted(scale.all({*(value for pair in pairs for value in pair), *others}))
    step = min((after - before for before, after in successive_pairs(ordered)), default=0.0)
    if not pairs:
        return step
    sizes = [abs(scale.x(after) - scale.x(before)) / math.sqrt(2) for before, after in pairs]
    robust = MAD_TO_SD * median(sizes)
    clipped = [min(size, _CLIP * robust) if robust > 0 else size for size in sizes]
    root_mean_square = math.sqrt(sum(size * size for size in clipped) / len(clipped))
    return max(max(robust, root_mean_square) * (1 + 1 / len(sizes)), step)


def relative_variance(scale: Scale, values: Sequence[float], sd: float) -> float:
    """The variance of one run of the code that gave these values in turn, as a multiple of sd²: 1 where sd is 0.

    ``sd`` is that of all code, and counts as much as five differences between successive values do; none of them
    counts for more than 2.5 sd. So a few runs that happen to agree are no proof of a small spread.
    """
    if sd == 0:
        return 1.0
    sizes = [abs(after - before) / (math.sqrt(2) * sd) for before, after in successive_pairs(scale.all(values))]
    return (POOLED_PAIRS + sum(min(size, _CLIP) ** 2 for size in sizes)) / (POOLED_PAIRS + len(sizes))


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the middle two. Raises IndexError for none."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """The variance of what the values were drawn from; 0 for one value."""
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / max(1, len(values) - 1)


def robust_sd(xs: Sequence[float]) -> float:
    """1.4826 times the median distance from the median; the plain standard deviation where that is 0."""
    center = median(xs)
    robust = MAD_TO_SD * median([abs(x - center) for x in xs])
    return robust or math.sqrt(variance(xs))


def solve(rising: Callable[[float], float], result: float, highest: float) -> float:
    """The argument between 0 and ``highest`` for which a rising function has this result: by halving."""
    low, high = 0.0, highest
    for _ in range(100):
        middle = (low + high) / 2
        if rising(middle) < result:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def representative(values: Sequence[float]) -> float:
    """The value that stands for a set of runs: their median, without the first where there are more."""
    return median(values[1:] if len(values) > 1 else values)
