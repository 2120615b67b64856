"""The texts and numbers of records that a report shows: printable, and of bounded length."""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct

from goalseek.records import IterationRecord
from goalseek.values import Outcome
from goalseek.views.terminal_text import one_line

_TEXT_MOST = 400
_FILES_MOST = 8
_GUARDS_MOST = 100
_STACKED_MOST = 20
_OUTCOMES = frozenset(Outcome)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Label(NamedTuple):
    """The outcome and the reason of a try, in the contract's words."""

    outcome: str
    reason: str


class Try(Struct, frozen=True, gc=False):
    """One iteration. All texts are printable and of bounded length; ``seconds`` are active ones.

    ``guards`` are filled for the baseline and kept tries only. ``stacked`` are the tries whose changes it put together.
    """

    iteration: int
    label: Label
    value: float | None
    incumbent: float | None
    title: str
    why: str
    commit: str
    parent: str
    files: tuple[str, ...]
    changed_loc: int
    seconds: float
    when: str
    guards: dict[str, float]
    stacked: tuple[int, ...] = ()


def try_of(record: IterationRecord, label: Label) -> Try:
    """The try of an iteration."""
    files = [one_line(name, 200) for name in record.changed_files[:_FILES_MOST]]
    if len(record.changed_files) > _FILES_MOST:
        files.append(f"and {len(record.changed_files) - _FILES_MOST} more")
    guards = list(record.guards)[:_GUARDS_MOST] if label.outcome in (Outcome.BASELINE, Outcome.KEPT) else ()
    return Try(
        iteration=record.iteration,
        label=label,
        value=record.metric.value,
        incumbent=record.metric.incumbent,
        title=one_line(record.hypothesis_summary, _TEXT_MOST),
        why=one_line(record.why, _TEXT_MOST),
        commit=_hash(record.commit_hash),
        parent=_hash(record.parent_commit_hash),
        files=tuple(files),
        changed_loc=record.changed_loc,
        seconds=sum(record.seconds.values(), 0.0),
        when=one_line(record.timestamp, 40),
        guards={one_line(name, 80): record.guards[name] for name in guards},
        stacked=record.stacked[:_STACKED_MOST],
    )


def label_of(record: IterationRecord) -> Label:
    """The label of an iteration; an unknown outcome counts as skipped."""
    outcome = record.outcome if record.outcome in _OUTCOMES else Outcome.SKIPPED.value
    return Label(outcome, one_line(record.reason, 40))


def _hash(text: str | None) -> str:
    """The text where it is a hash of git, else "": it is passed to git as an argument."""
    return text if text and _HASH.fullmatch(text) else ""
