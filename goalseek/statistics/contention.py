"""What several measurements at once do to a number: its level and its spread, against runs made alone. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from msgspec import Struct

from goalseek.statistics.intervals import CONFIDENCE, SettledDifference, settle, student_quantile
from goalseek.statistics.scale import mean, scale_of, variance

Round = tuple[float, Sequence[float]]
"""The value of a run made alone, and those of runs made at once."""


class Contention(Struct, frozen=True):
    """What was found in rounds of a run made alone and ``jobs`` made at once.

    ``level`` is the difference of their values, positive where those at once are better. ``sd_ratio`` is the sd of runs
    at once over that of runs alone, infinite where only those alone are all equal; its 95% ``interval`` is None where
    the rounds are too few, or too many values equal, to give one.
    """

    jobs: int
    level: SettledDifference
    sd_ratio: float
    interval: tuple[float, float] | None

    @property
    def is_spread_sure(self) -> bool:
        """Whether the two spreads differ beyond doubt: 1 lies outside the interval."""
        if self.interval is None:
            return self.sd_ratio == math.inf
        return not self.interval[0] <= 1 <= self.interval[1]

    @property
    def is_harmful(self) -> bool:
        """Whether it is better to measure one at a time: the level is another one, or the spread is larger."""
        return self.level.is_sure or (self.is_spread_sure and self.sd_ratio > 1)


def contention(direction: str, rounds: Sequence[Round], unit: str = "") -> Contention:
    """What the rounds show. For the level, the runs at once of a round count as one: what slows one may slow them all.

    Raises ValueError for fewer than two rounds.
    """
    if len(rounds) < 2:
        raise ValueError("level and spread are seen in two rounds at least")
    all_positive = all(value > 0 for alone, at_once in rounds for value in (alone, *at_once))
    scale = scale_of(direction, all_positive)
    on_scale = [(scale.x(alone), scale.all(at_once)) for alone, at_once in rounds]
    middles = [scale.sign * mean(xs) for _, xs in on_scale]
    pairs = [(alone, math.exp(x) if all_positive else x) for (alone, _), x in zip(rounds, middles, strict=True)]
    jobs = len(rounds[0][1])
    return Contention(jobs, settle(direction, pairs, all_positive, unit), *_sd_ratio(on_scale))


def _sd_ratio(rounds: Sequence[Round]) -> tuple[float, tuple[float, float] | None]:
    """The ratio of the sds, its interval by Miller's jackknife (1968) of its logarithm, which leaves each round out.

    That asks for no normal values, nor for runs at once that are independent of each other.
    """
    alone, at_once = _variances(rounds)
    if alone == 0:
        return (1.0, (1.0, 1.0)) if at_once == 0 else (math.inf, None)
    if at_once == 0:
        return 0.0, None
    count = len(rounds)
    others = [_variances([*rounds[:index], *rounds[index + 1 :]]) for index in range(count)]
    if any(0 in pair for pair in others):
        return math.sqrt(at_once / alone), None
    whole, *parts = (math.log(after / before) / 2 for before, after in ((alone, at_once), *others))
    estimates = [count * whole - (count - 1) * part for part in parts]
    middle = mean(estimates)
    reach = student_quantile((1 + CONFIDENCE) / 2, count - 1) * math.sqrt(variance(estimates) / count)
    return math.exp(middle), (math.exp(middle - reach), math.exp(middle + reach))


def _variances(rounds: Sequence[Round]) -> tuple[float, float]:
    return variance([alone for alone, _ in rounds]), variance([*itertools.chain(*(xs for _, xs in rounds))])
