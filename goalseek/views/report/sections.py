"""The sections of the page on the claim, the plot, the kept tries and the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC

from goalseek.humanize import format_duration, format_number, format_odds
from goalseek.views.report.aggregate import Climb, ReportFigures
from goalseek.views.report.claim import claim_of, format_gain, format_kept
from goalseek.views.report.diffs import Diff
from goalseek.views.report.evidence import table
from goalseek.views.report.markup import Html, cut_to_bytes, equal_share, fragment, tag
from goalseek.views.report.plot import Plot, plot_element
from goalseek.views.report.rows import REASONS, Label, Try, format_dollars, format_sandboxes
from goalseek.views.report.source import ProjectState

KEPT_SHOWN = 300
NEWEST_SHOWN = 5
_KEPT_TEXTS = 600_000
_NEWEST_TEXTS = 300_000
_ONE_TEXT = 2_500
NONE = Html()


def claim_section(night: ReportFigures, around: ProjectState) -> Html:
    """The head of the page: the numbers before and after, how sure they are, the main facts, and what to do next."""
    climb, claim = night.climb, claim_of(night.climb)
    better = "higher" if climb.direction == "maximize" else "lower"
    numbers = fragment(
        tag("span", f"{claim.metric} ", class_="unseen"),
        tag("span", claim.before, class_="before" if claim.after else "after"),
        *([tag("span", " → ", class_="arrow"), tag("span", claim.after, class_="after")] if claim.after else []),
    )
    sentences = [
        tag("p", claim.gain, class_="gain") if claim.gain else NONE,
        tag("p", claim.settled, class_="settled") if claim.settled else NONE,
        tag("p", claim.caution, class_="caution" if claim.is_warning else "quiet") if claim.caution else NONE,
        tag("ul", *(tag("li", fact) for fact in _facts(night)), class_="facts"),
        tag(
            "p", tag("strong", "Next"), " ", tag("span", around.next, id="next"), class_="next", hidden=not around.next
        ),
        *(tag("p", f"Differs from what was pinned: {name}.", class_="caution") for name in around.differs),
        tag("p", around.trouble, class_="caution") if around.trouble else NONE,
    ]
    return tag(
        "section",
        tag("p", f"{climb.metric}, {better} is better", class_="eyebrow") if claim.before else NONE,
        tag("h1", numbers if claim.before else claim.headline),
        *sentences,
        class_="claim",
    )


def progress_section(climb: Climb, plot: Plot | None) -> Html:
    """The plot with its legend, the record selected in it, and the step line as a table."""
    if plot is None:
        return tag(
            "section", tag("h2", "Progress"), tag("p", "A plot appears with the first measurement."), id="progress"
        )
    legend = [tag("li", label, class_=kind) for kind, label in _legend(plot)]
    steps = [_step_cells(climb, try_) for try_ in plot.best[-KEPT_SHOWN:]]
    beyond = "1 try lies" if plot.beyond == 1 else f"{plot.beyond:,} tries lie"
    remarks = [
        "No number came of the tries in the lane “none”" if plot.has_lane else "",
        f"{beyond} beyond the scale, at its edge" if plot.beyond else "",
        f"{plot.left_out:,} more tries are left out of the plot, evenly" if plot.left_out else "",
    ]
    return tag(
        "section",
        tag("h2", "Progress"),
        tag("div", plot_element(plot), tag("div", id="tip", hidden=True), id="stage"),
        tag("ul", *legend, class_="legend"),
        tag("p", " ".join(f"{text}." for text in remarks if text), class_="quiet", hidden=not any(remarks)),
        tag("p", "", id="readout", class_="unseen", aria_live="polite"),
        tag("div", id="record", tabindex="-1", hidden=True),
        tag(
            "details",
            tag("summary", "The line as a table"),
            table(("iteration", "value", "change", "what"), steps, is_stacked=True),
            id="as-table",
        ),
        id="progress",
    )


def filter_field(climb: Climb) -> Html:
    """The filter of plot and lists, with the number of matches. It is hidden until the page's script shows it."""
    if not climb.kept.added and not climb.rejected.items:
        return NONE
    return tag(
        "div",
        tag("label", "Filter the tries", for_="filter"),
        tag("input", type="search", id="filter", placeholder="words, a file, a number", autocomplete="off"),
        tag("span", "", id="matches", role="status"),
        id="finder",
        role="search",
        hidden=True,
    )


def kept_section(climb: Climb, diff_of: Callable[[Try, int], Diff | None]) -> Html:
    """The kept changes in order, each with its patch."""
    kept = climb.kept.items[-KEPT_SHOWN:]
    intro = "Nothing was kept." if not kept else "In order; each stands on the one before it."
    if climb.kept.added > len(kept):
        intro = f"{len(kept)} of {climb.kept.added:,} are shown; goalseek log --kept lists all."
    entries = [_kept_entry(climb, try_, diff_of(try_, len(kept))) for try_ in kept]
    return tag("section", _heading("Kept", climb.kept.added), tag("p", intro, class_="quiet"), *entries, id="kept")


def rejected_section(climb: Climb) -> Html:
    """The tries not kept, grouped by reason, the newest of each; the page's script fills in the rest of a group."""
    labels = [label for label, _ in climb.counts.most_common() if label.outcome in ("reverted", "skipped")]
    largest = max((climb.counts[label] for label in labels), default=1)
    newest: dict[Label, list[Try]] = {label: [] for label in labels}
    for try_ in reversed(climb.rejected.items):
        if len(newest[try_.label]) < NEWEST_SHOWN:
            newest[try_.label].append(try_)
    texts = equal_share(_NEWEST_TEXTS // 2, sum(map(len, newest.values())), _ONE_TEXT)
    groups = [_group(label, climb.counts[label], largest, newest[label], texts) for label in labels]
    intro = tag("p", "Everything was kept." if climb.kept.added else "Nothing was tried yet.", class_="quiet")
    total = sum(climb.counts[label] for label in labels)
    return tag("section", _heading("Not kept", total), NONE if groups else intro, *groups, id="rejected")


def _facts(night: ReportFigures) -> Iterator[str]:
    climb = night.climb
    if climb.baseline is None:
        return
    yield format_kept(climb)
    if around := _from_to(night):
        yield around
    yield f"{format_duration(climb.spending.seconds)} at work"
    if climb.spending.total.has_cost:
        yield format_dollars(climb.spending.total)
    if climb.levels:
        yield format_sandboxes(climb.levels)


def _from_to(night: ReportFigures) -> str:
    """``21 Nov 22:04 to 22 Nov 06:55 UTC``: from the first record to the last; "" where no record says when."""
    if night.first is None or night.newest is None:
        return ""
    first, newest = night.first.astimezone(UTC), night.newest.astimezone(UTC)
    end = f"{newest:%H:%M}" if first.date() == newest.date() else f"{newest.day} {newest:%b %H:%M}"
    return f"{first.day} {first:%b %H:%M} to {end} UTC"


def _legend(plot: Plot) -> Iterator[tuple[str, str]]:
    yield "key-kept", "kept"
    yield "key-rejected", "not kept"
    yield "key-baseline", "baseline"
    yield "key-line", "best so far"
    if any(plot.band):
        yield "key-band", "noise of one run, ± 1 sd"
    if any(try_.label.outcome == "skipped" for try_ in plot.tries):
        yield "key-skipped", "skipped"
    if plot.runs_at:
        yield "key-run", "a new run"


def _step_cells(climb: Climb, try_: Try) -> tuple[str, ...]:
    value = "" if try_.value is None else format_number(try_.value)
    title = cut_to_bytes(try_.title, equal_share(_KEPT_TEXTS // 4, min(climb.kept.added, KEPT_SHOWN), _ONE_TEXT))
    return str(try_.iteration), value, _change(climb, try_), title or try_.label.outcome


def _change(climb: Climb, try_: Try) -> str:
    """The gain over the incumbent, in percent where that is positive."""
    if try_.value is None or try_.incumbent is None:
        return ""
    return format_gain(try_.incumbent, try_.value, climb.direction)


def _kept_entry(climb: Climb, try_: Try, diff: Diff | None) -> Html:
    value = "" if try_.value is None else format_number(try_.value)
    limit = equal_share(_KEPT_TEXTS // 4, min(climb.kept.added, KEPT_SHOWN), _ONE_TEXT)
    summary = tag(
        "summary",
        tag("span", str(try_.iteration), class_="number"),
        tag("span", cut_to_bytes(try_.title, limit) or "without a title", class_="title"),
        tag("span", value, class_="value"),
        tag("span", _change(climb, try_), class_="change"),
    )
    facts = [
        cut_to_bytes(try_.why, limit),
        format_odds(try_.odds),
        f"{try_.changed_loc} lines changed" if try_.changed_loc else "",
        format_duration(try_.seconds),
        f"commit {try_.commit[:12]}" if try_.commit else "",
    ]
    paragraph = tag("p", *_with_dots(facts))
    patch, identifier = _diff_block(diff), f"kept-{try_.iteration}"
    return tag("details", summary, paragraph, _files(try_, limit), patch, class_="entry", id=identifier)


def _diff_block(diff: Diff | None) -> Html:
    if diff is None:
        return tag("p", "Its patch is not here: it is with the repository and its artifacts.", class_="quiet")
    lines = [tag("span", f"{line.text}\n", class_=line.kind) for line in diff.lines]
    more = tag("p", f"{diff.left_out} more lines: goalseek show N --diff prints all.", class_="quiet")
    block = tag("pre", *lines, class_="diff", tabindex="0", aria_label="the patch")
    return fragment(block, more if diff.left_out else NONE)


def _files(try_: Try, limit: int) -> Html:
    each = equal_share(limit, len(try_.files), limit)
    items = [tag("li", tag("code", cut_to_bytes(name, each))) for name in try_.files]
    return tag("ul", *items, class_="files") if items else NONE


def _group(label: Label, count: int, largest: int, newest: list[Try], texts: int) -> Html:
    bar = tag(
        "svg",
        tag("rect", width=round(100 * count / largest, 1), height=4),
        viewBox="0 0 100 4",
        preserveAspectRatio="none",
        aria_hidden="true",
        class_="bar",
    )
    summary = tag(
        "summary",
        tag("span", label.reason.replace("_", " ") or label.outcome, class_="title"),
        tag("span", REASONS.get(label.reason, label.outcome), class_="meaning"),
        bar,
        tag("span", f"{count:,}", class_="value"),
    )
    body = [
        tag(
            "tr",
            tag("td", str(try_.iteration)),
            tag("td", "" if try_.value is None else format_number(try_.value)),
            _try_cell(cut_to_bytes(try_.title, texts), cut_to_bytes(try_.why, texts)),
        )
        for try_ in newest
    ]
    more = tag("p", f"The newest {len(newest)} of {count:,}.", class_="quiet") if count > len(newest) else NONE
    identifier = f"not-{label.outcome}-{label.reason}"
    tries = _table(("iteration", "value", "what and why"), body)
    return tag("details", summary, tries, more, class_="group", id=identifier)


def _try_cell(title: str, why: str) -> Html:
    if not title:
        return tag("td", tag("span", why, class_="tried"))
    return tag("td", tag("span", title, class_="tried"), tag("span", why, class_="why"))


def _heading(title: str, count: int) -> Html:
    return tag("h2", title, " ", tag("span", f"{count:,}", class_="count"))


def _table(heads: tuple[str, ...], body: list[Html]) -> Html:
    head = tag("thead", tag("tr", *(tag("th", text, scope="col") for text in heads)))
    return tag("div", tag("table", head, tag("tbody", *body)), class_="wide")


def _with_dots(parts: list[str]) -> Iterator[str]:
    for index, part in enumerate([part for part in parts if part]):
        yield tag("span", part) if not index else fragment(" · ", tag("span", part))
