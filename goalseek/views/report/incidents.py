"""What went otherwise than planned, read from the records: timeouts, kills, waits, failures, and what a note says."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from goalseek.humanize import format_duration, seconds
from goalseek.views.report.rows import Row, list_at, number_at, numbers_at, rows_at, text_at
from goalseek.views.terminal_text import one_line

PAUSE_SECONDS = 120.0
_SHOWN_MOST = 40
_REASONS = {
    "verify_timeout": "the verifier timed out",
    "provider_timeout": "the agent timed out",
    "provider_failed": "the agent failed",
    "interrupted": "interrupted for good",
}


_NOTES = {
    "a call in ": "a call to the agent was killed, and is charged",
    "programs that the provider left": "programs ended that the agent left running",
    "waited ": "waited for the agent",
    "an earlier invocation ended": "resumed in the middle of an iteration",
    "in PLAN ": "a call to the agent failed, and was made again",
    "in APPLY_CHANGE ": "a call to the agent failed, and was made again",
    "in REPAIR ": "a call to the agent failed, and was made again",
    "in REVIEW ": "a call to the agent failed, and was made again",
    "review": "said in review",
}
_WAITED = re.compile(r"waited ((?:\d{1,9}(?:\.\d)?[smhd] ?)+): ")


@dataclass(frozen=True)
class Incident:
    """One event: of which kind, in which iteration (None outside of one), and a sentence or ""."""

    kind: str
    iteration: int | None
    text: str = ""


class Incidents:
    """All of them counted by kind, and the newest of each."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.newest: dict[str, deque[Incident]] = {}

    def add(self, incident: Incident) -> None:
        """One more."""
        self.counts[incident.kind] += 1
        self.newest.setdefault(incident.kind, deque(maxlen=_SHOWN_MOST)).append(incident)


def incidents_of(row: Row) -> Iterator[Incident]:
    """What an iteration's row tells of."""
    iteration = int(number_at(row, "iteration") or 0)
    if reason := _REASONS.get(text_at(row, "reason")):
        yield Incident(reason, iteration, one_line(text_at(row, "why"), 300))
    for command in rows_at(row, "verify"):
        if killed := int(number_at(command, "killed") or 0):
            left = "a program" if killed == 1 else f"{killed} programs"
            named = one_line(text_at(command, "name"), 60)
            yield Incident("programs ended that the verifier left running", iteration, f"{named} left {left}")
    for note in list_at(row, "notes"):
        if isinstance(note, str):
            yield Incident(_kind_of(note), iteration, one_line(note, 400))


def pause_before(row: Row, previous: datetime | None) -> Incident | None:
    """The time before an iteration's end in which nobody is known to have been at work, where it is long.

    A stop, a kill, a machine asleep, a person asked: what it was the records do not tell. Waits that a note tells of
    are not in it.
    """
    moment = moment_of(text_at(row, "timestamp"))
    if moment is None or previous is None:
        return None
    idle = (moment - previous).total_seconds() - sum(numbers_at(row, "seconds").values())
    idle -= sum(_waited(note) for note in list_at(row, "notes") if isinstance(note, str))
    if idle < PAUSE_SECONDS:
        return None
    iteration = int(number_at(row, "iteration") or 0)
    return Incident("nothing was at work", iteration, f"for {format_duration(idle)} before or within it")


def moment_of(text: str) -> datetime | None:
    """The aware time that a timestamp tells, or None."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _waited(note: str) -> float:
    """The seconds of a wait that a note tells of."""
    found = _WAITED.match(note)
    return seconds(found[1]) if found else 0.0


def _kind_of(note: str) -> str:
    return next((kind for begins, kind in _NOTES.items() if note.startswith(begins)), "noted")
