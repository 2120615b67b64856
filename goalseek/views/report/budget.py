"""How many bytes a text takes in the page, and texts cut to so many: a page stays small whatever was written."""

from __future__ import annotations

from bisect import bisect

_ESCAPED = "<>&\"'"
_LONGEST_ESCAPE = 6


def written(text: str) -> int:
    """How many bytes the text takes at most, in an element or as JSON, where some characters are escaped."""
    return len(text.encode("utf-8", "replace")) + (_LONGEST_ESCAPE - 1) * sum(text.count(sign) for sign in _ESCAPED)


def within(text: str, most: int) -> str:
    """The text, cut so that it takes no more bytes than this where it is written."""
    if _LONGEST_ESCAPE * len(text) <= most or written(text) <= most:
        return text
    fitting = bisect(range(len(text)), most - len("…".encode()), key=lambda length: written(text[:length]))
    return text[: max(0, fitting - 1)] + "…"


def share(whole: int, count: int, most: int) -> int:
    """How many bytes each of so many may take of a whole, and no more than ``most``."""
    return min(most, whole // max(1, count))
