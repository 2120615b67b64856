"""Gitignore-style globs: what a list of patterns matches.

The rules are those of gitignore(5): a pattern without a slash matches at any depth, one with a slash is anchored,
``**`` spans folders, a pattern that matches a folder covers everything below it, a leading ``!`` takes back, and the
last pattern that matches decides. Two things are as people mean them and not as git does them: ``!src/vendor/**``
takes back although ``src/**`` matched the folder, and ``?`` is a character, not a byte.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

_NOTHING = "(?!)"
_NAMED_CLASS = re.compile(r"\[:([a-z]*):\]")
_NAMED = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-\/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A function that says whether a file's path (relative, with ``/``) is matched by the list.

    Expressions are compiled for the first path: many a command makes a scope and asks about no file.
    """
    known = [pattern for pattern in patterns if pattern.strip()]
    if not known:
        return lambda path: False
    if not any(pattern.startswith("!") for pattern in known):
        together = functools.cache(lambda: _all_of(known))
        return lambda path: together().fullmatch(path) is not None

    def matches(path: str) -> bool:
        for pattern in reversed(known):
            if compiled(pattern).fullmatch(path):
                return not pattern.startswith("!")
        return False

    return matches


def literal(path: str) -> str:
    """The pattern that matches this path, and what lies below it, and nothing else."""
    return "/" + re.sub(r"([\\*?\[])", r"\\\1", path)


@functools.cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The expression that a path must match in full to be matched by the pattern or to lie below such a folder.

    A pattern that is broken (an open ``[``, a ``\\`` at the end) matches nothing, as in git.
    """
    return re.compile(_expression_of(pattern), re.DOTALL)


def _all_of(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{_expression_of(pattern)})" for pattern in patterns), re.DOTALL)


def _expression_of(pattern: str) -> str:
    text = pattern.removeprefix("!")
    folder_only = text.endswith("/")
    text = text.removesuffix("/")
    anchored = "/" in text
    text = text.removeprefix("./").removeprefix("/")
    prefix = "" if anchored else "(?:.*/)?"
    below = "/.*" if folder_only else "(?:/.*)?"
    return prefix + _translate(text) + below


def _translate(text: str) -> str:
    parts: list[str] = []
    place = 0
    while place < len(text):
        part, place = _next_part(text, place)
        parts.append(part)
    return "".join(parts)


def _next_part(text: str, place: int) -> tuple[str, int]:
    """The expression for what begins at ``place``, and where the next begins."""
    char = text[place]
    if char == "*":
        end = place + len(text[place:]) - len(text[place:].lstrip("*"))
        whole_folder = end - place > 1 and (place == 0 or text[place - 1] == "/") and text[end : end + 1] in ("", "/")
        if not whole_folder:
            return "[^/]*", end
        return ("(?:.*/)?", end + 1) if end < len(text) else (".+", end)
    if char == "?":
        return "[^/]", place + 1
    if char == "[":
        return _class(text, place + 1)
    if char == "\\":
        return (re.escape(text[place + 1]), place + 2) if place + 1 < len(text) else (_NOTHING, place + 1)
    return re.escape(char), place + 1


def _class(text: str, place: int) -> tuple[str, int]:
    """The expression for the class whose inside begins at ``place``; nothing matches one that is never closed."""
    negated = text[place : place + 1] in ("!", "^")
    place += negated
    first, items = place, ""
    while place < len(text) and (text[place] != "]" or place == first):
        named = _NAMED_CLASS.match(text, place)
        if named:
            items += _NAMED.get(named[1], "")
            place = named.end()
            continue
        low, place = _class_char(text, place)
        if text[place : place + 1] == "-" and text[place + 1 : place + 2] not in ("", "]"):
            high, place = _class_char(text, place + 1)
            items += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
        else:
            items += re.escape(low)
    if place >= len(text):
        return _NOTHING, place
    if negated:
        return f"[^/{items}]", place + 1
    return f"(?!/)[{items}]" if items else _NOTHING, place + 1


def _class_char(text: str, place: int) -> tuple[str, int]:
    if text[place] == "\\" and place + 1 < len(text):
        return text[place + 1], place + 2
    return text[place], place + 1
