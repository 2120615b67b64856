"""What went otherwise than planned, read from the records: timeouts, kills, waits, failures, and what a note says."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from goalseek.units import in_words
from goalseek.views.harmless import one_line
from goalseek.views.report.rows import Row, list_at, number_at, numbers_at, rows_at, text_at

PAUSE_SECONDS = 120.0
_SHOWN_MOST = 40
_REASONS = {
    "verify_timeout": "the verifier timed out",
    "provider_timeout": "the agent timed out",
    "provider_failed": "the agent failed",
    "interrupted": "interrupted for good",
}


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
    """The time before an iteration in which nothing was at work, where it is long."""
    moment = moment_of(text_at(row, "timestamp"))
    if moment is None or previous is None:
        return None
    idle = (moment - previous).total_seconds() - sum(numbers_at(row, "seconds").values())
    if idle < PAUSE_SECONDS:
        return None
    iteration = int(number_at(row, "iteration") or 0)
    return Incident("stopped, killed, asleep or waiting, and gone on", iteration, f"after {in_words(idle)}")


def moment_of(text: str) -> datetime | None:
    """The aware time that a timestamp tells, or None."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _kind_of(note: str) -> str:
    if note.startswith("a call in "):
        return "a call to the agent was killed, and is charged"
    if note.startswith("programs that the provider left"):
        return "programs ended that the agent left running"
    return "noted"
