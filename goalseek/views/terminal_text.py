"""Text for a terminal: a child's output without escape sequences and control characters, colours, widths."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Literal, TextIO

from msgspec import Struct, structs

# Output of the agent and the verifier is untrusted: an escape sequence in it could change the user's terminal.
_ESCAPES = (  # compiled at first use, as those below: most commands need none
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # a control sequence
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # a string: a title, a link
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = rb"[\x00-\x08\x0b\x0e-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]"
_LINES = r"[\r\n\x0b\x0c\x85\u2028\u2029]+"


def clean_line(line: str) -> str:
    """Drops escape sequences and control characters; a tab becomes a space."""
    plain = re.sub(_ESCAPES, "", line).replace("\t", " ")
    return plain if plain.isprintable() else "".join(letter for letter in plain if letter.isprintable())


def clean_text(text: str) -> str:
    return "\n".join(map(clean_line, text.split("\n")))


def clean_lines(printed: bytes) -> list[str]:
    """Leaves out empty lines; a carriage return begins a new line too."""
    text = re.sub(_ESCAPES, "", printed.decode("utf-8", "replace"))
    return [line for part in re.split(_LINES, text) if (line := clean_line(part).rstrip())]


def paint_patch(text: str, paint: Paint) -> str:
    """In the colours of ``git diff``, with the same number of lines."""
    colors: dict[str, Color] = {"@": "cyan", "+": "green", "-": "red"}
    in_hunk, lines = False, []
    for line in replace_unprintable(text).split("\n"):
        in_hunk = line.startswith("@@ ") or (in_hunk and not line.startswith("diff --git "))
        color = colors.get(line[:1]) if in_hunk else "bold"
        lines.append(paint(line, color) if line and color else line)
    return "\n".join(lines)


def strip_colour(text: str) -> str:
    """Also turns line ends into newlines."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n")


def replace_unprintable(text: str) -> str:
    """Substitutes U+FFFD; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def escape_controls(content: bytes) -> bytes:
    """Spells them as ``\\x1b``; tabs, line ends and bytes that are not UTF-8 stay, so that patches apply."""
    return re.sub(_CONTROLS, lambda match: match[0].decode().encode("unicode_escape"), content)


def one_line(text: str, limit: int | None = None) -> str:
    """Also replaces unprintable characters; ``limit`` counts characters, the last a ``…`` if any are cut off."""
    if text.isprintable() and "  " not in text and text[:1] != " " != text[-1:] and len(text) <= (limit or len(text)):
        return text  # a space is the only white space that is printable
    is_cut = False
    if limit is not None and len(text) > 2 * limit:
        is_cut = not text[2 * limit :].isspace()
        text = text[: 2 * limit]
    line = replace_unprintable(" ".join(text.split()))
    return line if limit is None or (len(line) <= limit and not is_cut) else line[: limit - 1] + "…"


Color = Literal["green", "red", "magenta", "grey", "bold", "cyan"]
Paint = Callable[[str, Color], str]
# Readable on white and on black: yellow is not on white, and bright black is the background itself in some themes, so
# that grey is the usual colour made faint.
CODES: dict[Color, str] = {"green": "32", "red": "31", "magenta": "35", "grey": "2", "bold": "1", "cyan": "36"}
OUTCOME_COLORS: dict[str, Color] = {"kept": "green", "baseline": "cyan", "reverted": "grey", "skipped": "magenta"}


def is_coloured(stream: TextIO, color: str) -> bool:
    """``color`` is "auto", "always" or "never"."""
    if color != "auto":
        return color == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def can_move_cursor(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def is_foreground(stream: TextIO | None) -> bool:
    """If not, this process must not draw on the terminal, read from it or change its modes."""
    try:
        return stream is None or os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):  # not a controlling terminal
        return True


def painter(stream: TextIO, color: str) -> Paint:
    if not is_coloured(stream, color):
        return lambda text, name: text
    return lambda text, name: f"\x1b[{CODES[name]}m{text}\x1b[0m"


class Signs(Struct, frozen=True):
    """Characters of drawings: rule and bars, bars of rising height, one run, two and more, the median, ends."""

    rule: str
    full: str
    rest: str
    dot: str
    heights: str
    runs: str
    middle: str
    ends: str


LINE_DRAWING = Signs("─", "━", "┄", " · ", "▁▂▃▄▅▆▇█", "·•●", "┼", "├┤")
ASCII = Signs("-", "#", ".", " | ", "12345678", ".:#", "+", "||")


def choose_signs(stream: TextIO) -> Signs:
    """ASCII if TERM is "dumb" or the stream's encoding lacks line-drawing characters."""
    try:
        "".join(structs.astuple(LINE_DRAWING)).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return ASCII if os.environ.get("TERM") == "dumb" else LINE_DRAWING


def terminal_width(stream: TextIO) -> int | None:
    """In cells; None for a file or a pipe, which gets whole lines."""
    if not stream.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def cell_width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut_to_cells(text: str, limit: int | None) -> str:
    """A cut text ends in ``…``; of a limit below 1 nothing is left."""
    if limit is None or cell_width(text) <= limit:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, limit - 1).rstrip() + "…" if limit > 0 else ""


_ROOM_FOR_BOTH = 40


def why_and_title(why: str, title: str, limit: int | None) -> str:
    """``why; title`` in one line of at most ``limit`` cells: from 40 on, a long why leaves half to the title."""
    why, title = one_line(why), one_line(title)
    if title and limit is not None and limit >= _ROOM_FOR_BOTH:
        why = cut_to_cells(why, max(limit - cell_width(title) - 2, limit // 2))
    return cut_to_cells(f"{why}; {title}" if title else why, limit)


def wrap(text: str, limit: int) -> list[str]:
    """Breaks between words; a word of more than ``limit`` cells stays whole, to be copied."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_width(longer) > limit:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
