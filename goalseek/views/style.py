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


def width_of(stream: TextIO) -> int | None:
    """How wide a terminal is; None for anything else, which gets whole lines."""
    if not stream.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def cells(text: str) -> int:
    """How many cells a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, most: int) -> str:
    """The text in at most so many cells; what is cut ends in ``…``."""
    if cells(text) <= most:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, most - 1).rstrip() + "…"


def wrapped(text: str, most: int) -> list[str]:
    """The text in lines of at most so many cells, broken between words; a longer word stays whole, to be copied."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cells(longer) > most:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
