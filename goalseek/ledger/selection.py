"""Selection of iterations by outcome, reason, number or time, without reading more of a long history than needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from msgspec import Struct

from goalseek import humanize
from goalseek.errors import GoalseekError
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.results_file import History

MAX_OLDER_IN_A_ROW = 1000


class Selection(Struct, frozen=True):
    """Conditions on iterations; None, 0 and "" are no condition. ``last`` limits the result to the newest so many."""

    outcome: str = ""
    reason: str = ""
    iteration: int = 0
    moment: datetime | None = None
    last: int | None = None

    def holds(self, record: IterationRecord) -> bool:
        """Whether a record fulfils all conditions but ``last``."""
        if self.outcome not in ("", record.outcome) or self.reason not in ("", record.reason):
            return False
        return record.iteration >= self.iteration and not self.is_older(record)

    def is_older(self, record: IterationRecord) -> bool:
        """Whether a record was made before the moment."""
        return self.moment is not None and datetime.fromisoformat(record.timestamp) < self.moment


def select_records(history: History, selection: Selection) -> Iterator[IterationRecord]:
    """The selected records, oldest first, each as soon as it is read."""
    if selection.last is not None:
        return iter(list(islice(_select_newest(history, selection), min(selection.last, sys.maxsize)))[::-1])
    return _select_forward(history, selection)


def parse_since(text: str, now: datetime) -> tuple[int, datetime | None]:
    """Iteration (else 0) and time (else None) of ``12``, ``2h``, ``3 days ago``, ``yesterday``, ``2026-11-21T07:00``.

    Days and times without a zone are local ones. Raises GoalseekError for anything else.
    """
    word = text.strip().lower()
    if word.isascii() and word.isdigit():
        return int(word), None
    if word in ("today", "yesterday"):
        day = now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        return 0, (day - timedelta(days=word == "yesterday")).astimezone(UTC)
    try:
        moment = datetime.fromisoformat(text.strip())
        return 0, moment if moment.tzinfo else moment.astimezone(UTC)
    except ValueError:
        pass
    age = word.removesuffix("ago").replace("days", "d").replace("day", "d").replace("hours", "h").replace("hour", "h")
    try:
        return 0, now - timedelta(seconds=humanize.parse_duration(age.strip()))
    except (ValueError, OverflowError):
        message = f"--since {text!r}: an iteration, a time or an age"
        raise GoalseekError(message, "--since 12, --since 2h, --since yesterday, --since 2026-11-21T07:00") from None


def _select_forward(history: History, selection: Selection) -> Iterator[IterationRecord]:
    for line in history.forward(_first_offset(history, selection)):
        record = history.parsed(line)
        if isinstance(record, IterationRecord) and selection.holds(record):
            yield record


def _first_offset(history: History, selection: Selection) -> int:
    """The offset in bytes before which no record is selected."""
    if selection.iteration:
        return history.offset_of(selection.iteration)
    if selection.moment is None:
        return 0
    offset = history.size()
    older = 0
    for line in history.backward():
        record = history.parsed(line)
        if not isinstance(record, IterationRecord):
            continue
        # A clock that was set back leaves some later ones behind an older one.
        older = older + 1 if selection.is_older(record) else 0
        if not older:
            offset = line.offset
        if older == MAX_OLDER_IN_A_ROW:
            break
    return offset


def _select_newest(history: History, selection: Selection) -> Iterator[IterationRecord]:
    older = 0
    for record in history.newest():
        if not isinstance(record, IterationRecord):
            continue
        if selection.holds(record):
            yield record
        older = older + 1 if selection.is_older(record) else 0
        if record.iteration < selection.iteration or older == MAX_OLDER_IN_A_ROW:
            return
