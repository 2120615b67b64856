"""What a child prints, made fit for a terminal that is somebody else's: words only, nothing that moves or colours."""

from __future__ import annotations

import re

TAIL_BYTES = 8192
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # a control sequence
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # a string: a title, a link
    r"|\x1b[ -/]*[0-~]?"
)
_LINES = re.compile(r"[\r\n\x0b\x0c\x85\u2028\u2029]+")


def words_of(line: str) -> str:
    """A line without escape sequences and control characters; a tab is a space."""
    plain = _ESCAPES.sub("", line).replace("\t", " ")
    return plain if plain.isprintable() else "".join(letter for letter in plain if letter.isprintable())


def text_of(text: str) -> str:
    """A text of several lines, each of them so."""
    return "\n".join(map(words_of, text.split("\n")))


def lines_of(printed: bytes) -> list[str]:
    """The lines, without empty ones; what a carriage return would have overwritten stands on a line of its own."""
    text = _ESCAPES.sub("", printed.decode("utf-8", "replace"))
    return [line for part in _LINES.split(text) if (line := words_of(part).rstrip())]


def last_line_of(printed: bytes) -> str:
    """The last line that has anything on it, or ""."""
    return next(iter(lines_of(printed[-TAIL_BYTES:])[::-1]), "").strip()
