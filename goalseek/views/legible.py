"""Signs that a stream's encoding may not know, in plain letters where it does not."""

from __future__ import annotations

from typing import TextIO

_PLAIN = {"→": "->", "−": "-", "±": "+-", "·": "|", "…": "...", "×": "x"}  # noqa: RUF001 - signs


def legible(text: str, stream: TextIO) -> str:
    """The text as the stream can show it; a letter that it lacks becomes ``?``."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for sign, plain in _PLAIN.items():
            text = text.replace(sign, plain)
        return text.encode(encoding, "replace").decode(encoding)
    return text
