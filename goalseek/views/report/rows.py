"""The lines of ``results.jsonl`` as plain JSON, by the contract's names: what is missing or odd is read as nothing.

A report is also made of records that a newer version wrote, so kinds and keys that are not known here do no harm.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from goalseek.ledger.results_file import History

Row = dict[str, Any]


@dataclass(frozen=True)
class Placed:
    """A line of the file: its row, None where the line is no record; ``end`` is the byte after it."""

    row: Row | None
    end: int


def rows_from(history: History, offset: int = 0) -> Iterator[Placed]:
    """The complete lines from a line's beginning on; a torn last line is not there yet."""
    for line in history.forward(offset):
        end = line.offset + len(line.text) + 1
        try:
            row = json.loads(line.text)
        except (ValueError, RecursionError):
            row = None
        yield Placed(row if isinstance(row, dict) and isinstance(row.get("kind"), str) else None, end)


def number_at(row: Row, *names: str) -> float | None:
    """The finite number at a place, or None."""
    return _finite(at(row, *names))


def text_at(row: Row, *names: str) -> str:
    """The text at a place, or ""."""
    value = at(row, *names)
    return value if isinstance(value, str) else ""


def list_at(row: Row, *names: str) -> list[Any]:
    """The list at a place, or an empty one."""
    value = at(row, *names)
    return value if isinstance(value, list) else []


def rows_at(row: Row, *names: str) -> list[Row]:
    """The objects in the list at a place."""
    return [item for item in list_at(row, *names) if isinstance(item, dict)]


def numbers_at(row: Row, *names: str) -> dict[str, float]:
    """The finite numbers, by name, of the object at a place."""
    value = at(row, *names)
    if not isinstance(value, dict):
        return {}
    return {name: number for name in value if (number := _finite(value[name])) is not None}


def at(row: Any, *names: str) -> Any:
    """What is at a place, or None."""
    for name in names:
        if not isinstance(row, dict):
            return None
        row = row.get(name)
    return row


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
