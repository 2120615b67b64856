"""The result of ``goalseek noise`` as text for a terminal: a plot of the values, a line for each finding, advice."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from goalseek.humanize import format_number
from goalseek.statistics.noise_report import NoiseReport, PlannedClimb, advice, findings
from goalseek.views.terminal_text import Paint, Signs, choose_signs, terminal_width

MAX_COLUMNS = 80
_LABEL = 15
_NARROWEST = 40
_LEAST = 8
_MARGIN = len("in order  ")


def noise_page(head: str, report: NoiseReport, climb: PlannedClimb, stream: TextIO, paint: Paint) -> Iterator[str]:
    """The lines, none wider than the terminal; for a file or a pipe nothing is wrapped."""
    signs, columns = choose_signs(stream), terminal_width(stream)
    yield from _wrap(head, columns, 0)
    if plot := plot_lines(report, columns or MAX_COLUMNS, signs, paint):
        yield ""
        yield from plot
        legend = f"{signs.middle} is the median, {signs.heights[0]} lowest to {signs.heights[-1]} highest"
        yield paint(" " * _MARGIN + legend, "grey")
    yield ""
    entries = [(f"{name:<{_LABEL}}{text}", _LABEL) for name, text in findings(report, climb)]
    for number, text in enumerate(advice(report, climb), start=1):
        entries.append((f"{'advice' if number == 1 else '':<{_LABEL}}{number}. {text}", _LABEL + 3))
    for entry, indent in entries:
        first, *rest = _wrap(entry, columns, indent)
        yield paint(first[:_LABEL], "bold") + first[_LABEL:]
        yield from rest


def _wrap(text: str, columns: int | None, indent: int) -> list[str]:
    if columns is None:
        return [text]
    return textwrap.wrap(text, max(columns, _NARROWEST), subsequent_indent=" " * indent, break_on_hyphens=False)


def plot_lines(report: NoiseReport, columns: int, signs: Signs, paint: Paint) -> list[str]:
    """Two lines of at most ``columns``; none where all values are equal. The first shows the last runs that fit."""
    if report.deterministic:
        return []
    room = min(columns, MAX_COLUMNS) - _MARGIN
    low, high = min(report.values), max(report.values)

    def bin_of(value: float, count: int) -> int:
        share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: the difference of two large numbers stays finite
        return min(count - 1, int(share * count))

    bars = []
    for value in report.values[-max(_LEAST, room) :]:
        bar = signs.heights[bin_of(value, len(signs.heights))]
        bars.append(paint(bar, "magenta") if value in report.outliers else bar)
    first, last = format_number(low), format_number(high)
    width = max(_LEAST, room - len(first) - len(last) - 4)
    counts = Counter(bin_of(value, width) for value in report.values)
    dots = signs.rule + signs.runs
    strip = [dots[min(counts[index], len(signs.runs))] for index in range(width)]
    strip[bin_of(report.middle, width)] = paint(signs.middle, "green")
    return [
        "in order  " + "".join(bars),
        f"spread    {first} {signs.ends[0]}{''.join(strip)}{signs.ends[1]} {last}",
    ]
