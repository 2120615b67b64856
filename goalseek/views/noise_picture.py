"""A small picture of some runs: their values in order, and how they spread, a line each."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TextIO

from goalseek.humanize import number
from goalseek.statistics.noise_report import NoiseReport
from goalseek.views.style import Paint

WIDEST = 80
_LEAST = 8
_MARGIN = len("in order  ")


@dataclass(frozen=True)
class Glyphs:
    """What a picture is drawn with: heights from low to high, one run, two, more, the median, axis and its ends."""

    heights: str
    runs: str
    middle: str
    axis: str
    ends: str


DRAWN = Glyphs("▁▂▃▄▅▆▇█", "·•●", "┼", "─", "├┤")
TYPED = Glyphs("12345678", ".:#", "+", "-", "||")


def glyphs_for(stream: TextIO) -> Glyphs:
    """Plain letters for a terminal that says it is dumb, and where the encoding has nothing else."""
    if os.environ.get("TERM") == "dumb":
        return TYPED
    try:
        "".join(DRAWN.heights + DRAWN.runs + DRAWN.middle + DRAWN.axis + DRAWN.ends).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return TYPED
    return DRAWN


def picture(report: NoiseReport, columns: int, glyphs: Glyphs, paint: Paint) -> list[str]:
    """Two lines of at most ``columns``, none of equal values. Of more runs than fit, the last are shown in order."""
    if report.deterministic:
        return []
    return [_in_order(report, columns, glyphs, paint), _spread(report, columns, glyphs, paint)]


def _in_order(report: NoiseReport, columns: int, glyphs: Glyphs, paint: Paint) -> str:
    low, high = min(report.values), max(report.values)
    shown = report.values[-max(_LEAST, min(columns, WIDEST) - _MARGIN) :]
    bars = [glyphs.heights[_place(value, low, high, len(glyphs.heights))] for value in shown]
    colored = [
        paint(bar, "magenta") if value in report.outliers else bar for bar, value in zip(bars, shown, strict=True)
    ]
    return "in order  " + "".join(colored)


def _spread(report: NoiseReport, columns: int, glyphs: Glyphs, paint: Paint) -> str:
    low, high = min(report.values), max(report.values)
    first, last = number(low), number(high)
    width = max(_LEAST, min(columns, WIDEST) - _MARGIN - len(first) - len(last) - 4)
    counts = Counter(_place(value, low, high, width) for value in report.values)
    strip = [_dots(counts[place], glyphs) for place in range(width)]
    middle = _place(report.middle, low, high, width)
    strip[middle] = paint(glyphs.middle, "green")
    return f"spread    {first} {glyphs.ends[0]}{''.join(strip)}{glyphs.ends[1]} {last}"


def _dots(count: int, glyphs: Glyphs) -> str:
    return glyphs.axis if count == 0 else glyphs.runs[min(count, len(glyphs.runs)) - 1]


def _place(value: float, low: float, high: float, places: int) -> int:
    """Which of so many equal places from low to high a value falls into."""
    share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: the difference of two large numbers stays finite
    return min(places - 1, int(share * places))


def legend(report: NoiseReport, glyphs: Glyphs) -> str:
    """What the marks mean."""
    heights = f", {glyphs.heights[0]} lowest to {glyphs.heights[-1]} highest"
    return "" if report.deterministic else f"{glyphs.middle} is the median{heights}"
