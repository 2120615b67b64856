"""File names as text. Inside, a name is text with surrogates for odd bytes; in records it is git's C-quoted form."""

from __future__ import annotations

_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


def quote_path(path: str) -> str:
    """The name as git prints it with ``core.quotePath=false``: quoted only where it has control or invalid bytes.

    Git prints bytes that are not UTF-8 raw there; here they are escaped as well, so that a record is text. Git reads
    every form that this gives.
    """
    plain = all(32 <= ord(char) != 127 and char not in '"\\' and not 0xD800 <= ord(char) <= 0xDFFF for char in path)
    if plain:
        return path
    quoted = []
    for char in path:
        raw = char.encode("utf-8", "surrogateescape")
        if raw[0] in _ESCAPES and len(raw) == 1:
            quoted.append("\\" + _ESCAPES[raw[0]])
        elif raw[0] < 32 or raw[0] == 127 or 0xD800 <= ord(char) <= 0xDFFF:
            quoted.append("".join(f"\\{byte:03o}" for byte in raw))
        else:
            quoted.append(char)
    return '"' + "".join(quoted) + '"'
