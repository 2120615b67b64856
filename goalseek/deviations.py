"""What an audit names: one place where what is found is not what is expected. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

NOTHING = "nothing"
_SHOWN_MOST = 200


@dataclass(frozen=True)
class Deviation:
    """One difference: what it is, where it is, what should be there, and what is."""

    what: str
    where: str
    expected: str
    found: str


def of_rows(what: str, where: str, expected: Any, found: Any) -> Iterator[Deviation]:
    """Every value on which two JSON values differ, named by its path."""
    for path, wanted, there in _unlike("", expected, found):
        yield Deviation(what, f"{where}, {path}" if path else where, wanted, there)


def of_values(what: str, where: str, expected: object, found: object) -> Iterator[Deviation]:
    """A difference where two values are not the same."""
    if expected != found:
        yield Deviation(what, where, shown(expected), shown(found))


def runs_of(numbers: Sequence[int]) -> str:
    """Rising numbers in words: "0-4, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def shown(value: object) -> str:
    """A value as it is named: texts as they are, nothing for None, the rest as JSON; not the whole of a long one."""
    if value is None:
        return NOTHING
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN_MOST else text[:_SHOWN_MOST] + "…"


def _unlike(path: str, expected: Any, found: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*expected, *found]):
            inner = f"{path}.{key}" if path else key
            if key not in expected or key not in found:
                yield inner, _member(expected, key), _member(found, key)
            else:
                yield from _unlike(inner, expected[key], found[key])
    elif json.dumps(expected) != json.dumps(found):
        yield path, shown(json.dumps(expected)), shown(json.dumps(found))


def _member(row: dict[str, Any], key: str) -> str:
    return shown(json.dumps(row[key])) if key in row else NOTHING
