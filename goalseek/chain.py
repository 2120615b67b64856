"""The ledger as git has it: its commits from the newest to the root, each read as the hash that names it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from goalseek.deviations import Deviation
from goalseek.errors import UNFIT, GoalseekError
from goalseek.git.commits import Commit, Unreadable, read_commit
from goalseek.git.objects import Objects
from goalseek.records import IterationRecord, Record, from_line
from goalseek.values import to_line


@dataclass(frozen=True)
class Link:
    """A ledger commit that is a record: as a value, and as the row that its message is."""

    commit: Commit
    record: Record
    row: dict[str, Any]


@dataclass(frozen=True)
class Chain:
    """The ledger's commits above the root, oldest first. ``root`` is None where the chain ends before it."""

    commits: tuple[Commit, ...] = ()
    root: Commit | None = None
    broken: tuple[Deviation, ...] = ()


def walk_ledger(objects: Objects, head: str | None) -> Chain:
    """The chain below a ledger commit, by first parents; it ends where a commit cannot be read, and says so."""
    found: list[Commit] = []
    name = head
    while name is not None:
        try:
            commit = read_commit(objects, name)
        except Unreadable as error:
            where = f"ledger commit {name}"
            broken = Deviation("the chain is broken", where, "a commit of the ledger", str(error))
            return Chain(tuple(reversed(found)), None, (broken,))
        if not commit.parents:
            return Chain(tuple(reversed(found)), commit)
        found.append(commit)
        name = commit.parents[0]
    return Chain()


def newest_with(objects: Objects, head: str | None, outcomes: Collection[str]) -> Iterator[IterationRecord]:
    """The iterations with these outcomes below a ledger commit, newest first; what is not asked for is not read.

    Raises GoalseekError where the chain ends before its root, or a message is no record.
    """
    marks = [f'"outcome":"{outcome}"' for outcome in outcomes]  # in a row's strings there is a backslash between
    name = head or ""
    while name:
        try:
            commit = read_commit(objects, name)
            may_be = commit.parents and any(mark in commit.message for mark in marks)
            record = from_line(commit.message) if may_be else None
        except (Unreadable, ValueError) as error:
            raise GoalseekError(f"ledger commit {name}: {error}", "run: goalseek audit", UNFIT, "tampered") from None
        if isinstance(record, IterationRecord) and record.outcome in outcomes:
            yield record
        name = commit.parents[0] if commit.parents else ""


def links_of(chain: Chain) -> Iterator[Link | Deviation]:
    """Each ledger commit as the record that it is, or the difference where its message is none."""
    for commit in chain.commits:
        try:
            row = json.loads(commit.message)
            record = from_line(commit.message)
            is_canonical = to_line(row) == commit.message
        except (ValueError, TypeError, RecursionError) as error:
            yield Deviation("the message is no record", f"ledger commit {commit.name}", "a record", str(error))
            continue
        if is_canonical:
            yield Link(commit, record, row)
        else:
            where = f"ledger commit {commit.name}"
            yield Deviation("the message is no record", where, to_line(row), commit.message)
