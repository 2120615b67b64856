"""What ``goalseek noise`` found, as a page for a terminal: a picture, a line a finding, advice in order."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TextIO

from goalseek.statistics.noise_report import NoiseReport
from goalseek.views.noise_picture import WIDEST, glyphs_for, legend, picture
from goalseek.views.style import Paint

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
