"""Comparison of a candidate's runs with its incumbent's: gain, odds, the gain that was needed."""

import math
from collections.abc import Sequence

from msgspec import Struct

from goalseek.humanize import format_gain, format_number, format_odds, pluralize
from goalseek.statistics.noise import Scale, relative_variance

BETTER = 1.6  # sd
CLIP = 1.5  # sd


class Comparison(Struct, frozen=True):
    """Gains are in the metric's units, positive if better; ``candidate`` and ``incumbent`` are medians of ``runs``.

    ``spreads`` are the variances of one run of candidate and incumbent, as multiples of sd², which is of all code.
    ``better`` is the size of "better", ``evidence`` by how much the candidate is better than half of that; both in sd.
    """

    scale: Scale
    sd: float
    runs: tuple[int, int]
    candidate: float
    incumbent: float
    spreads: tuple[float, float]
    better: float
    evidence: float

    @property
    def gain(self) -> float:
        return self.scale.better_by(self.candidate, self.incumbent)

    @property
    def log_odds(self) -> float:
        """The log likelihood ratio of "1.6 sd better" to "no better", by the sd of the side that spreads more."""
        return self.better * self.evidence / self._variance(self.runs)

    def needed_gain(self, bar: float, runs: tuple[int, int]) -> float:
        """The gain at which ``runs`` of candidate and incumbent reach the log odds ``bar``.

        They are taken to spread as these do; if the odds of these are too low, it is more than their own gain.
        """
        needed, x = bar * self._variance(runs) / self.better, self.scale.x(self.incumbent)
        own = x - self.scale.x(self.candidate)
        least = max(self.sd * (self.better / 2 + needed), own + self.sd * (needed - self.evidence))
        return self.scale.better_by(self.scale.value(x - least), self.incumbent)

    def _variance(self, runs: tuple[int, int]) -> float:
        return sum(spread / count for spread, count in zip(self.spreads, runs, strict=True))

    def describe(self, odds: float | None, incumbent_value: float | None, unit: str = "") -> str:
        """``+8.2% (3 v 3 runs, odds > 9:1)``; names the incumbent's median if that contradicts ``incumbent_value``."""
        candidate_runs, incumbent_runs = self.runs
        runs = f"{candidate_runs} v {incumbent_runs} runs"
        value = self.incumbent if incumbent_value is None else incumbent_value
        if _sign(self.scale.better_by(self.candidate, value)) != _sign(self.gain):
            median = format_number(self.incumbent, unit)
            runs = f"{pluralize(candidate_runs, 'run')} v the incumbent's last {incumbent_runs}, median {median}"
        gain = self.format_size(self.gain, unit) if self.gain else "no difference"
        return f"{gain} ({', '.join(filter(None, (runs, format_odds(odds))))})"

    def format_size(self, gain: float, unit: str) -> str:
        """With its sign: in percent of the incumbent's median, or in the metric's units."""
        size = format_gain(gain, self.incumbent, self.scale.logarithmic, unit)
        return f"{'-' if gain < 0 else '+'}{size}"


def compare(
    scale: Scale, sd: float, incumbent: Sequence[float], candidate: Sequence[float], known: Sequence[float]
) -> Comparison:
    """``sd`` is of all code, before the candidate's runs; ``known`` tell the incumbent's spread, compared or not.

    The candidate's first run, which was lucky, is left out of its median if there are more.
    """

    def clipped_gain(values: Sequence[float], level: float) -> float:
        """How much better than ``level`` on average, in sd; each value counts for at most 1.5."""
        distances = [level - x for x in scale.all(values)]
        if sd > 0:
            return sum(min(CLIP, max(-CLIP, distance / sd)) for distance in distances) / len(values)
        return sum(CLIP * _sign(distance) for distance in distances) / len(values)

    spreads = relative_variance(scale, candidate, sd), relative_variance(scale, known, sd)
    better, middle = BETTER * math.sqrt(max(spreads)), scale.middle(incumbent)
    level = scale.x(middle) - sd * clipped_gain(incumbent, scale.x(middle))
    evidence = clipped_gain(candidate, level - better * sd / 2)
    runs = len(candidate), len(incumbent)
    return Comparison(scale, sd, runs, scale.middle(candidate[1:] or candidate), middle, spreads, better, evidence)


def _sign(gain: float) -> int:
    return (gain > 0) - (gain < 0)
