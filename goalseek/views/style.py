"""Colour for words, where the terminal and the person want it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

Paint = Callable[[str, str], str]
# Readable on white and on black: yellow is not on white, and bright black is the background itself in some themes, so
# that grey is the usual colour made faint.
CODES = {"green": "32", "red": "31", "magenta": "35", "grey": "2", "bold": "1", "cyan": "36"}
OUTCOME_COLORS = {"kept": "green", "baseline": "cyan", "reverted": "grey", "skipped": "magenta"}


def is_coloured(stream: TextIO, color: str) -> bool:
    """Whether the stream gets colours; ``color`` is "auto", "always" or "never"."""
    return color == "always" or (
        color == "auto"
        and stream.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def is_movable(stream: TextIO) -> bool:
    """Whether the stream is a terminal on which the cursor can be moved."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def painter(stream: TextIO, color: str) -> Paint:
    """A function (text, colour) for this stream; ``color`` is "auto", "always" or "never"."""
    if not is_coloured(stream, color):
        return lambda text, name: text
    return lambda text, name: f"\x1b[{CODES[name]}m{text}\x1b[0m"
