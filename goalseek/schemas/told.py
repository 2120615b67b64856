"""The shapes of what is told while a climb goes on: events for programs, the brief for an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from goalseek.ledger.records import HoldoutRecord, IterationRecord, SettleRecord


@dataclass(frozen=True)
class NoteEvent:
    """Something that a person should know."""

    event: Literal["note"]
    text: str


@dataclass(frozen=True)
class SandboxEvent:
    """At which level programs are kept in their place, what they can do in spite of it, and why it is this level."""

    event: Literal["sandbox"]
    level: Literal["bubblewrap", "landlock", "none"]
    not_enforced: list[str]
    because: list[str]


@dataclass(frozen=True)
class PhaseEvent:
    """A phase begins."""

    event: Literal["phase"]
    iteration: int
    phase: str


@dataclass(frozen=True)
class IterationEvent:
    """An iteration ended, and counts."""

    event: Literal["iteration"]
    record: IterationRecord


@dataclass(frozen=True)
class SettleEvent:
    """The result was measured afresh."""

    event: Literal["settle"]
    record: SettleRecord


@dataclass(frozen=True)
class HoldoutEvent:
    """A look at the holdout was made."""

    event: Literal["holdout"]
    record: HoldoutRecord


@dataclass(frozen=True)
class StoppedEvent:
    """The invocation ends; ``next`` says what to do, ``line`` is the last one that a person is shown.

    ``exit`` is its exit code; None where a signal ended it.
    """

    event: Literal["stopped"]
    stop_reason: str
    why: str
    next: str
    exit: int | None
    line: str = ""


Event = NoteEvent | SandboxEvent | PhaseEvent | IterationEvent | SettleEvent | HoldoutEvent | StoppedEvent
