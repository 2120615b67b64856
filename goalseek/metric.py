"""Reading one number out of what a measurement left behind. Pure: texts in, a finite number or a reason out."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from goalseek.manifest.rules import query_fault
from goalseek.manifest.tables import Reading


class NoNumber(Exception):
    """A measurement without a usable number; ``reason`` is ``no_metric`` or ``not_finite``."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason
        self.why = why


def from_json(reading: Reading, text: str, is_lines: bool = False) -> float:
    """The number at ``reading.query`` in a JSON document, or in a list of rows where ``is_lines``.

    Raises NoNumber where the document does not parse, or the query finds nothing, or something that is no number.
    """
    import jmespath

    try:
        document = [json.loads(line) for line in text.splitlines() if line.strip()] if is_lines else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoNumber("no_metric", f"{reading.name}: {reading.path} is not JSON: {error}") from None
    try:
        found = jmespath.search(reading.query or "@", document)
    except jmespath.exceptions.JMESPathError as error:
        raise NoNumber("no_metric", f"{reading.name}: the query {query_fault(reading.query or '@', error)}") from None
    if found is None:
        raise NoNumber("no_metric", f"{reading.name}: nothing at {reading.query!r} in {reading.path}")
    return finite(reading.name, found)


def from_text(reading: Reading, text: str) -> float:
    """The number in the one group of ``reading.regex``. Raises NoNumber for no match, or for several."""
    matches = [match[1] for match in re.finditer(reading.regex or "", text, re.MULTILINE)]
    if not matches:
        raise NoNumber("no_metric", f"{reading.name}: no match of {reading.regex!r} in {reading.source}")
    if len(matches) > 1 and reading.matches == "only":
        raise NoNumber(
            "no_metric",
            f'{reading.name}: {len(matches)} matches of {reading.regex!r}; say matches = "last" to take the last',
        )
    try:
        value = float(matches[-1])
    except (TypeError, ValueError):
        raise NoNumber("no_metric", f"{reading.name}: {matches[-1]!r} is not a number") from None
    return finite(reading.name, value)


def finite(name: str, found: Any) -> float:
    """The value as a float. Booleans, texts, lists and objects are no numbers; NaN and infinities are not finite."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        kind = {bool: "a boolean", str: "a text", list: "a list", dict: "an object"}.get(type(found), "no number")
        raise NoNumber("no_metric", f"{name}: {json.dumps(found)[:80]} is {kind}, not a number")
    try:
        value = float(found)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise NoNumber("not_finite", f"{name} is {value}")
    return value
