"""The result of ``goalseek noise`` as text for a terminal: a plot of the values, a line for each finding, advice."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from goalseek.humanize import format_number
from goalseek.statistics.advice import PlannedClimb, advice, findings
from goalseek.statistics.noise_report import NoiseReport
from goalseek.views.terminal_text import Paint, terminal_width

_LABEL = 15
_NARROWEST = 40


def noise_page(head: str, report: NoiseReport, climb: PlannedClimb, stream: TextIO, paint: Paint) -> Iterator[str]:
    """The lines, none wider than the terminal; for a file or a pipe nothing is wrapped."""
    glyphs, columns = choose_glyphs(stream), terminal_width(stream)
    yield from _wrap(head, columns, 0)
    plot = plot_lines(report, columns or MAX_COLUMNS, glyphs, paint)
    if plot:
        yield ""
        yield from plot
        yield paint(" " * len("in order  ") + legend(report, glyphs), "grey")
    yield ""
    for name, text in findings(report, climb):
        first, *rest = _wrap(f"{name:<{_LABEL}}{text}", columns, _LABEL)
        yield paint(first[:_LABEL], "bold") + first[_LABEL:]
        yield from rest
    for number, text in enumerate(advice(report, climb), start=1):
        first, *rest = _wrap(f"{'advice' if number == 1 else '':<{_LABEL}}{number}. {text}", columns, _LABEL + 3)
        yield paint(first[:_LABEL], "bold") + first[_LABEL:]
        yield from rest


def _wrap(text: str, columns: int | None, indent: int) -> list[str]:
    if columns is None:
        return [text]
    return textwrap.wrap(
        text,
        max(columns, _NARROWEST),
        subsequent_indent=" " * indent,
        break_long_words=True,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


MAX_COLUMNS = 80
_LEAST = 8
_MARGIN = len("in order  ")


@dataclass(frozen=True)
class Glyphs:
    """The characters of the plot: bars from low to high; one run, two, more; the median; the axis and its ends."""

    heights: str
    runs: str
    middle: str
    axis: str
    ends: str


LINE_DRAWING = Glyphs("▁▂▃▄▅▆▇█", "·•●", "┼", "─", "├┤")
ASCII = Glyphs("12345678", ".:#", "+", "-", "||")


def choose_glyphs(stream: TextIO) -> Glyphs:
    """Line-drawing characters; ASCII ones where TERM is "dumb" or the encoding lacks the others."""
    if os.environ.get("TERM") == "dumb":
        return ASCII
    try:
        "".join(
            LINE_DRAWING.heights + LINE_DRAWING.runs + LINE_DRAWING.middle + LINE_DRAWING.axis + LINE_DRAWING.ends
        ).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return LINE_DRAWING


def plot_lines(report: NoiseReport, columns: int, glyphs: Glyphs, paint: Paint) -> list[str]:
    """Two lines of at most ``columns``; none where all values are equal. The first shows the last runs that fit."""
    if report.deterministic:
        return []
    return [_in_order(report, columns, glyphs, paint), _spread(report, columns, glyphs, paint)]


def _in_order(report: NoiseReport, columns: int, glyphs: Glyphs, paint: Paint) -> str:
    low, high = min(report.values), max(report.values)
    values = report.values[-max(_LEAST, min(columns, MAX_COLUMNS) - _MARGIN) :]
    bars = [glyphs.heights[_bin_of(value, low, high, len(glyphs.heights))] for value in values]
    colored = [
        paint(bar, "magenta") if value in report.outliers else bar for bar, value in zip(bars, values, strict=True)
    ]
    return "in order  " + "".join(colored)


def _spread(report: NoiseReport, columns: int, glyphs: Glyphs, paint: Paint) -> str:
    low, high = min(report.values), max(report.values)
    first, last = format_number(low), format_number(high)
    width = max(_LEAST, min(columns, MAX_COLUMNS) - _MARGIN - len(first) - len(last) - 4)
    counts = Counter(_bin_of(value, low, high, width) for value in report.values)
    strip = [_dots(counts[index], glyphs) for index in range(width)]
    middle = _bin_of(report.middle, low, high, width)
    strip[middle] = paint(glyphs.middle, "green")
    return f"spread    {first} {glyphs.ends[0]}{''.join(strip)}{glyphs.ends[1]} {last}"


def _dots(count: int, glyphs: Glyphs) -> str:
    return glyphs.axis if count == 0 else glyphs.runs[min(count, len(glyphs.runs)) - 1]


def _bin_of(value: float, low: float, high: float, count: int) -> int:
    """The index of the bin that a value falls into, of ``count`` equal bins from low to high."""
    share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: the difference of two large numbers stays finite
    return min(count - 1, int(share * count))


def legend(report: NoiseReport, glyphs: Glyphs) -> str:
    """The explanation of the characters; "" where there is no plot."""
    heights = f", {glyphs.heights[0]} lowest to {glyphs.heights[-1]} highest"
    return "" if report.deterministic else f"{glyphs.middle} is the median{heights}"
