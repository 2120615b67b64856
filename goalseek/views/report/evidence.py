"""The sections of the page on guards, holdout, time and money, incidents and isolation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from goalseek.humanize import format_duration, format_number
from goalseek.views.report.aggregate import Climb, ReportFigures
from goalseek.views.report.costs import Spending
from goalseek.views.report.markup import Html, cut_to_bytes, fragment, tag
from goalseek.views.report.rows import SANDBOXES, VERIFIERS, Look, format_dollars
from goalseek.views.report.source import ProjectState

_INCIDENT_MOST = 600


def guards_section(climb: Climb, around: ProjectState) -> Html:
    """The guards of baseline and best, and every look at the holdout."""
    before = climb.baseline.guards if climb.baseline else {}
    after = climb.best.guards if climb.best else {}
    rows = [
        (name, _number(before.get(name)), _number(after.get(name)), around.bounds.get(name, ""))
        for name in dict.fromkeys([*before, *after])
    ]
    broken = sum(count for label, count in climb.counts.items() if label.reason == "guard")
    tries = "try was" if broken == 1 else "tries were"
    remarks = [tag("p", f"{broken} {tries} refused for a guard.")] if broken else []
    guards = [table(("guard", "baseline", "best", "bound"), rows), *remarks] if rows else [_quiet("No guard is set.")]
    looks = [_look_paragraph(look) for look in climb.looks] or [_quiet("No holdout was looked at.")]
    return tag("section", tag("h2", "Guards and holdout"), *guards, *looks, id="guards")


def spending_section(spending: Spending) -> Html:
    """Time and money of agent, verifier and goalseek."""
    if not spending.seconds:
        return tag("section", tag("h2", "Time and money"), _quiet("Nothing was spent yet."), id="spending")
    parts = (("agent", spending.agent), ("verifier", spending.verifier), ("goalseek", spending.goalseek))
    rows = [
        (name, format_duration(seconds), f"{100 * seconds / spending.seconds:.0f}%", _money(name, spending))
        for name, seconds in parts
    ]
    commands = [(name, format_duration(seconds)) for name, seconds in spending.commands.most_common()]
    usage = [
        (who, f"{used.input_tokens:,}", f"{used.cached_tokens:,}", f"{used.output_tokens:,}", format_dollars(used))
        for who, used in spending.usage.items()
    ]
    return tag(
        "section",
        tag("h2", "Time and money"),
        _split(parts, spending.seconds),
        tag("ul", *(tag("li", name, class_=f"key-{name}") for name, _ in parts), class_="legend"),
        table(("who", "time", "share", "money"), rows),
        table(("verify command", "time"), commands) if commands else Html(),
        table(("agent", "input", "from a cache", "output", "money"), usage, is_stacked=True) if usage else Html(),
        id="spending",
    )


def incidents_section(climb: Climb) -> Html:
    """Timeouts, kills, waits, failures and notes, by kind."""
    entries: list[Html] = []
    for kind, count in climb.incidents.counts.most_common():
        items = [
            tag("li", _incident_text(incident.iteration, cut_to_bytes(incident.text, _INCIDENT_MOST)))
            for incident in climb.incidents.newest[kind]
        ]
        more = _quiet(f"The newest {len(items)} of {count:,}.") if count > len(items) else Html()
        summary = tag("summary", tag("span", kind, class_="title"), tag("span", f"{count:,}", class_="value"))
        entries.append(tag("details", summary, tag("ul", *items), more, class_="group", id=f"incident-{len(entries)}"))
    return tag(
        "section", tag("h2", "Incidents"), *(entries or [_quiet("None: no timeout, no kill, no wait.")]), id="incidents"
    )


def isolation_section(night: ReportFigures) -> Html:
    """The levels of sandbox and verifier, and the results under earlier rulers."""
    levels = night.climb.levels
    paragraphs: list[str] = []
    for (sandbox, verifier), count in levels.most_common():
        share = f" ({count:,} of {sum(levels.values()):,} iterations)" if len(levels) > 1 else ""
        head = tag("strong", f"Sandbox {sandbox}, verifier {verifier}{share}.")
        paragraphs.append(tag("p", head, f" {SANDBOXES.get(sandbox, '')} {VERIFIERS.get(verifier, '')}".rstrip()))
    earlier = [
        (
            str(past.epoch),
            f"{past.first} to {past.last}",
            format_number(past.baseline),
            format_number(past.best),
            str(past.kept),
        )
        for past in night.earlier
    ]
    before = [
        tag("h3", "Under earlier rulers"),
        _quiet("Numbers of two rulers are never compared."),
        table(("epoch", "iterations", "baseline", "best", "kept"), earlier, is_stacked=True),
    ]
    empty = [_quiet("Nothing ran yet.")]
    return tag("section", tag("h2", "Isolation"), *(paragraphs or empty), *(before if earlier else []), id="isolation")


def table(heads: tuple[str, ...], rows: Iterable[Iterable[str]], is_stacked: bool = False) -> Html:
    """A table whose first column has the row headers; with ``is_stacked`` a narrow page puts cells below each other."""
    head = tag("thead", tag("tr", *(tag("th", text, scope="col") for text in heads)))
    body = [tag("tr", *_cells(heads, list(row))) for row in rows]
    return tag("div", tag("table", head, tag("tbody", *body)), class_="wide stacked" if is_stacked else "wide")


def format_look(look: Look) -> str:
    """One look at the holdout in a sentence."""
    target = f" at the {look.of}" if look.of else ""
    target += f", iteration {look.iteration}" if target and look.iteration is not None else ""
    if look.value is None:
        return f"Look {look.number}{target}: {look.why.rstrip('.') or 'begun, and not measured'}."
    text = f"Look {look.number}{target}: {format_number(look.value)}"
    if look.gap is not None:
        text += f"; the verifier's gain is {_gap_in_words(look.gap)} the holdout's"
    return f"{text}."


def _gap_in_words(gap: float) -> str:
    """The verifier's gain compared with the holdout's, in words: what it has more is not a real gain."""
    if gap == 0:
        return "the same as"
    return f"{format_number(abs(gap))} {'more' if gap > 0 else 'less'} than"


def _look_paragraph(look: Look) -> Html:
    return tag("p", tag("strong", "Holdout. "), format_look(look))


def _cells(heads: tuple[str, ...], cells: list[str]) -> Iterator[Html]:
    for index, cell in enumerate(cells):
        yield tag("td", cell, data_head=heads[index]) if index else tag("th", cell, scope="row")


def _split(parts: Iterable[tuple[str, float]], total: float) -> Html:
    """The shares of the time as one bar."""
    x, bars = 0.0, []
    for name, seconds in parts:
        width = 100 * seconds / total
        bars.append(tag("rect", x=round(x, 2), width=round(width, 2), height=4, class_=name))
        x += width
    words = "the shares of the time, as in the table below"
    return tag(
        "svg", *bars, viewBox="0 0 100 4", preserveAspectRatio="none", role="img", aria_label=words, class_="split"
    )


def _money(who: str, spending: Spending) -> str:
    return (
        format_dollars(spending.total)
        if who == "agent" and spending.usage
        else ("none" if who != "agent" else "not reported")
    )


def _incident_text(iteration: int | None, text: str) -> Html:
    parts = [f"iteration {iteration}" if iteration is not None else "", text]
    return fragment(": ".join(part for part in parts if part))


def _number(value: float | None) -> str:
    return "" if value is None else format_number(value)


def _quiet(text: str) -> Html:
    return tag("p", text, class_="quiet")
