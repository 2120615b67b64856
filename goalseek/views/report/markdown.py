"""The report for a pull request, in GitHub's Markdown.

Text by an agent is in code spans only, where no mention, link, image or HTML takes effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from goalseek.views.report.aggregate import ReportFigures
from goalseek.views.report.claim import rejected_groups
from goalseek.views.report.markup import render
from goalseek.views.report.source import ProjectState
from goalseek.views.terminal_text import one_line

_KEPT_MOST = 100
_NEWEST = 3
_TEXT_MOST = 200
_NEXT_MOST = 500


def render_markdown(night: ReportFigures, around: ProjectState) -> str:
    """The whole text."""
    text = render(
        "report.md",
        night,
        around,
        kept=night.climb.kept.items[-_KEPT_MOST:],
        groups=rejected_groups(night.climb, _NEWEST),
        notes=[mark_commands(one_line(note, _NEXT_MOST), code_span) for note in around.notes],
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


_WORD = re.compile(r"[\"'(]?[A-Za-z]+(?:['-][A-Za-z]+)*[\"')]?|\d+(?:\.\d+)?%?")
_VALUE = r"(?:\d+|\"[^\"]*\"|'[^']*'|best)"
_OPTION = r"(?:--(?:outcome|reason|onto|branch|last|since|rerun)[ =][\w/.-]*\w|--?[\w-]+)"
_COMMAND = re.compile(rf"\bgoalseek (?:-m (?:'[^']*'|\S+) )?[a-z]+(?: (?:{_OPTION}|{_VALUE}))*")


def mark_commands(text: str, code: Callable[[str], str]) -> str:
    """``text`` with ``code`` around each goalseek command, and around all that is not a plain word or number."""
    parts, end = [], 0
    for match in _COMMAND.finditer(text):
        parts += [*_escape_words(text[end : match.start()], code), code(match[0])]
        end = match.end()
    return "".join([*parts, *_escape_words(text[end:], code)])


def _escape_words(text: str, code: Callable[[str], str]) -> Iterator[str]:
    for piece in re.split(r"(\s+)", text):
        core = piece.rstrip(",.;:?!")
        is_plain = not core or core.isspace() or core == "=" or _WORD.fullmatch(core)
        yield (core if is_plain else code(core)) + piece[len(core) :]
