"""The progress plot as SVG: a dot for each try, the step line of the best, a band of its noise, and the axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from goalseek.humanize import format_distinct
from goalseek.values import Outcome
from goalseek.views.report.aggregate import Climb
from goalseek.views.report.claim import claim_of, format_kept
from goalseek.views.report.costs import noise_bands
from goalseek.views.report.markup import render
from goalseek.views.report.rows import Try

WIDTH = 1000
FLOOR = 350
"""Values lie above the floor; tries without a number on a lane of their own below it."""
_LANE = 380


@dataclass(frozen=True)
class Plot:
    """The data of the plot. ``tries`` are in the order of the dots: those not kept, the baseline, the kept ones."""

    across: Axis
    upward: Axis
    tries: tuple[Try, ...]
    best: tuple[Try, ...]
    band: tuple[tuple[float, float] | None, ...]
    runs_at: tuple[int, ...]
    last: int
    left_out: int
    beyond: int
    words: str

    @property
    def has_lane(self) -> bool:
        """Whether a try has no number."""
        return any(try_.value is None for try_ in self.tries)

    @property
    def has_band(self) -> bool:
        """Whether the noise of a run is known."""
        return any(self.band)

    @property
    def has_skipped(self) -> bool:
        """Whether a try was skipped."""
        return any(try_.label.outcome == Outcome.SKIPPED for try_ in self.tries)

    @property
    def remarks(self) -> list[str]:
        """Sentences on what is not in its place, or not in the plot."""
        beyond = "1 try lies" if self.beyond == 1 else f"{self.beyond:,} tries lie"
        remarks = (
            ("No number came of the tries in the lane “none”.", self.has_lane),
            (f"{beyond} beyond the scale, at its edge.", self.beyond),
            (f"{self.left_out:,} more tries are left out of the plot, evenly.", self.left_out),
        )
        return [text for text, holds in remarks if holds]

    @property
    def marks(self) -> Markup:
        """The content of an ``<svg>`` of 1000 by 400: grid, band, line and dots, coloured by their classes."""
        group = f'<g class="dots{" many" if len(self.tries) > 1500 else ""}">'
        count = len(self.tries) - len(self.best)
        behind, before = ("".join(_dots(self, tries)) for tries in (self.tries[:count], self.tries[count:]))
        grid, bands = "".join(_grid(self)), "".join(_bands(self))
        line = f'<path class="line" d="{_steps(self)}"/>'
        return Markup(f"{grid}{bands}{group}{behind}</g>{line}{group}{before}</g>")


def plot_of(climb: Climb) -> Plot | None:
    """The plot of a climb; None before its first measurement."""
    baseline = climb.baseline
    if baseline is None or baseline.value is None or climb.best is None:
        return None
    kept = list(climb.kept.items)
    if climb.kept.added and kept[-1:] != [climb.best]:
        kept.append(climb.best)
    best = (baseline, *(try_ for try_ in kept if try_.value is not None))
    rejected = [*climb.rejected.items, *(try_ for try_ in kept if try_.value is None)]
    upward = value_axis(_known_values(best), _known_values(rejected))
    tries = (*rejected, *best)
    return Plot(
        across=count_axis(baseline.iteration, climb.last),
        upward=upward,
        tries=tries,
        best=best,
        band=noise_bands(climb.noise, climb.direction, [try_.value for try_ in best]),
        runs_at=tuple(climb.runs_at),
        last=climb.last,
        left_out=climb.tried + 1 - len(tries),
        beyond=sum(not -0.01 <= upward.place(value) <= 1.01 for value in _known_values(tries)),
        words=_words(climb),
    )


def svg_document(climb: Climb) -> str:
    """The plot alone as an SVG file with its own colours."""
    return render("plot.svg", plot=plot_of(climb), headline=claim_of(climb).headline, kept=format_kept(climb))


def _dots(plot: Plot, tries: Sequence[Try]) -> Iterator[str]:
    for try_ in tries:
        yield f'<path class="dot {try_.label.outcome}" d="M{_x(plot, try_)} {_y(plot, try_.value)}h0"/>'


def _known_values(tries: Sequence[Try]) -> list[float]:
    return [try_.value for try_ in tries if try_.value is not None]


def _x(plot: Plot, try_: Try) -> str:
    return f"{WIDTH * plot.across.place(try_.iteration):.1f}"


def _y(plot: Plot, value: float | None) -> str:
    if value is None:
        return str(_LANE)
    return f"{FLOOR * (1 - min(1.0, max(0.0, plot.upward.place(value)))):.1f}"


def _grid(plot: Plot) -> Iterator[str]:
    count = len(plot.upward.ticks) - 1
    for index in range(count + 1):
        yield f'<path class="grid" d="M0 {FLOOR * index / count:.1f}H{WIDTH}"/>'
    for iteration in plot.runs_at:
        yield f'<path class="run" d="M{WIDTH * plot.across.place(iteration - 0.5):.1f} 0V{FLOOR}"/>'


def _bands(plot: Plot) -> Iterator[str]:
    """The noise behind each step of the line, from its beginning to that of the next."""
    for index, band in enumerate(plot.band):
        if band is not None:
            start, end = _x(plot, plot.best[index]), _end_of(plot, index)
            low, high = _y(plot, band[0]), _y(plot, band[1])
            yield f'<path class="band" d="M{start} {low}H{end}V{high}H{start}Z"/>'


def _steps(plot: Plot) -> str:
    commands = [f"M{_x(plot, plot.best[0])} {_y(plot, plot.best[0].value)}"]
    commands += [f"H{_x(plot, try_)}V{_y(plot, try_.value)}" for try_ in plot.best[1:]]
    return "".join(commands) + f"H{_end_of(plot, len(plot.best) - 1)}"


def _end_of(plot: Plot, index: int) -> str:
    if index + 1 < len(plot.best):
        return _x(plot, plot.best[index + 1])
    return f"{WIDTH * plot.across.place(plot.last):.1f}"


def _words(climb: Climb) -> str:
    """The description of the plot for readers who do not see it."""
    assert climb.baseline and climb.best
    first, best = format_distinct(climb.baseline.value or 0.0, climb.best.value or 0.0)
    better = "higher" if climb.direction == "maximize" else "lower"
    return (
        f"{climb.metric} over iterations {climb.baseline.iteration} to {climb.last}, {better} is better: "
        f"the baseline is {first}, the best so far {best}, of iteration {climb.best.iteration}; {format_kept(climb)}."
    )


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
        return format_distinct(*self.ticks)

    def place(self, value: float) -> float:
        """The position of a value: 0 at the low end, 1 at the high one; outside that range beyond the ends."""
        low, high = self.ticks[0], self.ticks[-1]
        if not self.logarithmic:
            return (value - low) / (high - low)
        return math.log(value / low) / math.log(high / low) if value > 0 else -math.inf


def value_axis(core: Sequence[float], others: Sequence[float]) -> Axis:
    """An axis that holds all of ``core``, and the middle nine tenths of the others unless they would make core small.

    It is logarithmic where core is positive and its ends are far apart. A value near the largest float, which a
    verifier may give in place of infinity, lies beyond the axis: there is no float for a tick above it.
    """
    core, others = [_clamp(value) for value in core], [_clamp(value) for value in others]
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


def _clamp(value: float) -> float:
    return min(max(value, -_FURTHEST), _FURTHEST)


def count_axis(first: int, last: int) -> Axis:
    """An axis of whole numbers."""
    length = last - first
    if length <= 8:
        return Axis(tuple(float(tick) for tick in range(first, max(last, first + 1) + 1)))
    quarter = math.ceil(length / 4)
    return Axis(tuple(float(first + quarter * index) for index in range(5)))


def _linear(low: float, high: float) -> Axis:
    raw = (high - low) / _INTERVALS
    magnitude = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 0.0
    if not magnitude or not math.isfinite(magnitude):
        return Axis((low, high))
    step = next(step * magnitude for step in _STEPS if step * magnitude >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Axis(tuple(index * step for index in range(first, max(last, first + 1) + 1)))


def _decades(low: float, high: float) -> Axis:
    first, last = math.floor(math.log10(max(low, 1 / _FURTHEST))), math.ceil(math.log10(high))
    every = math.ceil((last - first) / 8)
    last = first + every * math.ceil((last - first) / every)
    return Axis(tuple(10.0**exponent for exponent in range(first, last + 1, every)), logarithmic=True)
