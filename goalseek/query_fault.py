"""What is wrong with a JMESPath expression, in one line: the library's word, and the place."""

from __future__ import annotations

import re

_CHATTER = re.compile(r"^(Invalid|Bad) jmespath expression: |: Parse error at column .*$|, for expression:?$|:$", re.I)


def query_fault(query: str, error: Exception) -> str:
    """``'a b' is not JMESPath: Unexpected token: b, at character 3, 'b'``.

    ``error`` is jmespath's; one that says no place is of a query that was understood, and fails in what it is given.
    """
    said = _CHATTER.sub("", str(error).split("\n")[0])
    at = getattr(error, "lex_position", None)
    if at is None:
        return f"{query!r}: {said}"
    rest = query[at : at + 20]
    where = f"at character {at + 1}, {rest!r}" if rest else "at its end"
    return f"{query!r} is not JMESPath: {said}, {where}"
