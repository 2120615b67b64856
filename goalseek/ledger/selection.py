"""Selection of iterations, without reading more of a long history than needed."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

from msgspec import Struct

from goalseek import humanize
from goalseek.errors import GoalseekError
from goalseek.ledger.results_file import History, Line
from goalseek.records import IterationSummary

MAX_OLDER_IN_A_ROW = 1000
_Entry = tuple[Line, IterationSummary]


class Selection(Struct, frozen=True):
    """None, 0 and "" are no condition; ``last`` limits the result to the newest."""

    outcome: str = ""
    reason: str = ""
    iteration: int = 0
    moment: datetime | None = None
    last: int | None = None

    def holds(self, summary: IterationSummary) -> bool:
        if self.outcome not in ("", summary.outcome) or self.reason not in ("", summary.reason):
            return False
        return summary.iteration >= self.iteration and not self.is_older(summary)

    def is_older(self, summary: IterationSummary) -> bool:
        return self.moment is not None and datetime.fromisoformat(summary.timestamp) < self.moment


def select_lines(history: History, selection: Selection) -> Iterator[_Entry]:
    """Oldest first, each as soon as it is read."""
    start = history.offset_since(selection.iteration) if selection.iteration else 0
    if selection.last is not None:
        newest = takewhile(lambda entry: entry[0].offset >= start, _newest(history, selection))
        selected = (entry for entry in newest if selection.holds(entry[1]))
        return reversed(list(islice(selected, min(selection.last, sys.maxsize))))
    if selection.moment is not None:
        offsets = (line.offset for line, summary in _newest(history, selection) if not selection.is_older(summary))
        start = min(offsets, default=history.size())
    return (entry for entry in _entries(history, history.forward(start)) if selection.holds(entry[1]))


def parse_since(text: str, now: datetime) -> tuple[int, datetime | None]:
    """Iteration (else 0) and time (else None) of ``12``, ``2h``, ``3 days ago``, ``yesterday``, ``2026-11-21T07:00``.

    Days and times without a zone are local. Raises GoalseekError for anything else.
    """
    word = text.strip().lower()
    if word.isascii() and word.isdigit():
        return int(word), None
    if word in ("today", "yesterday"):
        day = now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        return 0, (day - timedelta(days=word == "yesterday")).astimezone(UTC)
    with suppress(ValueError):
        moment = datetime.fromisoformat(text.strip())
        return 0, moment if moment.tzinfo else moment.astimezone(UTC)
    try:
        return 0, now - timedelta(seconds=humanize.parse_duration(word.removesuffix("ago")))
    except (ValueError, OverflowError):
        message = f"--since {text!r}: an iteration, a time or an age"
        raise GoalseekError(message, "--since 12, --since 2h, --since yesterday, --since 2026-11-21T07:00") from None


def _entries(history: History, lines: Iterator[Line]) -> Iterator[_Entry]:
    return ((line, summary) for line in lines if (summary := history.summary(line)))


def _newest(history: History, selection: Selection) -> Iterator[_Entry]:
    """Newest first, until many in a row are older than the moment: a clock may have been set back."""
    older = 0
    for line, summary in _entries(history, history.backward()):
        yield line, summary
        older = older + 1 if selection.is_older(summary) else 0
        if older == MAX_OLDER_IN_A_ROW:
            return
