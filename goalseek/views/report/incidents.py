"""Incidents read from the records: timeouts, kills, waits, failures, pauses, and notes."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from goalseek.humanize import format_duration, parse_duration
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
    """One incident: its kind, its iteration (None outside of one), and a sentence or ""."""

    kind: str
    iteration: int | None
    text: str = ""


class Incidents:
    """The number of incidents of each kind, and the newest of each."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.newest: dict[str, deque[Incident]] = {}

    def add(self, incident: Incident) -> None:
        """Adds an incident."""
        self.counts[incident.kind] += 1
        self.newest.setdefault(incident.kind, deque(maxlen=_SHOWN_MOST)).append(incident)


def incidents_of(row: Row) -> Iterator[Incident]:
    """The incidents in the row of an iteration."""
    iteration = int(number_at(row, "iteration") or 0)
    if reason := _REASONS.get(text_at(row, "reason")):
        yield Incident(reason, iteration, one_line(text_at(row, "why"), 300))
    for command in rows_at(row, "verify"):
        if killed := int(number_at(command, "killed") or 0):
            programs = "a program" if killed == 1 else f"{killed} programs"
            name = one_line(text_at(command, "name"), 60)
            yield Incident("programs ended that the verifier left running", iteration, f"{name} left {programs}")
    for note in list_at(row, "notes"):
        if isinstance(note, str):
            yield Incident(_kind_of(note), iteration, one_line(note, 400))


def pause_before(row: Row, previous: datetime | None) -> Incident | None:
    """The pause since ``previous`` that the iteration's seconds and noted waits do not explain; None under two minutes.

    The records do not say what it was: a stop, a kill, a machine asleep, a question to a person.
    """
    moment = parse_timestamp(text_at(row, "timestamp"))
    if moment is None or previous is None:
        return None
    idle = (moment - previous).total_seconds() - sum(numbers_at(row, "seconds").values())
    idle -= sum(_wait_seconds(note) for note in list_at(row, "notes") if isinstance(note, str))
    if idle < PAUSE_SECONDS:
        return None
    iteration = int(number_at(row, "iteration") or 0)
    return Incident("nothing was at work", iteration, f"for {format_duration(idle)} before or within it")


def parse_timestamp(text: str) -> datetime | None:
    """The time of a timestamp, with its zone (UTC where it has none), or None."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _wait_seconds(note: str) -> float:
    """The seconds of the wait in a note; 0 where it is about something else."""
    match = _WAITED.match(note)
    return parse_duration(match[1]) if match else 0.0


def _kind_of(note: str) -> str:
    return next((kind for begins, kind in _NOTES.items() if note.startswith(begins)), "noted")
