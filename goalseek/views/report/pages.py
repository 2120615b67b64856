"""The report's pages, from templates that escape each text: one HTML file, and Markdown for a pull request.

In the Markdown, an agent's text is in code spans only, where no mention, link, image or HTML takes effect.
"""

from __future__ import annotations

import base64
import hashlib
import re
from bisect import bisect
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from msgspec import structs

from goalseek._version import __version__
from goalseek.humanize import format_cost, format_duration, format_number
from goalseek.values import Reason
from goalseek.views.report import claim
from goalseek.views.report.plot import plot_of
from goalseek.views.terminal_text import one_line, replace_unprintable

if TYPE_CHECKING:
    from goalseek.views.report.figures import Label, ReportFigures, Try
    from goalseek.views.report.source import DiffLines, ProjectState

KEPT_SHOWN = 300
NEWEST_SHOWN = 5
_DATA_TEXTS = 1_200_000
_DATA_TEXT = 1_200
_KEPT_TEXTS = 150_000
_NEWEST_TEXTS = 150_000
_ONE_TEXT = 2_500


def render_page(
    figures: ReportFigures, state: ProjectState, diffs_of: Callable[[Sequence[Try]], Sequence[DiffLines | None]]
) -> str:
    """``diffs_of`` gives the patches of the kept tries that are shown, None for a missing one."""
    climb, plot = figures.climb, plot_of(figures.climb)
    kept = climb.kept.items[-KEPT_SHOWN:]
    tries = plot.tries if plot else ()
    limit = equal_share(_DATA_TEXTS, len(tries), _DATA_TEXT)
    labels: dict[Label, int] = {}
    rows = [  # for the page's script, in the order of the dots: texts cut to a budget, labels by index
        [
            try_.iteration,
            labels.setdefault(try_.label, len(labels)),
            None if try_.value is None else format_number(try_.value, climb.unit),
            cut_to_bytes(try_.title, limit * 4 // 10),
            cut_to_bytes(try_.why, limit * 4 // 10),
            cut_to_bytes(", ".join(try_.files), limit * 2 // 10),
            try_.commit[:12],
            round(try_.seconds, 1),
            try_.when[:19],
        ]
        for try_ in tries
    ]
    before, after = (try_.guards if try_ else {} for try_ in (climb.baseline, climb.best))
    groups = claim.rejected_groups(climb, NEWEST_SHOWN)
    page = _render(
        "page.html",
        figures,
        state,
        policy=content_security_policy(state.is_live),
        style=_read_asset("page.css"),
        script=_read_asset("page.js"),
        version=__version__,
        made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        plot=plot,
        data={"labels": list(map(structs.astuple, labels)), "rows": rows},
        steps=plot.best[-KEPT_SHOWN:] if plot else (),
        kept=list(zip(kept, diffs_of(kept), strict=True)),
        kept_limit=equal_share(_KEPT_TEXTS, min(climb.kept.added, KEPT_SHOWN), _ONE_TEXT),
        groups=groups,
        newest_limit=equal_share(_NEWEST_TEXTS, sum(len(group.newest) for group in groups), _ONE_TEXT),
        cases=climb.cases.rows(climb.noise.cases.ids) if climb.noise.cases else [],
        guards=[(name, before.get(name), after.get(name), state.bounds.get(name, "")) for name in {**before, **after}],
        guarded=sum(count for label, count in climb.counts.items() if label.reason == Reason.GUARD),
    )
    return f"{page}\n"  # jinja takes the last newline of a template away


def content_security_policy(is_live: bool) -> str:
    """Allows the page's own script only; a live page may also send requests to its own server."""
    hashes = (hashlib.sha256(_read_asset(name).encode()).digest() for name in ("page.css", "page.js"))
    style, script = (f"sha256-{base64.b64encode(digest).decode()}" for digest in hashes)
    directives = [
        "default-src 'none'",
        f"style-src '{style}'",
        f"script-src '{script}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*directives, "connect-src 'self'"] if is_live else directives)


_KEPT_MOST = 100
_NEWEST = 3
_TEXT_MOST = 200
_NEXT_MOST = 500


def render_markdown(figures: ReportFigures, state: ProjectState) -> str:
    text = _render(
        "report.md",
        figures,
        state,
        kept=figures.climb.kept.items[-_KEPT_MOST:],
        groups=claim.rejected_groups(figures.climb, _NEWEST),
        notes=[mark_commands(one_line(note, _NEXT_MOST)) for note in state.notes],
        next=mark_commands(one_line(state.next, _NEXT_MOST)),
        code=code_span,
    )
    return text.rstrip("\n") + "\n"


def code_span(text: str) -> str:
    """The text as a code span that fits into a table's cell; "" for no text."""
    line = one_line(text, _TEXT_MOST)
    if not line:
        return ""
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    room = " " if longest or line.startswith(" ") else ""
    bars = line.replace("\\|", "\u2223").replace("|", "\u2223")  # "|" would end a cell; escaped, a backslash would show
    return f"{fence}{room}{bars}{room}{fence}"


_WORD = re.compile(r"[\"'(]?[A-Za-z]+(?:['-][A-Za-z]+)*[\"')]?|\d+(?:\.\d+)?%?")
_VALUE = r"(?:\d+|\"[^\"]*\"|'[^']*'|best)"
_OPTION = r"(?:--(?:outcome|reason|onto|branch|last|since|rerun)[ =][\w/.-]*\w|--?[\w-]+)"
_COMMAND = re.compile(rf"(\bgoalseek (?:-m (?:'[^']*'|\S+) )?[a-z]+(?: (?:{_OPTION}|{_VALUE}))*)")


def mark_commands(text: str) -> str:
    """``text`` with each goalseek command, and all that is not a plain word or number, as code."""
    marked = ""
    for place, part in enumerate(_COMMAND.split(text)):
        if place % 2:  # a command, between two texts
            marked += code_span(part)
            continue
        for piece in re.split(r"(\s+)", part):
            core = piece.rstrip(",.;:?!")
            is_plain = not core or core.isspace() or core == "=" or _WORD.fullmatch(core)
            marked += (core if is_plain else code_span(core)) + piece[len(core) :]
    return marked


_TEMPLATES = Path(__file__).parent / "templates"
_ESCAPED = "<>&\"'"
_LONGEST_ESCAPE = 6


def _render(name: str, figures: ReportFigures, state: ProjectState, **values: Any) -> str:
    template = _environment().get_template(name)
    return template.render(
        figures=figures,
        state=state,
        climb=figures.climb,
        claim=claim.claim_of(figures.climb),
        summary=claim.format_kept(figures.climb),
        at_once=claim.format_at_once(figures.climb),
        reasons=claim.REASONS,
        sandboxes=claim.SANDBOXES,
        verifiers=claim.VERIFIERS,
        **values,
    )


@cache
def _read_asset(name: str) -> Markup:
    # A script or style is not escaped: neither contains the end of its own element.
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
        "change": lambda try_, climb: claim.describe_gain(try_.incumbent, try_.value, climb.direction, climb.unit),
        "cut": cut_to_bytes,
        "dollars": format_cost,
        "duration": format_duration,
        "number": lambda value, unit="": "" if value is None else format_number(value, unit),
        "sandboxes": claim.format_sandboxes,
        "sentence": claim.format_look,
        "thousands": "{:,}".format,
    }
    return environment


def escaped_size(text: str) -> int:
    """The largest size in bytes, in an element or as JSON, where some characters are escaped."""
    return len(text.encode("utf-8", "replace")) + (_LONGEST_ESCAPE - 1) * sum(map(text.count, _ESCAPED))


def cut_to_bytes(text: str, limit: int) -> str:
    """``limit`` counts bytes after escaping; a cut text ends in ``…``."""
    if _LONGEST_ESCAPE * len(text) <= limit or escaped_size(text) <= limit:
        return text
    fitting = bisect(range(len(text)), limit - len("…".encode()), key=lambda length: escaped_size(text[:length]))
    return text[: max(0, fitting - 1)] + "…"


def equal_share(total: int, count: int, limit: int) -> int:
    return min(limit, total // max(1, count))
