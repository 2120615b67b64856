"""The report for a pull request, in GitHub's Markdown.

What an agent wrote stands in code spans only: there no mention, link, image or HTML comes to life.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from goalseek.humanize import format_duration, format_number, odds_in_words
from goalseek.views.report.aggregate import Climb, Night
from goalseek.views.report.claim import claim_of, gain_in_words, kept_in_words
from goalseek.views.report.evidence import look_in_words
from goalseek.views.report.rows import REASONS, Try, joined, sandboxes_in_words, tokens_in_words
from goalseek.views.report.source import Surroundings
from goalseek.views.terminal_text import one_line

_KEPT_MOST = 100
_NEWEST = 3
_TEXT_MOST = 200
_NEXT_MOST = 500


def markdown(night: Night, around: Surroundings) -> str:
    """The whole text."""
    climb, claim = night.climb, claim_of(night.climb)
    if not claim.before and not claim.is_warning:
        return f"## {claim.headline}\n"
    arrow = f" → {claim.after}" if claim.after else ""
    lines = [f"## {code(climb.metric)} {claim.before}{arrow}" if claim.before else f"## {claim.headline}", ""]
    lines += [f"**{claim.gain}.** {claim.settled}".rstrip(), ""] if claim.gain else []
    lines += [f"> {claim.caution}", ""] if claim.caution else []
    lines += [f"- {kept_in_words(climb)}"]
    lines += [f"- {_time(climb)}", f"- {code(sandboxes_in_words(climb.levels))}", ""]
    lines += [*_kept(climb), *_rejected(climb), *_evidence(climb), *_incidents(climb)]
    if around.next:
        lines += [f"Next: {with_commands(one_line(around.next, _NEXT_MOST), code)}", ""]
    return "\n".join(lines)


def code(text: str) -> str:
    """The text as a code span that fits into a table's cell; "" for no text."""
    line = one_line(text, _TEXT_MOST)
    if not line:
        return ""
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    room = " " if longest or line.startswith(" ") else ""
    return f"{fence}{room}{_without_bar(line)}{room}{fence}"


def _without_bar(line: str) -> str:
    """A bar would end the cell; one that is escaped shows its backslash where there is no table, so it is replaced."""
    return line.replace("\\|", "\u2223").replace("|", "\u2223")


def _time(climb: Climb) -> str:
    spending = climb.spending
    agent, verifier = format_duration(spending.agent), format_duration(spending.verifier)
    took = f"{format_duration(spending.seconds)}: agent {agent}, verifier {verifier}"
    return joined([took, tokens_in_words(spending.total)])


def _kept(climb: Climb) -> Iterator[str]:
    shown = climb.kept.items[-_KEPT_MOST:]
    if not shown:
        return
    yield "### Kept"
    yield ""
    yield from _table(
        (" ", code(climb.metric), "change", "what", "why", "commit"), (_kept_row(climb, done) for done in shown)
    )
    if climb.kept.added > len(shown):
        yield f"The newest {len(shown)} of {climb.kept.added}."
        yield ""


def _kept_row(climb: Climb, done: Try) -> tuple[str, ...]:
    value = "" if done.value is None else format_number(done.value)
    change = ""
    if done.value is not None and done.incumbent is not None:
        change = gain_in_words(done.incumbent, done.value, climb.direction)
    why = joined([code(done.why), odds_in_words(done.odds)])
    return str(done.iteration), value, change, code(done.title), why, done.commit[:12]


def _rejected(climb: Climb) -> Iterator[str]:
    labels = [label for label, _ in climb.counts.most_common() if label.outcome in ("reverted", "skipped")]
    if not labels:
        return
    yield "### Not kept"
    yield ""
    rows = []
    for label in labels:
        newest = [done for done in reversed(climb.rejected.items) if done.label == label][:_NEWEST]
        told = "<br>".join(
            f"{done.iteration}: {code(done.title or 'without a title')}, {code(done.why)}" for done in newest
        )
        meaning = REASONS.get(label.reason, "")
        rows.append((code(label.reason), meaning, str(climb.counts[label]), told))
    yield from _table(("reason", " ", "tries", "the newest"), rows)


def _evidence(climb: Climb) -> Iterator[str]:
    before = climb.baseline.guards if climb.baseline else {}
    after = climb.best.guards if climb.best else {}
    if after:
        yield "### Guards"
        yield ""
        rows = [
            (code(one_line(name)), format_number(before[name]) if name in before else "", format_number(after[name]))
            for name in after
        ]
        yield from _table(("guard", "baseline", "best"), rows)
    if climb.looks:
        yield "### Holdout"
        yield ""
        yield from (f"- {code(look_in_words(look))}" for look in climb.looks)
        yield ""


def _incidents(climb: Climb) -> Iterator[str]:
    if climb.incidents.counts:
        yield "### Incidents"
        yield ""
        yield from (f"- {kind}: {count}" for kind, count in climb.incidents.counts.most_common())
        yield ""


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(heads)
    yield f"| {' | '.join(names)} |"
    yield "|" + " --- |" * len(names)
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


_WORD = re.compile(r"[\"'(]?[A-Za-z]+(?:['-][A-Za-z]+)*[\"')]?|\d+(?:\.\d+)?%?")
_VALUE = r"(?:\d+|\"[^\"]*\"|'[^']*'|best)"
_OPTION = r"(?:--(?:outcome|reason|onto|branch|last|since|rerun)[ =][\w/.-]*\w|--?[\w-]+)"
_COMMAND = re.compile(rf"\bgoalseek (?:-m (?:'[^']*'|\S+) )?[a-z]+(?: (?:{_OPTION}|{_VALUE}))*")


def with_commands(text: str, code: Callable[[str], str]) -> str:
    """``text`` with ``code`` of each goalseek command, and of each word that is none: nothing else comes to life."""
    parts, end = [], 0
    for found in _COMMAND.finditer(text):
        parts += [_words(text[end : found.start()], code), code(found[0])]
        end = found.end()
    return "".join([*parts, _words(text[end:], code)])


def _words(text: str, code: Callable[[str], str]) -> str:
    return "".join(_pieces(text, code))


def _pieces(text: str, code: Callable[[str], str]) -> Iterator[str]:
    for piece in re.split(r"(\s+)", text):
        core = piece.rstrip(",.;:?!")
        is_plain = not core or core.isspace() or core == "=" or _WORD.fullmatch(core)
        yield (core if is_plain else code(core)) + piece[len(core) :]
