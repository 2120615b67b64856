"""HTML and SVG elements that escape all text which is not ``Html`` already, so that none is forgotten."""

from __future__ import annotations

import html
import json
from bisect import bisect
from typing import Any

from goalseek.views.terminal_text import replace_unprintable

_EMPTY = frozenset({"meta", "rect", "input", "br", "hr", "link", "path"})


class Html(str):
    """Text that is markup."""

    __slots__ = ()


def tag(name: str, /, *inside: str, **attributes: object) -> Html:
    """An element. Names of attributes end in ``_`` where Python has the word, and have ``_`` for ``-``.

    An attribute of True stands alone; one of None or False is left out.
    """
    text = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _EMPTY:
        return Html(f"<{name}{text}/>")
    return Html(f"<{name}{text}>{fragment(*inside)}</{name}>")


def fragment(*inside: str) -> Html:
    """The parts one after another."""
    return Html("".join(part if isinstance(part, Html) else html.escape(replace_unprintable(part)) for part in inside))


def json_element(identifier: str, value: Any) -> Html:
    """A JSON value for the page's script: an element that is not executed, and that no text in it can close."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return tag("script", Html(text), type="application/json", id=identifier)


def _attribute(key: str, value: object) -> str:
    name = key.removesuffix("_")
    if not any(letter.isupper() for letter in name):
        name = name.replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(replace_unprintable(str(value)))}"'


_ESCAPED = "<>&\"'"
_LONGEST_ESCAPE = 6


def escaped_size(text: str) -> int:
    """The largest size of the text in bytes, in an element or as JSON, where some characters are escaped."""
    return len(text.encode("utf-8", "replace")) + (_LONGEST_ESCAPE - 1) * sum(text.count(sign) for sign in _ESCAPED)


def cut_to_bytes(text: str, limit: int) -> str:
    """The text, cut to at most ``limit`` bytes after escaping; where it is cut it ends in ``…``."""
    if _LONGEST_ESCAPE * len(text) <= limit or escaped_size(text) <= limit:
        return text
    fitting = bisect(range(len(text)), limit - len("…".encode()), key=lambda length: escaped_size(text[:length]))
    return text[: max(0, fitting - 1)] + "…"


def equal_share(total: int, count: int, limit: int) -> int:
    """An equal share of ``total`` bytes for each of ``count``, at most ``limit``."""
    return min(limit, total // max(1, count))
