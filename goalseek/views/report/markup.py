"""The templates of the report, which escape every text that is not markup already, and budgets of bytes for texts."""

from __future__ import annotations

from bisect import bisect
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from goalseek.humanize import format_cost, format_duration, format_number
from goalseek.views.report.claim import (
    REASONS,
    SANDBOXES,
    VERIFIERS,
    claim_of,
    format_at_once,
    format_change,
    format_kept,
    format_look,
    format_sandboxes,
)
from goalseek.views.terminal_text import replace_unprintable

if TYPE_CHECKING:
    from goalseek.views.report.aggregate import ReportFigures
    from goalseek.views.report.source import ProjectState

_TEMPLATES = Path(__file__).parent / "templates"
_ESCAPED = "<>&\"'"
_LONGEST_ESCAPE = 6


def render(name: str, night: ReportFigures, around: ProjectState, **values: Any) -> str:
    """The template with these values and those of every report. An undefined name in it is an error."""
    return (
        _environment()
        .get_template(name)
        .render(
            night=night,
            around=around,
            climb=night.climb,
            claim=claim_of(night.climb),
            summary=format_kept(night.climb),
            at_once=format_at_once(night.climb),
            reasons=REASONS,
            sandboxes=SANDBOXES,
            verifiers=VERIFIERS,
            **values,
        )
    )


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
        finalize=lambda value: value if isinstance(value, Markup) else replace_unprintable(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    compact = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = compact
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
