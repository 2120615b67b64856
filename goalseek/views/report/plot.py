"""The progress plot as SVG: a dot for each try, the step line of the best, a band of its noise, and the axes."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate
from typing import Any

from msgspec import Struct

from goalseek.errors import GoalseekError
from goalseek.humanize import format_distinct
from goalseek.statistics.noise import NoiseState, scale_of, spread
from goalseek.values import Outcome
from goalseek.views.report.claim import format_kept
from goalseek.views.report.figures import ClimbFigures, Try

WIDTH = 1000
FLOOR = 350
"""Values lie above the floor; tries without a number on a lane of their own below it."""
_LANE = 380


class Axis(Struct, frozen=True):
    """``ticks`` are evenly spaced, from the low end to the high one."""

    ticks: tuple[float, ...]
    logarithmic: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        return format_distinct(*self.ticks)

    def place(self, value: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        if not self.logarithmic:
            return (value - low) / (high - low)
        return math.log(value / low) / math.log(high / low) if value > 0 else -math.inf


class Plot(Struct, frozen=True):
    """``band`` is the noise of a run at each of the ``best``; ``words`` are for readers who do not see the plot."""

    across: Axis
    upward: Axis
    rejected: tuple[Try, ...]
    best: tuple[Try, ...]
    band: tuple[tuple[float, float] | None, ...]
    remarks: list[str]
    words: str

    @property
    def tries(self) -> tuple[Try, ...]:
        return (*self.rejected, *self.best)

    @property
    def links(self) -> list[tuple[Try, Try]]:
        """Each rejected try that was put together with others, and the kept try made of them."""
        stacks = [try_ for try_ in self.best if try_.stacked]
        wanted = {number for try_ in stacks for number in try_.stacked}
        parents = {try_.iteration: try_ for try_ in self.rejected if try_.iteration in wanted}
        return [(parents[number], try_) for try_ in stacks for number in try_.stacked if number in parents]

    @property
    def steps(self) -> list[int]:
        """Where the line steps to each of the best: its iteration, or a higher one that was kept before it."""
        return list(accumulate((try_.iteration for try_ in self.best), max))

    @property
    def has_lane(self) -> bool:
        return any(try_.value is None for try_ in self.tries)

    @property
    def has_skipped(self) -> bool:
        return any(try_.label.outcome == Outcome.SKIPPED for try_ in self.tries)

    def x(self, iteration: float) -> str:
        return f"{WIDTH * self.across.place(iteration):.1f}"

    def y(self, value: float | None) -> str:
        """The coordinate, out of 400; the lane's for a try without a value."""
        if value is None:
            return str(_LANE)
        return f"{FLOOR * (1 - min(1.0, max(0.0, self.upward.place(value)))):.1f}"


def plot_of(climb: ClimbFigures) -> Plot | None:
    """None before the first measurement."""
    baseline = climb.baseline
    if baseline is None or baseline.value is None or climb.best is None:
        return None
    kept = list(climb.kept.items)
    if climb.kept.added and kept[-1:] != [climb.best]:
        kept.append(climb.best)
    best = (baseline, *(try_ for try_ in kept if try_.value is not None))
    rejected = (*climb.rejected.items, *(try_ for try_ in kept if try_.value is None))
    first, last = format_distinct(baseline.value, climb.best.value or 0.0, unit=climb.unit)
    better = "higher" if climb.direction == "maximize" else "lower"
    tries, values = (*rejected, *best), _known_values((*rejected, *best))
    upward = value_axis(_known_values(best), _known_values(rejected))
    remarks = []
    if len(values) < len(tries):
        remarks.append("The tries in the lane “none” gave no number.")
    if beyond := sum(not -0.01 <= upward.place(value) <= 1.01 for value in values):
        remarks.append(f"{'1 try lies' if beyond == 1 else f'{beyond:,} tries lie'} beyond the scale, at its edge.")
    if left_out := climb.tried + climb.reverts + 1 - len(tries):
        remarks.append(f"{left_out:,} more tries are left out of the plot, evenly.")
    return Plot(
        across=count_axis(baseline.iteration, climb.last),
        upward=upward,
        rejected=rejected,
        best=best,
        band=tuple(noise_bands(climb.noise, climb.direction, _known_values(best))),
        remarks=remarks,
        words=f"{climb.metric} over iterations {baseline.iteration} to {climb.last}, {better} is better: "
        f"the baseline is {first}, the best so far {last}, of iteration {climb.best.iteration}; {format_kept(climb)}.",
    )


def draw(climb: ClimbFigures, axes: Any = None) -> Any:
    """The plot on axes of matplotlib. Raises GoalseekError without it, and before the first measurement."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise GoalseekError("matplotlib is not installed", "pip install 'goalseek[notebook]'") from None
    if (plot := plot_of(climb)) is None:
        raise GoalseekError("nothing is measured yet", "goalseek iterate makes the first record")
    axes, ends, best = axes or pyplot.subplots()[1], [*plot.steps, climb.last], _known_values(plot.best)
    rejected = [try_ for try_ in plot.rejected if try_.value is not None]
    for start, end, band in zip(ends, ends[1:], plot.band, strict=False):
        if band:
            axes.fill_between([start, end], band[0], band[1], color="C0", alpha=0.2, linewidth=0)
    axes.plot([try_.iteration for try_ in rejected], _known_values(rejected), ".", color="0.6", label="not kept")
    axes.step(ends, [*best, best[-1]], "o-", markevery=range(len(best)), where="post", label="best so far")
    axes.set(xlabel="iteration", yscale="log" if plot.upward.logarithmic else "linear")
    axes.set_ylabel(climb.metric, parse_math=False)  # with "$" it is no formula
    axes.legend()
    return axes


def _known_values(tries: Sequence[Try]) -> list[float]:
    return [try_.value for try_ in tries if try_.value is not None]


def noise_bands(noise: NoiseState, direction: str, values: Sequence[float]) -> Iterator[tuple[float, float] | None]:
    """One standard deviation of a single run around each value; None if no run ever differed."""
    sd_of = cache(lambda in_percent: spread(scale_of(direction, in_percent), noise.pairs))
    for value in values:
        low = high = math.inf
        if noise.differed:
            in_percent = noise.all_positive and value > 0
            sd = sd_of(in_percent)
            with suppress(OverflowError):
                low, high = (value * math.exp(-sd), value * math.exp(sd)) if in_percent else (value - sd, value + sd)
        yield (low, high) if math.isfinite(low) and math.isfinite(high) else None


_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_INTERVALS = 5
_LOGARITHMIC_FROM = 30.0
_BEYOND = 0.75
_FURTHEST = 1e300  # a verifier may give the largest float for infinity; there is no float for a tick above that


def value_axis(core: Sequence[float], others: Sequence[float]) -> Axis:
    """Holds ``core`` and the middle nine tenths of ``others``, if ``core`` stays large; logarithmic for a wide core."""
    core, others = ([min(max(value, -_FURTHEST), _FURTHEST) for value in values] for values in (core, others))
    low, high = min(core), max(core)
    if low > 0 and high / low >= _LOGARITHMIC_FROM:
        first, last = math.floor(math.log10(max(low, 1 / _FURTHEST))), math.ceil(math.log10(high))
        every = math.ceil((last - first) / 8)
        last = first + every * math.ceil((last - first) / every)
        return Axis(tuple(10.0**exponent for exponent in range(first, last + 1, every)), logarithmic=True)
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
    raw = (high - low) / _INTERVALS
    magnitude = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 0.0
    if not magnitude or not math.isfinite(magnitude):
        return Axis((low, high))
    step = next(step * magnitude for step in _STEPS if step * magnitude >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Axis(tuple(index * step for index in range(first, max(last, first + 1) + 1)))


def count_axis(first: int, last: int) -> Axis:
    length = last - first
    if length <= 8:
        return Axis(tuple(float(tick) for tick in range(first, max(last, first + 1) + 1)))
    quarter = math.ceil(length / 4)
    return Axis(tuple(float(first + quarter * index) for index in range(5)))
