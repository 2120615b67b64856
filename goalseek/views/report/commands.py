"""A sentence that says what to do, in Markdown: what is typed in code spans, and its words as words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

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
