"""Text in the cells of a terminal, of which a Chinese letter takes two."""

from __future__ import annotations

from typing import TextIO


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
