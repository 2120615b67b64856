"""The report for a pull request, in GitHub's Markdown.

Text by an agent is in code spans only, where no mention, link, image or HTML takes effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from goalseek.humanize import format_duration, format_number, format_odds
from goalseek.views.report.aggregate import Climb, ReportFigures
from goalseek.views.report.claim import RejectedGroup, claim_of, format_change, format_kept, rejected_groups
from goalseek.views.report.markup import render
from goalseek.views.report.rows import Try
from goalseek.views.report.source import ProjectState
from goalseek.views.report.words import REASONS, format_usage, join_parts
from goalseek.views.terminal_text import one_line

_KEPT_MOST = 100
_NEWEST = 3
_TEXT_MOST = 200
_NEXT_MOST = 500


def render_markdown(night: ReportFigures, around: ProjectState) -> str:
    """The whole text."""
    climb, spending = night.climb, night.climb.spending
    agent, verifier = format_duration(spending.agent), format_duration(spending.verifier)
    time = f"{format_duration(spending.seconds)}: agent {agent}, verifier {verifier}"
    text = render(
        "report.md",
        climb=climb,
        claim=claim_of(climb),
        metric=code_span(climb.metric),
        summary=format_kept(climb),
        spent=join_parts([time, format_usage(spending.total)]),
        kept=[_kept_row(climb, try_) for try_ in climb.kept.items[-_KEPT_MOST:]],
        rejected=[_rejected_row(group) for group in rejected_groups(climb, _NEWEST)],
        guards=list(_guards(climb)),
        next=mark_commands(one_line(around.next, _NEXT_MOST), code_span),
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


def _kept_row(climb: Climb, try_: Try) -> tuple[str, ...]:
    value = "" if try_.value is None else format_number(try_.value)
    why = join_parts([code_span(try_.why), format_odds(try_.odds)])
    change = format_change(try_, climb.direction)
    return str(try_.iteration), value, change, code_span(try_.title), why, try_.commit[:12]


def _rejected_row(group: RejectedGroup) -> tuple[str, ...]:
    newest = "<br>".join(
        f"{try_.iteration}: {code_span(try_.title or 'without a title')}, {code_span(try_.why)}"
        for try_ in group.newest
    )
    return code_span(group.label.reason), REASONS.get(group.label.reason, ""), str(group.size), newest


def _guards(climb: Climb) -> Iterator[tuple[str, ...]]:
    before = climb.baseline.guards if climb.baseline else {}
    for name, value in climb.best.guards.items() if climb.best else ():
        yield code_span(name), format_number(before[name]) if name in before else "", format_number(value)


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
