"""The report for a pull request, in GitHub's Markdown.

Text by an agent is in code spans only, where no mention, link, image or HTML takes effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from goalseek.humanize import format_duration, format_number, format_odds
from goalseek.views.report.aggregate import Climb, ReportFigures
from goalseek.views.report.claim import claim_of, format_gain, format_kept
from goalseek.views.report.evidence import format_look
from goalseek.views.report.rows import REASONS, Try, format_sandboxes, format_usage, join_parts
from goalseek.views.report.source import ProjectState
from goalseek.views.terminal_text import one_line

_KEPT_MOST = 100
_NEWEST = 3
_TEXT_MOST = 200
_NEXT_MOST = 500


def render_markdown(night: ReportFigures, around: ProjectState) -> str:
    """The whole text."""
    climb, claim = night.climb, claim_of(night.climb)
    if not claim.before and not claim.is_warning:
        return f"## {claim.headline}\n"
    arrow = f" → {claim.after}" if claim.after else ""
    lines = [f"## {code_span(climb.metric)} {claim.before}{arrow}" if claim.before else f"## {claim.headline}", ""]
    lines += [f"**{claim.gain}.** {claim.settled}".rstrip(), ""] if claim.gain else []
    lines += [f"> {claim.caution}", ""] if claim.caution else []
    lines += [f"- {format_kept(climb)}"]
    lines += [f"- {_time(climb)}", f"- {code_span(format_sandboxes(climb.levels))}", ""]
    lines += [*_kept(climb), *_rejected(climb), *_evidence(climb), *_incidents(climb)]
    if around.next:
        lines += [f"Next: {mark_commands(one_line(around.next, _NEXT_MOST), code_span)}", ""]
    return "\n".join(lines)


def code_span(text: str) -> str:
    """The text as a code span that fits into a table's cell; "" for no text."""
    line = one_line(text, _TEXT_MOST)
    if not line:
        return ""
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    room = " " if longest or line.startswith(" ") else ""
    return f"{fence}{room}{_replace_bars(line)}{room}{fence}"


def _replace_bars(line: str) -> str:
    """Replaces ``|``, which would end a cell; escaped, it would show a backslash outside of tables."""
    return line.replace("\\|", "\u2223").replace("|", "\u2223")


def _time(climb: Climb) -> str:
    spending = climb.spending
    agent, verifier = format_duration(spending.agent), format_duration(spending.verifier)
    text = f"{format_duration(spending.seconds)}: agent {agent}, verifier {verifier}"
    return join_parts([text, format_usage(spending.total)])


def _kept(climb: Climb) -> Iterator[str]:
    tries = climb.kept.items[-_KEPT_MOST:]
    if not tries:
        return
    yield "### Kept"
    yield ""
    yield from _table(
        (" ", code_span(climb.metric), "change", "what", "why", "commit"), (_kept_row(climb, try_) for try_ in tries)
    )
    if climb.kept.added > len(tries):
        yield f"The newest {len(tries)} of {climb.kept.added}."
        yield ""


def _kept_row(climb: Climb, try_: Try) -> tuple[str, ...]:
    value = "" if try_.value is None else format_number(try_.value)
    change = ""
    if try_.value is not None and try_.incumbent is not None:
        change = format_gain(try_.incumbent, try_.value, climb.direction)
    why = join_parts([code_span(try_.why), format_odds(try_.odds)])
    return str(try_.iteration), value, change, code_span(try_.title), why, try_.commit[:12]


def _rejected(climb: Climb) -> Iterator[str]:
    labels = [label for label, _ in climb.counts.most_common() if label.outcome in ("reverted", "skipped")]
    if not labels:
        return
    yield "### Not kept"
    yield ""
    rows = []
    for label in labels:
        newest = [try_ for try_ in reversed(climb.rejected.items) if try_.label == label][:_NEWEST]
        titles = "<br>".join(
            f"{try_.iteration}: {code_span(try_.title or 'without a title')}, {code_span(try_.why)}" for try_ in newest
        )
        meaning = REASONS.get(label.reason, "")
        rows.append((code_span(label.reason), meaning, str(climb.counts[label]), titles))
    yield from _table(("reason", " ", "tries", "the newest"), rows)


def _evidence(climb: Climb) -> Iterator[str]:
    before = climb.baseline.guards if climb.baseline else {}
    after = climb.best.guards if climb.best else {}
    if after:
        yield "### Guards"
        yield ""
        rows = [
            (
                code_span(one_line(name)),
                format_number(before[name]) if name in before else "",
                format_number(after[name]),
            )
            for name in after
        ]
        yield from _table(("guard", "baseline", "best"), rows)
    if climb.looks:
        yield "### Holdout"
        yield ""
        yield from (f"- {code_span(format_look(look))}" for look in climb.looks)
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


def mark_commands(text: str, code: Callable[[str], str]) -> str:
    """``text`` with ``code`` around each goalseek command, and around all that is not a plain word or number."""
    parts, end = [], 0
    for match in _COMMAND.finditer(text):
        parts += [_escape_words(text[end : match.start()], code), code(match[0])]
        end = match.end()
    return "".join([*parts, _escape_words(text[end:], code)])


def _escape_words(text: str, code: Callable[[str], str]) -> str:
    return "".join(_pieces(text, code))


def _pieces(text: str, code: Callable[[str], str]) -> Iterator[str]:
    for piece in re.split(r"(\s+)", text):
        core = piece.rstrip(",.;:?!")
        is_plain = not core or core.isspace() or core == "=" or _WORD.fullmatch(core)
        yield (core if is_plain else code(core)) + piece[len(core) :]
