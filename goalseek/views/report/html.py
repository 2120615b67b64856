"""The report as one HTML file: no network, and a content security policy that allows its own script only."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC

from goalseek.humanize import format_duration, format_number, format_odds
from goalseek.values import Reason
from goalseek.views.report.aggregate import Climb, ReportFigures
from goalseek.views.report.claim import claim_of, format_change, format_kept, rejected_groups
from goalseek.views.report.diffs import Diff
from goalseek.views.report.markup import cut_to_bytes, equal_share, read_asset, render
from goalseek.views.report.plot import Plot, plot_of
from goalseek.views.report.rows import Label, Try
from goalseek.views.report.source import ProjectState
from goalseek.views.report.words import REASONS, SANDBOXES, VERIFIERS, format_dollars, format_sandboxes

KEPT_SHOWN = 300
NEWEST_SHOWN = 5
_DATA_TEXTS = 1_200_000
_DATA_TEXT = 1_200
_KEPT_TEXTS = 150_000
_NEWEST_TEXTS = 150_000
_ONE_TEXT = 2_500
Cells = tuple[str, ...]


def render_page(
    night: ReportFigures, around: ProjectState, diffs_of: Callable[[Sequence[Try]], Sequence[Diff | None]]
) -> str:
    """The whole file. ``diffs_of`` gives the patches of the kept tries that are shown, None where one is not here."""
    climb, plot = night.climb, plot_of(night.climb)
    kept = climb.kept.items[-KEPT_SHOWN:]
    kept_limit = equal_share(_KEPT_TEXTS, min(climb.kept.added, KEPT_SHOWN), _ONE_TEXT)
    groups = rejected_groups(climb, NEWEST_SHOWN)
    page = render(
        "page.html",
        policy=content_security_policy(around.is_live),
        style=read_asset("page.css"),
        script=read_asset("page.js"),
        night=night,
        around=around,
        climb=climb,
        claim=claim_of(climb),
        plot=plot,
        data=_data(plot),
        facts=list(_facts(night)),
        steps=[_step(climb, try_, kept_limit) for try_ in plot.best[-KEPT_SHOWN:]] if plot else [],
        kept=[(try_, _kept_facts(try_, kept_limit), diff) for try_, diff in zip(kept, diffs_of(kept), strict=True)],
        kept_limit=kept_limit,
        groups=groups,
        newest_limit=equal_share(_NEWEST_TEXTS, sum(len(group.newest) for group in groups), _ONE_TEXT),
        reasons=REASONS,
        guards=_guards(climb, around),
        guarded=sum(count for label, count in climb.counts.items() if label.reason == Reason.GUARD),
        commands=[(name, format_duration(seconds)) for name, seconds in climb.spending.commands.most_common()],
        usage=list(_usage(climb)),
        sandboxes=SANDBOXES,
        verifiers=VERIFIERS,
        earlier=list(_earlier(night)),
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


def _data(plot: Plot | None) -> dict[str, object]:
    """The data of each dot for the page's script, in the order of the dots: texts cut to a budget, labels by index."""
    tries = plot.tries if plot else ()
    limit = equal_share(_DATA_TEXTS, len(tries), _DATA_TEXT)
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
    return {"labels": list(labels), "rows": rows}


def _facts(night: ReportFigures) -> Iterator[str]:
    climb = night.climb
    if climb.baseline is None:
        return
    yield format_kept(climb)
    if night.first and night.newest:
        first, newest = night.first.astimezone(UTC), night.newest.astimezone(UTC)
        end = f"{newest:%H:%M}" if first.date() == newest.date() else f"{newest.day} {newest:%b %H:%M}"
        yield f"{first.day} {first:%b %H:%M} to {end} UTC"
    yield f"{format_duration(climb.spending.seconds)} at work"
    if climb.spending.total.has_cost:
        yield format_dollars(climb.spending.total)
    if climb.levels:
        yield format_sandboxes(climb.levels)


def _step(climb: Climb, try_: Try, limit: int) -> Cells:
    """A step of the line as a row of its table."""
    title = cut_to_bytes(try_.title, limit) or try_.label.outcome
    return str(try_.iteration), _number(try_.value), format_change(try_, climb.direction), title


def _kept_facts(try_: Try, limit: int) -> list[str]:
    facts = (
        cut_to_bytes(try_.why, limit),
        format_odds(try_.odds),
        f"{try_.changed_loc} lines changed" if try_.changed_loc else "",
        format_duration(try_.seconds),
        f"commit {try_.commit[:12]}" if try_.commit else "",
    )
    return [fact for fact in facts if fact]


def _guards(climb: Climb, around: ProjectState) -> list[Cells]:
    """The guards of baseline and best, with their bounds."""
    before = climb.baseline.guards if climb.baseline else {}
    after = climb.best.guards if climb.best else {}
    return [
        (name, _number(before.get(name)), _number(after.get(name)), around.bounds.get(name, ""))
        for name in dict.fromkeys([*before, *after])
    ]


def _usage(climb: Climb) -> Iterator[Cells]:
    for who, row in climb.spending.usage.items():
        used = row.usage()
        tokens = (used.input_tokens, used.cached_tokens, used.output_tokens)
        yield who, *(f"{count:,}" for count in tokens), format_dollars(used)


def _earlier(night: ReportFigures) -> Iterator[Cells]:
    for past in night.earlier:
        values = format_number(past.baseline), format_number(past.best)
        yield str(past.epoch), f"{past.first} to {past.last}", *values, str(past.kept)


def _number(value: float | None) -> str:
    return "" if value is None else format_number(value)
