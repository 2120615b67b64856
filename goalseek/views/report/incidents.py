"""Incidents read from the records: timeouts, kills, waits, failures, pauses, and notes."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

from goalseek.humanize import format_duration, parse_duration
from goalseek.records import IterationRecord
from goalseek.values import Reason
from goalseek.views.terminal_text import one_line

PAUSE_SECONDS = 120.0
_SHOWN_MOST = 40
_REASONS: dict[str, str] = {
    Reason.VERIFY_TIMEOUT: "the verifier timed out",
    Reason.PROVIDER_TIMEOUT: "the agent timed out",
    Reason.PROVIDER_FAILED: "the agent failed",
    Reason.INTERRUPTED: "interrupted for good",
    Reason.CONFLICT: "did not merge with what was kept meanwhile",
}
_NOTES = {
    ("a call in ",): "a call to the agent was killed, and is charged",
    ("programs that the provider left",): "programs ended that the agent left running",
    ("waited ",): "waited for the agent",
    ("an earlier invocation ended",): "resumed in the middle of an iteration",
    ("in PLAN ", "in APPLY_CHANGE ", "in REPAIR ", "in REVIEW "): "a call to the agent failed, and was made again",
    ("review",): "said in review",
    ("shared files are not",): "measured with other shared files than the baseline",
}
_WAITED = re.compile(r"waited ((?:\d{1,9}(?:\.\d)?[smhd] ?)+): ")


class Incident(Struct, frozen=True):
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


def incidents_of(record: IterationRecord, idle: float) -> Iterator[Incident]:
    """The incidents of an iteration, recorded ``idle`` seconds after the record before it.

    A pause is what its seconds and noted waits do not explain of those. The records do not say what it was: a stop, a
    kill, a machine asleep, a question to a person.
    """
    iteration = record.iteration
    if reason := _REASONS.get(record.reason):
        yield Incident(reason, iteration, one_line(record.why, 300))
    for stack in record.not_stacked:
        kind = "near misses that do not merge, or were measured already"
        yield Incident(kind, iteration, one_line(str(list(stack)), 80))
    for command in record.verify:
        if command.killed:
            programs = "a program" if command.killed == 1 else f"{command.killed} programs"
            text = f"{one_line(command.name, 60)} left {programs}"
            yield Incident("programs ended that the verifier left running", iteration, text)
    for note in record.notes:
        kind = next((kind for begins, kind in _NOTES.items() if note.startswith(begins)), "noted")
        yield Incident(kind, iteration, one_line(note, 400))
    if idle >= PAUSE_SECONDS:
        idle -= record.climb_seconds
        idle -= sum(parse_duration(match[1]) for note in record.notes if (match := _WAITED.match(note)))
    if idle >= PAUSE_SECONDS:
        yield Incident("nothing was at work", iteration, f"for {format_duration(idle)} before or within it")


def parse_timestamp(text: str) -> datetime | None:
    """The time of a timestamp, with its zone (UTC where it has none), or None."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
