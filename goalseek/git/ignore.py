"""Gitignore-style globs, compiled to regular expressions: the rules of gitignore(5), except for two.

``!src/vendor/**`` takes back although ``src/**`` matched the folder, and ``?`` is a character, not a byte.
"""

import functools
import re
from collections.abc import Callable, Sequence

_NOTHING = "(?!)"
_CHAR = r"(?:\\.|[^\\])"
_CLASS_ITEM = rf"\[:[a-z]*:\]|(?!\]){_CHAR}(?:-(?!\]){_CHAR})?"
_TOKEN = re.compile(
    rf"""(?<![^/])\*\*+(?P<folders>/)
    | (?<![^/])\*\*+(?P<rest>\Z)
    | (?P<stars>\*+)
    | (?P<one>\?)
    | \[(?P<class>(?>[!^]?(?:\](?:-(?!\]){_CHAR})?)?(?:{_CLASS_ITEM})*))\]
    | (?P<broken>\[.*|\\\Z)
    | (?P<char>{_CHAR})""",
    re.DOTALL | re.VERBOSE,
)
_TRANSLATIONS = {"folders": "(?:.*/)?", "rest": ".+", "stars": "[^/]*", "one": "[^/]", "broken": _NOTHING}
_ITEM = re.compile(rf"\[:([a-z]*):\]|({_CHAR})(?:-({_CHAR}))?", re.DOTALL)
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
    below = "/.*" if text.endswith("/") else "(?:/.*)?"
    text = text.removesuffix("/")
    prefix = "" if "/" in text else "(?:.*/)?"
    return prefix + _TOKEN.sub(_translate, text.removeprefix("./").removeprefix("/")) + below


def _translate(token: re.Match[str]) -> str:
    if token.lastgroup == "char":
        return re.escape(token[0][-1])
    if token.lastgroup != "class":
        return _TRANSLATIONS[token.lastgroup or ""]
    negation, items = token["class"][:1] in ("!", "^"), ""
    for name, low, high in _ITEM.findall(token["class"][negation:]):
        if not low:
            items += _CLASS_CHARS.get(name, "")
        elif low[-1] <= (high or low)[-1]:
            items += f"{re.escape(low[-1])}-{re.escape((high or low)[-1])}"
    if negation:
        return f"[^/{items}]"
    return f"(?!/)[{items}]" if items else _NOTHING
