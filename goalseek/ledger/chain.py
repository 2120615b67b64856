"""The ledger's commits, read from git, and the differences between what they hold and what they should hold.

``check_seal`` serves the audit, which asks about every entry, and whoever opens the ledger, who stops at the first
difference among the newest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from goalseek.git.commits import Commit
from goalseek.ledger.seal import Seal, key_of
from goalseek.records import (
    HoldoutRecord,
    IterationRecord,
    MeasurementRecord,
    Record,
    RunRecord,
    SettleRecord,
    parse_record,
)
from goalseek.values import to_line


class LedgerEntry(Struct, frozen=True, dict=True):
    """A ledger commit with a record; ``before`` is the commit that it follows, "" for the chain's root."""

    commit: Commit
    before: str

    @cached_property
    def row(self) -> dict[str, Any]:
        """The JSON object of its record. Raises ValueError."""
        row: dict[str, Any] = json.loads(self.commit.last_line)
        return row

    @cached_property
    def record(self) -> Record:
        """Its record. Raises ValueError where the message is none."""
        return parse_record(self.commit.last_line)


def entry_message(record: Record, line: str) -> str:
    """The message of a record's commit: a subject for people, and the record's line. In schema 1 the line is all."""
    if record.schema == 1:
        return line
    match record:
        case IterationRecord():
            subject = f"{record.iteration} {record.outcome} {record.reason}"
        case RunRecord():
            subject = "run begins"
        case MeasurementRecord():
            subject = f"measures for {record.asked_by}"
        case SettleRecord():
            subject = f"settles {record.iteration}"
        case HoldoutRecord():
            subject = f"holdout {record.look} of {record.of} {record.reason}"
    return f"goalseek {subject}\n\n{line}\n"


def check_message(entry: LedgerEntry) -> Iterator[Deviation]:
    """A difference where the message is no record, or is not written as goalseek writes one."""
    what, where, message = "the message is no record", f"ledger commit {entry.commit.name}", entry.commit.message
    try:
        expected = entry_message(entry.record, to_line(entry.row))
    except (ValueError, TypeError, RecursionError) as error:
        yield Deviation(what, where, "a record", str(error))
        return
    if expected != message:
        yield Deviation(what, where, expected, message)


def check_seal(entry: LedgerEntry, seal: Seal, foreign: list[tuple[str | None, int]]) -> Iterator[Deviation]:
    """A difference where the seal does not hold. One by another key is added to ``foreign``: (key, number)."""
    try:
        expected, actual, number = seal.expected(entry.row, entry.before), entry.row["seal"], entry.row["seq"]
    except (ValueError, TypeError, KeyError) as error:
        yield Deviation("the message is no record", f"ledger commit {entry.commit.name}", "a record", str(error))
        return
    if expected is None:
        foreign.append((key_of(actual), number))
    else:
        yield from value_deviations("the seal does not hold", f"record {number}", expected, actual)


NOTHING = "nothing"
_SHOWN_LIMIT = 200
_ABSENT = object()


class Deviation(Struct, frozen=True):
    """One difference: what it is, where it is, what should be there, and what is."""

    what: str
    where: str
    expected: str
    found: str


def row_deviations(what: str, where: str, expected: Any, found: Any, path: str = "") -> Iterator[Deviation]:
    """A difference for every path at which two JSON values differ; ``path`` is that of both values."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*expected, *found]):
            members = expected.get(key, _ABSENT), found.get(key, _ABSENT)
            yield from row_deviations(what, where, *members, f"{path}.{key}" if path else key)
        return
    texts = [NOTHING if value is _ABSENT else json.dumps(value) for value in (expected, found)]
    if texts[0] != texts[1]:
        yield Deviation(what, f"{where}, {path}" if path else where, *map(describe_value, texts))


def value_deviations(what: str, where: str, expected: object, found: object) -> Iterator[Deviation]:
    """A difference where two values are not the same."""
    if expected != found:
        yield Deviation(what, where, describe_value(expected), describe_value(found))


def format_ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges: "0-4, 7"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ", ".join("-".join(map(str, bounds)) for bounds in ranges)


def describe_value(value: object) -> str:
    """A value as text: a string as it is, "nothing" for None, the rest as JSON; cut after 200 characters."""
    if value is None:
        return NOTHING
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN_LIMIT else text[:_SHOWN_LIMIT] + "…"
