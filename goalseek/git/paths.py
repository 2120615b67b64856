"""File names as text. Inside, a name is text with surrogates for odd bytes; in records it is git's C-quoted form."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
# Marks and overrides of the direction of writing: a name that has one is shown as another one.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def quote_path(path: str) -> str:
    """The name as git prints it with ``core.quotePath=false``: quoted only where it has control or invalid bytes.

    Git prints bytes that are not UTF-8 raw there; here they are escaped as well, so that a record is text, and so is
    what turns the direction of writing, so that a name is seen as it is. Git reads every form that this gives.
    """
    if not any(char in '"\\' or _is_odd(char) for char in path):
        return path
    quoted = []
    for char in path:
        raw = char.encode("utf-8", "surrogateescape")
        if raw[0] in _ESCAPES and len(raw) == 1:
            quoted.append("\\" + _ESCAPES[raw[0]])
        elif _is_odd(char):
            quoted.append("".join(f"\\{byte:03o}" for byte in raw))
        else:
            quoted.append(char)
    return '"' + "".join(quoted) + '"'


def c_quoted(path: bytes) -> bytes:
    """A path in quotes, as git reads it from a file or its standard input whatever bytes it has."""
    return b'"' + b"".join(b"\\%03o" % byte if byte < 32 or byte in b'"\\' else bytes([byte]) for byte in path) + b'"'


def _is_odd(char: str) -> bool:
    return not 32 <= ord(char) != 127 or 0xD800 <= ord(char) <= 0xDFFF or char in _TURNING


def prefix_below(top: Path, folder: Path) -> str:
    """A folder as git names it below the top: "" or "sub/"; "" too for one that is elsewhere."""
    place, top = folder.resolve(), top.resolve()
    relative = place.relative_to(top).as_posix() if place.is_relative_to(top) else "."
    return "" if relative == "." else relative + "/"


_LOOKS_LIKE_GIT = re.compile(r"(?i)\.git|git~[0-9]+")


def looks_like_git(path: str) -> bool:
    """Whether a part of the path would be taken for a repository's own folder on some file system."""
    for part in path.split("/"):
        visible = "".join(char for char in part if unicodedata.category(char) != "Cf")
        if _LOOKS_LIKE_GIT.fullmatch(visible.rstrip(". ")):
            return True
    return False
