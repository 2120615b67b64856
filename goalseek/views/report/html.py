"""The report as one HTML file: no network, and a content security policy that allows its own script only."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from goalseek._version import __version__
from goalseek.humanize import format_number
from goalseek.values import Reason
from goalseek.views.report.aggregate import ReportFigures
from goalseek.views.report.claim import rejected_groups
from goalseek.views.report.diffs import Diff
from goalseek.views.report.markup import cut_to_bytes, equal_share, read_asset, render
from goalseek.views.report.plot import plot_of
from goalseek.views.report.source import ProjectState
from goalseek.views.report.tries import Label, Try

KEPT_SHOWN = 300
NEWEST_SHOWN = 5
_DATA_TEXTS = 1_200_000
_DATA_TEXT = 1_200
_KEPT_TEXTS = 150_000
_NEWEST_TEXTS = 150_000
_ONE_TEXT = 2_500


def render_page(
    night: ReportFigures, around: ProjectState, diffs_of: Callable[[Sequence[Try]], Sequence[Diff | None]]
) -> str:
    """The whole file. ``diffs_of`` gives the patches of the kept tries that are shown, None where one is not here."""
    climb, plot = night.climb, plot_of(night.climb)
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
    groups = rejected_groups(climb, NEWEST_SHOWN)
    page = render(
        "page.html",
        night,
        around,
        policy=content_security_policy(around.is_live),
        style=read_asset("page.css"),
        script=read_asset("page.js"),
        version=__version__,
        made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        plot=plot,
        data={"labels": list(labels), "rows": rows},
        steps=plot.best[-KEPT_SHOWN:] if plot else (),
        kept=list(zip(kept, diffs_of(kept), strict=True)),
        kept_limit=equal_share(_KEPT_TEXTS, min(climb.kept.added, KEPT_SHOWN), _ONE_TEXT),
        groups=groups,
        newest_limit=equal_share(_NEWEST_TEXTS, sum(len(group.newest) for group in groups), _ONE_TEXT),
        guards=[(name, before.get(name), after.get(name), around.bounds.get(name, "")) for name in {**before, **after}],
        guarded=sum(count for label, count in climb.counts.items() if label.reason == Reason.GUARD),
    )
    return f"{page}\n"  # jinja takes the last newline of a template away


def content_security_policy(is_live: bool) -> str:
    """The content security policy; a live page may also send requests to its own server."""
    directives = [
        "default-src 'none'",
        f"style-src '{_digest(read_asset('page.css'))}'",
        f"script-src '{_digest(read_asset('page.js'))}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*directives, "connect-src 'self'"] if is_live else directives)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
