"""Gitignore-style globs, compiled to regular expressions: the rules of gitignore(5), except for two.

``!src/vendor/**`` takes back although ``src/**`` matched the folder, and ``?`` is a character, not a byte.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

_NOTHING = "(?!)"
_CLASS_NAME = re.compile(r"\[:([a-z]*):\]")
_CLASS_CHARS = {
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
    """Patterns are compiled when the first path is asked about: many commands make a scope and ask about none."""
    usable = [pattern for pattern in patterns if pattern.strip()]
    if not usable:
        return lambda path: False
    if not any(pattern.startswith("!") for pattern in usable):
        expressions = (f"(?:{_expression_of(pattern)})" for pattern in usable)
        union = functools.cache(lambda: re.compile("|".join(expressions), re.DOTALL))
        return lambda path: union().fullmatch(path) is not None

    def matches(path: str) -> bool:
        for pattern in reversed(usable):
            if compile_pattern(pattern).fullmatch(path):
                return not pattern.startswith("!")
        return False

    return matches


def literal_pattern(path: str) -> str:
    """Matches only this path, and paths below it."""
    return "/" + re.sub(r"([\\*?\[])", r"\\\1", path)


@functools.cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """For full matches, also of paths below a matched folder. A broken pattern matches nothing, as in git."""
    return re.compile(_expression_of(pattern), re.DOTALL)


def _expression_of(pattern: str) -> str:
    text = pattern.removeprefix("!")
    is_folder_only = text.endswith("/")
    text = text.removesuffix("/")
    is_anchored = "/" in text
    text = text.removeprefix("./").removeprefix("/")
    prefix = "" if is_anchored else "(?:.*/)?"
    below = "/.*" if is_folder_only else "(?:/.*)?"
    parts: list[str] = []
    index = 0
    while index < len(text):
        char, start = text[index], index
        index += 1
        if char == "*":
            index = len(text) - len(text[index:].lstrip("*"))
            is_whole_part = (start == 0 or text[start - 1] == "/") and text[index : index + 1] in ("", "/")
            if index - start == 1 or not is_whole_part:
                part = "[^/]*"
            elif index < len(text):
                part, index = "(?:.*/)?", index + 1
            else:
                part = ".+"
        elif char == "?":
            part = "[^/]"
        elif char == "[":
            part, index = _class(text, index)
        elif char == "\\":
            part, index = (re.escape(text[index]), index + 1) if index < len(text) else (_NOTHING, index)
        else:
            part = re.escape(char)
        parts.append(part)
    return prefix + "".join(parts) + below


def _class(text: str, index: int) -> tuple[str, int]:
    """A class (``[a-z]``) whose inside begins at ``index``; an unclosed one matches nothing."""
    is_negated = text[index : index + 1] in ("!", "^")
    index += is_negated
    first, items = index, ""
    while index < len(text) and (text[index] != "]" or index == first):
        match = _CLASS_NAME.match(text, index)
        if match:
            items += _CLASS_CHARS.get(match[1], "")
            index = match.end()
            continue
        low, index = _class_char(text, index)
        if text[index : index + 1] == "-" and text[index + 1 : index + 2] not in ("", "]"):
            high, index = _class_char(text, index + 1)
            items += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
        else:
            items += re.escape(low)
    if index >= len(text):
        return _NOTHING, index
    if is_negated:
        return f"[^/{items}]", index + 1
    return f"(?!/)[{items}]" if items else _NOTHING, index + 1


def _class_char(text: str, index: int) -> tuple[str, int]:
    if text[index] == "\\" and index + 1 < len(text):
        return text[index + 1], index + 2
    return text[index], index + 1
