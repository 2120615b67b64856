"""What ``goalseek noise`` found, as a page for a terminal: a picture, a line a finding, advice in order."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from goalseek.humanize import format_number
from goalseek.statistics.noise_report import NoiseReport
from goalseek.views.terminal_text import Paint

_LABEL = 15
_NARROWEST = 40


def noise_page(
    head: str,
    report: NoiseReport,
    findings: Sequence[tuple[str, str]],
    advice: Sequence[str],
    stream: TextIO,
    columns: int | None,
    paint: Paint,
) -> Iterator[str]:
    """The lines, none wider than ``columns``; None is for what is no terminal, and leaves the words unwrapped."""
    glyphs = glyphs_for(stream)
    yield from _wrapped(head, columns, 0)
    drawn = picture(report, columns or WIDEST, glyphs, paint)
    if drawn:
        yield ""
        yield from drawn
        yield paint(" " * len("in order  ") + legend(report, glyphs), "grey")
    yield ""
    for name, text in findings:
        first, *rest = _wrapped(f"{name:<{_LABEL}}{text}", columns, _LABEL)
        yield paint(first[:_LABEL], "bold") + first[_LABEL:]
        yield from rest
    for place, text in enumerate(advice, start=1):
        first, *rest = _wrapped(f"{'advice' if place == 1 else '':<{_LABEL}}{place}. {text}", columns, _LABEL + 3)
        yield paint(first[:_LABEL], "bold") + first[_LABEL:]
        yield from rest


def _wrapped(text: str, columns: int | None, indent: int) -> list[str]:
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
    first, last = format_number(low), format_number(high)
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
