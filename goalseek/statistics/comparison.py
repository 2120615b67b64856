"""The comparison of a candidate's runs with those of its incumbent: gain, odds, the gain that was needed. Pure."""

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
    """The runs of incumbent and candidate on the scale, and the sd of all code before the candidate's runs.

    ``known`` are the runs that tell the incumbent's own spread, also those that are not compared.
    """

    scale: Scale
    sd: float
    incumbent: Sequence[float]
    candidate: Sequence[float]
    known: Sequence[float]

    @property
    def log_odds(self) -> float:
        """The logarithm of the odds of 1.6 sd better against no better, by the sd of the side that spreads more."""
        better, evidence = self._better_and_evidence()
        return better * evidence / self._variance((len(self.candidate), len(self.incumbent)))

    def needed_gain(self, bar: float, runs: tuple[int, int]) -> float:
        """The gain, in the metric's units, at which ``runs`` of candidate and incumbent reach the log odds ``bar``.

        It is the gain of runs that spread as these do; where the odds of these are too low, it is more than their own.
        """
        better, evidence = self._better_and_evidence()
        needed, x = bar * self._variance(runs) / better, self.scale.x(self.incumbent_middle)
        own = x - self.scale.x(self.candidate_middle)
        least = max(self.sd * (better / 2 + needed), own + self.sd * (needed - evidence))
        return self.scale.better_by(self.scale.value(x - least), self.incumbent_middle)

    def _better_and_evidence(self) -> tuple[float, float]:
        """What better means, and how much better the candidate's runs are than half of that, both in sd."""
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
        """How much better than ``level`` the values are on the average, in sd; each counts for at most 1.5."""
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
        """The candidate's median; its first run, which was lucky, is left out where there are more."""
        return self.scale.middle(self.candidate[1:] or self.candidate)

    @property
    def gain(self) -> float:
        """How much better the candidate is, in the metric's units."""
        return self.scale.better_by(self.candidate_middle, self.incumbent_middle)

    def describe(self, odds: float | None, incumbent_value: float | None, unit: str = "") -> str:
        """``+8.2% (3 v 3 runs, odds > 9:1)``: the gain, positive where better, and the runs of either side.

        ``incumbent_value`` is the recorded one. If the candidate's number and that tell another story than these runs
        do, the incumbent's median in them is named.
        """
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
        """A gain with its sign: in percent of the incumbent's median, or in the metric's units."""
        size = format_gain(gain, self.incumbent_middle, self.scale.logarithmic, unit)
        return f"{'-' if gain < 0 else '+'}{size}"


def _sign(gain: float) -> int:
    return (gain > 0) - (gain < 0)
