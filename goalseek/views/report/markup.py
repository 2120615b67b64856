"""HTML and SVG in which nothing can be forgotten to be escaped: text is escaped unless it is Html already."""

from __future__ import annotations

import html
import json
from bisect import bisect
from typing import Any

from goalseek.views.terminal_text import harmless

_EMPTY = frozenset({"meta", "rect", "input", "br", "hr", "link", "path"})


class Html(str):
    """Text that is markup."""

    __slots__ = ()


def tag(name: str, /, *inside: str, **attributes: object) -> Html:
    """An element. Names of attributes end in ``_`` where Python has the word, and have ``_`` for ``-``.

    An attribute of True stands alone; one of None or False is left out.
    """
    told = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _EMPTY:
        return Html(f"<{name}{told}/>")
    return Html(f"<{name}{told}>{fragment(*inside)}</{name}>")


def fragment(*inside: str) -> Html:
    """The parts one after another."""
    return Html("".join(part if isinstance(part, Html) else html.escape(harmless(part)) for part in inside))


def data(identifier: str, value: Any) -> Html:
    """A JSON value for the page's script to read: a block that no browser runs, which no text in it can end."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return tag("script", Html(text), type="application/json", id=identifier)


def _attribute(key: str, value: object) -> str:
    name = key.removesuffix("_")
    if not any(letter.isupper() for letter in name):
        name = name.replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(harmless(str(value)))}"'


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
