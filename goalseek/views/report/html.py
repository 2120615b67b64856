"""The report as one HTML file: no network, and a content security policy that allows its own script only."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from goalseek.humanize import format_number
from goalseek.views.report.aggregate import ReportFigures
from goalseek.views.report.claim import claim_of
from goalseek.views.report.diffs import Diff
from goalseek.views.report.evidence import guards_section, incidents_section, isolation_section, spending_section
from goalseek.views.report.markup import Html, cut_to_bytes, equal_share, fragment, json_element, tag
from goalseek.views.report.plot import Plot, plot_of
from goalseek.views.report.rows import Label, Try
from goalseek.views.report.sections import claim_section, filter_field, kept_section, progress_section, rejected_section
from goalseek.views.report.source import ProjectState

_TEXTS_MOST = 1_200_000
_ONE_MOST = 1_200


def render_page(night: ReportFigures, around: ProjectState, diff_of: Callable[[Try, int], Diff | None]) -> str:
    """The whole file. ``diff_of(try, number of tries shown)`` gives the patch of a kept try, or None."""
    plot = plot_of(night.climb)
    title = f"{night.project or 'goalseek'}: {claim_of(night.climb).headline}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=content_security_policy(around.is_live)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", _asset("page.css")),
    )
    body = tag(
        "body",
        tag("a", "To the claim", href="#report", class_="skip"),
        _header(night, around),
        tag("main", _sections(night, around, diff_of, plot), id="report", tabindex="-1"),
        _footer(night, around),
        json_element("data", _rows(plot)),
        tag("script", _asset("page.js")),
        data_live=around.is_live,
    )
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}</html>\n'


def content_security_policy(is_live: bool) -> str:
    """The content security policy; a live page may also send requests to its own server."""
    directives = [
        "default-src 'none'",
        f"style-src '{_digest(_asset('page.css'))}'",
        f"script-src '{_digest(_asset('page.js'))}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*directives, "connect-src 'self'"] if is_live else directives)


def _header(night: ReportFigures, around: ProjectState) -> Html:
    status = tag("span", around.status, id="status", class_="status", hidden=not around.status)
    phase = tag("span", around.phase, id="phase", class_="phase")
    return tag("header", tag("span", night.project or "goalseek", class_="project"), status, phase)


def _sections(
    night: ReportFigures, around: ProjectState, diff_of: Callable[[Try, int], Diff | None], plot: Plot | None
) -> Html:
    climb = night.climb
    return fragment(
        claim_section(night, around),
        progress_section(climb, plot),
        filter_field(climb),
        kept_section(climb, diff_of),
        rejected_section(climb),
        guards_section(climb, around),
        spending_section(climb.spending),
        incidents_section(climb),
        isolation_section(night),
    )


def _footer(night: ReportFigures, around: ProjectState) -> Html:
    start = f"Made {around.made_at}" if around.made_at else "Made"
    text = f"{start} from {night.records:,} records by goalseek {around.version}".rstrip()
    by = night.versions.get("goalseek", "")
    return tag("footer", tag("p", f"{text}, of goalseek {by}." if by and by != around.version else f"{text}."))


def _rows(plot: Plot | None) -> dict[str, object]:
    """The data of each dot for the page's script, in the order of the dots: texts cut to a budget, labels by index."""
    tries = plot.tries if plot else ()
    limit = equal_share(_TEXTS_MOST, len(tries), _ONE_MOST)
    labels: dict[Label, int] = {}
    rows = [
        [
            try_.iteration,
            labels.setdefault(try_.label, len(labels)),
            None if try_.value is None else format_number(try_.value),
            cut_to_bytes(try_.title, limit * 4 // 10),
            cut_to_bytes(try_.why, limit * 4 // 10),
            cut_to_bytes(", ".join(try_.files), limit * 2 // 10),
            try_.commit[:12],
            round(try_.seconds, 1),
            try_.when[:19],
        ]
        for try_ in tries
    ]
    return {"labels": [list(label) for label in labels], "rows": rows}


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> Html:
    """A script or style of this package, not escaped: neither contains the end of its own element."""
    return Html((Path(__file__).parent / name).read_text("utf-8"))
