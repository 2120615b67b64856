"""The progress plot: a dot for each try, the step line of the best, and the noise around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from goalseek.humanize import apart
from goalseek.views.report.claim import claim_of, kept_in_words
from goalseek.views.report.markup import Html, tag
from goalseek.views.report.night import Climb
from goalseek.views.report.scale import Axis, count_axis, value_axis
from goalseek.views.report.tries import Try

WIDTH, HEIGHT = 1000, 400
FLOOR = 350
"""Values lie above the floor; tries without a number on a lane of their own below it."""
_LANE = 380
_TOP = 70


@dataclass(frozen=True)
class Plot:
    """What to draw. ``tries`` are in the order of the dots: what was not kept, then the baseline and what was kept."""

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
        return any(done.value is None for done in self.tries)


def plot_of(climb: Climb) -> Plot | None:
    """The plot of a climb; None before its first measurement."""
    baseline = climb.baseline
    if baseline is None or baseline.value is None or climb.best is None:
        return None
    kept = list(climb.kept.items)
    if climb.kept.added and kept[-1:] != [climb.best]:
        kept.append(climb.best)
    best = (baseline, *(done for done in kept if done.value is not None))
    rejected = [*climb.rejected.items, *(done for done in kept if done.value is None)]
    upward = value_axis(_values(best), _values(rejected))
    tries = (*rejected, *best)
    return Plot(
        across=count_axis(baseline.iteration, climb.last),
        upward=upward,
        tries=tries,
        best=best,
        band=climb.repeats.bands(climb.direction, [done.value for done in best]),
        runs_at=tuple(climb.runs_at),
        last=climb.last,
        left_out=climb.tried + 1 - len(tries),
        beyond=sum(not -0.01 <= upward.place(value) <= 1.01 for value in _values(tries)),
        words=_words(climb),
    )


def marks(plot: Plot) -> Html:
    """The inside of an ``<svg>`` of WIDTH by HEIGHT: grid, band, line and dots, to be coloured by their classes."""
    many = " many" if len(plot.tries) > 1500 else ""
    count = len(plot.tries) - len(plot.best)
    behind, before = (_dots(plot, tries) for tries in (plot.tries[:count], plot.tries[count:]))
    return Html(
        "".join(_grid(plot))
        + "".join(_bands(plot))
        + f'<g class="dots{many}">{behind}</g><path class="line" d="{_steps(plot)}"/><g class="dots{many}">{before}</g>'
    )


def _dots(plot: Plot, tries: Sequence[Try]) -> str:
    places = ((done.label.outcome, _x(plot, done), _y(plot, done.value)) for done in tries)
    return "".join(f'<path class="dot {outcome}" d="M{x} {y}h0"/>' for outcome, x, y in places)


def standalone(climb: Climb) -> str:
    """The plot alone as an SVG file with its own colours."""
    plot = plot_of(climb)
    headline, kept = claim_of(climb).headline, kept_in_words(climb)
    if plot is None:
        inner: list[Html] = [tag("text", "nothing is measured yet", x=30, y=60)]
    else:
        drawn = tag("svg", marks(plot), x=80, y=_TOP, width=900, height=360, overflow="visible", **_BOX)
        inner = [
            tag("text", headline, x=20, y=26, class_="title"),
            tag("text", kept, x=20, y=48),
            drawn,
            *_written_labels(plot),
        ]
    whole = tag(
        "svg",
        tag("title", f"{headline}; {kept}"),
        tag("desc", plot.words if plot else "nothing is measured yet"),
        tag("style", Html(_COLORS)),
        tag("rect", width=1000, height=490, class_="paper"),
        *inner,
        xmlns="http://www.w3.org/2000/svg",
        viewBox="0 0 1000 490",
        width=1000,
        height=490,
        role="img",
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'


def stretched(plot: Plot) -> Html:
    """The plot for a page: as wide as there is room, with labels of their own size beside it."""
    lane = tag("span", "none", class_="lane") if plot.has_lane else Html()
    return tag(
        "div",
        tag(
            "div", *(tag("span", label) for label in reversed(plot.upward.labels)), class_="upward", aria_hidden="true"
        ),
        lane,
        tag("svg", marks(plot), role="img", aria_label=plot.words, **_BOX),
        tag("div", *(tag("span", label) for label in plot.across.labels), class_="across", aria_hidden="true"),
        class_="plot",
    )


_BOX = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "preserveAspectRatio": "none"}


def _values(tries: Sequence[Try]) -> list[float]:
    return [done.value for done in tries if done.value is not None]


def _x(plot: Plot, done: Try) -> str:
    return f"{WIDTH * plot.across.place(done.iteration):.1f}"


def _y(plot: Plot, value: float | None) -> str:
    if value is None:
        return str(_LANE)
    return f"{FLOOR * (1 - min(1.0, max(0.0, plot.upward.place(value)))):.1f}"


def _grid(plot: Plot) -> Iterator[str]:
    count = len(plot.upward.ticks) - 1
    for place in range(count + 1):
        yield f'<path class="grid" d="M0 {FLOOR * place / count:.1f}H{WIDTH}"/>'
    for iteration in plot.runs_at:
        yield f'<path class="run" d="M{WIDTH * plot.across.place(iteration - 0.5):.1f} 0V{FLOOR}"/>'


def _bands(plot: Plot) -> Iterator[str]:
    """Behind each step of the line, from where it begins to where the next one does."""
    for place, band in enumerate(plot.band):
        if band is not None:
            start, end = _x(plot, plot.best[place]), _end_of(plot, place)
            low, high = _y(plot, band[0]), _y(plot, band[1])
            yield f'<path class="band" d="M{start} {low}H{end}V{high}H{start}Z"/>'


def _steps(plot: Plot) -> str:
    told = [f"M{_x(plot, plot.best[0])} {_y(plot, plot.best[0].value)}"]
    told += [f"H{_x(plot, done)}V{_y(plot, done.value)}" for done in plot.best[1:]]
    return "".join(told) + f"H{_end_of(plot, len(plot.best) - 1)}"


def _end_of(plot: Plot, place: int) -> str:
    if place + 1 < len(plot.best):
        return _x(plot, plot.best[place + 1])
    return f"{WIDTH * plot.across.place(plot.last):.1f}"


def _written_labels(plot: Plot) -> Iterator[Html]:
    """The labels of the plot that stands alone, around its place in there."""
    top, left, width, floor = _TOP, 80, 900, 360 * FLOOR / HEIGHT
    count = len(plot.upward.ticks) - 1
    for place, label in enumerate(plot.upward.labels):
        yield tag("text", label, x=left - 12, y=round(top + floor * (1 - place / count) + 4, 1), text_anchor="end")
    steps = len(plot.across.ticks) - 1
    for place, label in enumerate(plot.across.labels):
        yield tag("text", label, x=round(left + width * place / steps, 1), y=452, text_anchor="middle")
    if plot.has_lane:
        yield tag("text", "none", x=left - 12, y=round(top + 360 * _LANE / HEIGHT + 4, 1), text_anchor="end")
    yield tag("text", "iteration", x=left + width, y=476, text_anchor="end")
    kinds = (("kept", "kept"), ("reverted", "not kept"), ("baseline", "baseline"))
    for place, (kind, label) in enumerate(kinds):
        yield Html(f'<path class="dot {kind}" d="M{left + 8 + 110 * place} 472h0"/>')
        yield tag("text", label, x=left + 18 + 110 * place, y=476)


def _words(climb: Climb) -> str:
    """The plot told to who does not see it."""
    assert climb.baseline and climb.best
    first, best = apart(climb.baseline.value or 0.0, climb.best.value or 0.0)
    better = "higher" if climb.direction == "maximize" else "lower"
    return (
        f"{climb.metric} over iterations {climb.baseline.iteration} to {climb.last}, {better} is better: "
        f"the baseline is {first}, the best so far {best}, of iteration {climb.best.iteration}; {kept_in_words(climb)}."
    )


_COLORS = (
    "text{font:14px system-ui,sans-serif;fill:#52606d}.title{font-size:17px;font-weight:600;fill:#1b232b}"
    ".paper{fill:#fff}.grid{stroke:#e3e7eb}.run{stroke:#9aa5b1;stroke-dasharray:2 4}.band{fill:#1a7f4b;opacity:.12}"
    "path{fill:none;vector-effect:non-scaling-stroke}.line{stroke:#1a7f4b;stroke-width:2}"
    ".dot{stroke-linecap:round;stroke-width:7px;stroke:#818c98}.dot.skipped{stroke-width:5px}"
    ".many .dot{stroke-width:4px}.many .dot.skipped{stroke-width:2px}"
    ".dot.kept{stroke:#1a7f4b;stroke-width:10px}.dot.baseline{stroke:#1b5fa8;stroke-width:10px}"
    "@media(prefers-color-scheme:dark){text{fill:#a7b2bd}.title{fill:#e8ecef}.paper{fill:#14181c}.grid{stroke:#2a3138}"
    ".line,.dot.kept{stroke:#4ccf8f}.band{fill:#4ccf8f}.dot{stroke:#74808c}"
    ".dot.baseline{stroke:#7db4ee}}"
)
