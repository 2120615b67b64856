"""Comparison of a candidate's runs with its incumbent's: gain, odds, the gain that was needed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from goalseek.humanize import format_gain, format_number, format_odds, pluralize
from goalseek.statistics.noise import Scale, relative_variance

BETTER = 1.6  # sd
CLIP = 1.5  # sd
WIDER = 1.2  # sd


class Comparison(Struct, frozen=True):
    """``sd`` is of all code, before the candidate's runs; ``known`` tell the incumbent's spread, compared or not."""

    scale: Scale
    sd: float
    incumbent: Sequence[float]
    candidate: Sequence[float]
    known: Sequence[float]

    @property
    def log_odds(self) -> float:
        """The log likelihood ratio of "1.6 sd better" to "no better", by the sd of the side that spreads more."""
        better, evidence = self._better_and_evidence()
        return better * evidence / self._variance((len(self.candidate), len(self.incumbent)))

    def needed_gain(self, bar: float, runs: tuple[int, int]) -> float:
        """The gain, in the metric's units, at which ``runs`` of candidate and incumbent reach the log odds ``bar``.

        They are taken to spread as these do; if the odds of these are too low, it is more than their own gain.
        """
        better, evidence = self._better_and_evidence()
        needed, x = bar * self._variance(runs) / better, self.scale.x(self.incumbent_middle)
        own = x - self.scale.x(self.candidate_middle)
        least = max(self.sd * (better / 2 + needed), own + self.sd * (needed - evidence))
        return self.scale.better_by(self.scale.value(x - least), self.incumbent_middle)

    def _better_and_evidence(self) -> tuple[float, float]:
        """In sd: the size of "better", and how much better the candidate's runs are than half of that."""
        better, median = BETTER * math.sqrt(max(self._spreads)), self.scale.x(self.incumbent_middle)
        level = median - self.sd * self._clipped_gain(self.incumbent, median)
        return better, self._clipped_gain(self.candidate, level - better * self.sd / 2)

    @property
    def _spreads(self) -> tuple[float, float]:
        """The variance of one run of candidate and incumbent, each by its own runs, as multiples of sd²."""
        sides = self.candidate, self.known
        candidate, incumbent = (relative_variance(self.scale, values, self.sd) for values in sides)
        return candidate, incumbent

    def _variance(self, runs: tuple[int, int]) -> float:
        return sum(spread / count for spread, count in zip(self._spreads, runs, strict=True))

    def _clipped_gain(self, values: Sequence[float], level: float) -> float:
        """How much better than ``level`` on average, in sd; each value counts for at most 1.5."""
        distances = [level - x for x in self.scale.all(values)]
        if self.sd > 0:
            return sum(min(CLIP, max(-CLIP, distance / self.sd)) for distance in distances) / len(values)
        return sum(CLIP * _sign(distance) for distance in distances) / len(values)

    @property
    def is_wider(self) -> bool:
        return self._spreads[0] > WIDER**2

    @property
    def incumbent_middle(self) -> float:
        return self.scale.middle(self.incumbent)

    @property
    def candidate_middle(self) -> float:
        """Without its first run, which was lucky, if there are more."""
        return self.scale.middle(self.candidate[1:] or self.candidate)

    @property
    def gain(self) -> float:
        """In the metric's units; positive if better."""
        return self.scale.better_by(self.candidate_middle, self.incumbent_middle)

    def describe(self, odds: float | None, incumbent_value: float | None, unit: str = "") -> str:
        """``+8.2% (3 v 3 runs, odds > 9:1)``; names the incumbent's median if that contradicts ``incumbent_value``."""
        runs = f"{len(self.candidate)} v {len(self.incumbent)} runs"
        value = self.incumbent_middle if incumbent_value is None else incumbent_value
        if _sign(self.scale.better_by(self.candidate_middle, value)) != _sign(self.gain):
            median = format_number(self.incumbent_middle, unit)
            runs = (
                f"{pluralize(len(self.candidate), 'run')} v the incumbent's last {len(self.incumbent)}, median {median}"
            )
        gain = self.format_size(self.gain, unit) if self.gain else "no difference"
        return f"{gain} ({', '.join(filter(None, (runs, format_odds(odds))))})"

    def format_size(self, gain: float, unit: str) -> str:
        """With its sign: in percent of the incumbent's median, or in the metric's units."""
        size = format_gain(gain, self.incumbent_middle, self.scale.logarithmic, unit)
        return f"{'-' if gain < 0 else '+'}{size}"


def _sign(gain: float) -> int:
    return (gain > 0) - (gain < 0)
