"""The sections of the page about how far to trust it: guards, holdout, time and money, incidents, isolation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from goalseek.humanize import format_duration, format_number
from goalseek.views.report.aggregate import Climb, Night
from goalseek.views.report.costs import Spending
from goalseek.views.report.markup import Html, fragment, tag, within
from goalseek.views.report.rows import SANDBOXES, VERIFIERS, Look, dollars
from goalseek.views.report.source import Surroundings

_INCIDENT_MOST = 600


def guards_section(climb: Climb, around: Surroundings) -> Html:
    """The guards of baseline and best, and every look at the holdout."""
    before = climb.baseline.guards if climb.baseline else {}
    after = climb.best.guards if climb.best else {}
    rows = [
        (name, _number(before.get(name)), _number(after.get(name)), around.bounds.get(name, ""))
        for name in dict.fromkeys([*before, *after])
    ]
    broken = sum(count for label, count in climb.counts.items() if label.reason == "guard")
    told = [tag("p", f"{broken} {'try was' if broken == 1 else 'tries were'} refused for a guard.")] if broken else []
    guards = [table(("guard", "baseline", "best", "bound"), rows), *told] if rows else [_quiet("No guard is set.")]
    looks = [_look(look) for look in climb.looks] or [_quiet("No holdout was looked at.")]
    return tag("section", tag("h2", "Guards and holdout"), *guards, *looks, id="guards")


def spending_section(spending: Spending) -> Html:
    """Time and money, of the agent and of the verifier."""
    if not spending.seconds:
        return tag("section", tag("h2", "Time and money"), _quiet("Nothing was spent yet."), id="spending")
    parts = (("agent", spending.agent), ("verifier", spending.verifier), ("goalseek", spending.goalseek))
    rows = [
        (name, format_duration(seconds), f"{100 * seconds / spending.seconds:.0f}%", _money(name, spending))
        for name, seconds in parts
    ]
    commands = [(name, format_duration(seconds)) for name, seconds in spending.commands.most_common()]
    usage = [
        (who, f"{used.input_tokens:,}", f"{used.cached_tokens:,}", f"{used.output_tokens:,}", dollars(used))
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
            tag("li", _told(incident.iteration, within(incident.text, _INCIDENT_MOST)))
            for incident in climb.incidents.newest[kind]
        ]
        more = _quiet(f"The newest {len(items)} of {count:,}.") if count > len(items) else Html()
        summary = tag("summary", tag("span", kind, class_="title"), tag("span", f"{count:,}", class_="value"))
        entries.append(tag("details", summary, tag("ul", *items), more, class_="group", id=f"incident-{len(entries)}"))
    return tag(
        "section", tag("h2", "Incidents"), *(entries or [_quiet("None: no timeout, no kill, no wait.")]), id="incidents"
    )


def isolation_section(night: Night) -> Html:
    """At which level programs were kept in their place, and under which rulers."""
    levels = night.climb.levels
    told: list[str] = []
    for (sandbox, verifier), count in levels.most_common():
        share = f" ({count:,} of {sum(levels.values()):,} iterations)" if len(levels) > 1 else ""
        head = tag("strong", f"Sandbox {sandbox}, verifier {verifier}{share}.")
        told.append(tag("p", head, f" {SANDBOXES.get(sandbox, '')} {VERIFIERS.get(verifier, '')}".rstrip()))
    earlier = [
        (
            str(one.epoch),
            f"{one.first} to {one.last}",
            format_number(one.baseline),
            format_number(one.best),
            str(one.kept),
        )
        for one in night.earlier
    ]
    before = [
        tag("h3", "Under earlier rulers"),
        _quiet("Numbers of two rulers are never compared."),
        table(("epoch", "iterations", "baseline", "best", "kept"), earlier, is_stacked=True),
    ]
    nothing = [_quiet("Nothing ran yet.")]
    return tag("section", tag("h2", "Isolation"), *(told or nothing), *(before if earlier else []), id="isolation")


def table(heads: tuple[str, ...], rows: Iterable[Iterable[str]], is_stacked: bool = False) -> Html:
    """A table whose first column names its rows; stacked, a row's cells stand below each other on a narrow page."""
    head = tag("thead", tag("tr", *(tag("th", text, scope="col") for text in heads)))
    body = [tag("tr", *_cells(heads, list(row))) for row in rows]
    return tag("div", tag("table", head, tag("tbody", *body)), class_="wide stacked" if is_stacked else "wide")


def look_in_words(look: Look) -> str:
    """One look at the holdout in a sentence."""
    of = f" at the {look.of}" if look.of else ""
    of += f", iteration {look.iteration}" if of and look.iteration is not None else ""
    if look.value is None:
        return f"Look {look.number}{of}: {look.why.rstrip('.') or 'begun, and not measured'}."
    told = f"Look {look.number}{of}: {format_number(look.value)}"
    if look.gap is not None:
        told += f"; the verifier's gain is {_more(look.gap)} the holdout's"
    return f"{told}."


def _more(gap: float) -> str:
    """How the verifier's gain compares: what it has more than the holdout's was not gained where it counts."""
    if gap == 0:
        return "the same as"
    return f"{format_number(abs(gap))} {'more' if gap > 0 else 'less'} than"


def _look(look: Look) -> Html:
    return tag("p", tag("strong", "Holdout. "), look_in_words(look))


def _cells(heads: tuple[str, ...], cells: list[str]) -> Iterator[Html]:
    for place, cell in enumerate(cells):
        yield tag("td", cell, data_head=heads[place]) if place else tag("th", cell, scope="row")


def _split(parts: Iterable[tuple[str, float]], whole: float) -> Html:
    """The shares of the time as one bar."""
    place, drawn = 0.0, []
    for name, seconds in parts:
        width = 100 * seconds / whole
        drawn.append(tag("rect", x=round(place, 2), width=round(width, 2), height=4, class_=name))
        place += width
    words = "the shares of the time, as in the table below"
    return tag(
        "svg", *drawn, viewBox="0 0 100 4", preserveAspectRatio="none", role="img", aria_label=words, class_="split"
    )


def _money(who: str, spending: Spending) -> str:
    return (
        dollars(spending.total) if who == "agent" and spending.usage else ("none" if who != "agent" else "not reported")
    )


def _told(iteration: int | None, text: str) -> Html:
    parts = [f"iteration {iteration}" if iteration is not None else "", text]
    return fragment(": ".join(part for part in parts if part))


def _number(value: float | None) -> str:
    return "" if value is None else format_number(value)


def _quiet(text: str) -> Html:
    return tag("p", text, class_="quiet")
