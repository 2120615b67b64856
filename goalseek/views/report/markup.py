"""The templates of the report, which escape every text that is not markup already, and budgets of bytes for texts."""

from __future__ import annotations

from bisect import bisect
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from goalseek.humanize import format_cost, format_duration, format_number
from goalseek.views.report.claim import format_change
from goalseek.views.report.words import format_look, format_sandboxes
from goalseek.views.terminal_text import replace_unprintable

_TEMPLATES = Path(__file__).parent / "templates"
_ESCAPED = "<>&\"'"
_LONGEST_ESCAPE = 6


def render(name: str, **values: Any) -> str:
    """The template with these values. An undefined name in it is an error."""
    return _environment().get_template(name).render(values)


@cache
def read_asset(name: str) -> Markup:
    """A script or style beside the templates, not escaped: neither contains the end of its own element."""
    return Markup((_TEMPLATES / name).read_text("utf-8"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=lambda name: name is None or not name.endswith(".md"),
        undefined=StrictUndefined,
        finalize=_make_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "allow_nan": False,
        "separators": (",", ":"),
    }
    environment.filters |= {
        "change": format_change,
        "cut": cut_to_bytes,
        "dollars": format_cost,
        "duration": format_duration,
        "number": lambda value, unit="": "" if value is None else format_number(value, unit),
        "sandboxes": format_sandboxes,
        "sentence": format_look,
        "thousands": "{:,}".format,
    }
    return environment


def _make_printable(value: Any) -> Any:
    return value if isinstance(value, Markup) else replace_unprintable(str(value))


def escaped_size(text: str) -> int:
    """The largest size of the text in bytes, in an element or as JSON, where some characters are escaped."""
    return len(text.encode("utf-8", "replace")) + (_LONGEST_ESCAPE - 1) * sum(map(text.count, _ESCAPED))


def cut_to_bytes(text: str, limit: int) -> str:
    """The text, cut to at most ``limit`` bytes after escaping; where it is cut it ends in ``…``."""
    if _LONGEST_ESCAPE * len(text) <= limit or escaped_size(text) <= limit:
        return text
    fitting = bisect(range(len(text)), limit - len("…".encode()), key=lambda length: escaped_size(text[:length]))
    return text[: max(0, fitting - 1)] + "…"


def equal_share(total: int, count: int, limit: int) -> int:
    """An equal share of ``total`` bytes for each of ``count``, at most ``limit``."""
    return min(limit, total // max(1, count))
