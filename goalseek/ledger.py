"""The ledger: a chain of commits, one a record, whose ref's move is an iteration's only commit point.

``results.jsonl`` is its readable twin, brought to what the chain says each time the ledger is opened.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from goalseek.errors import UNFIT, GoalseekError
from goalseek.history import History, Snapshot
from goalseek.objects import Entry
from goalseek.plain import to_line
from goalseek.records import Record
from goalseek.repository import RefMove, RefMoved, Repository, moved_by_somebody
from goalseek.seal import Seal
from goalseek.standing import Standing

RULER_FILE = "ruler.json"
_SNAPSHOT_EVERY = 16
Written = TypeVar("Written", bound=Record)


class Ledger:
    """The records of one project. Only the holder of the lock may open one."""

    def __init__(self, repository: Repository, results: Path, seal: Seal) -> None:
        self.repository = repository
        self.history = History(results)
        self.seal = seal
        self.mended = ""
        self.head = repository.refs().ledger
        self._mend()
        snapshot = self.history.snapshot(lambda seal, body: self.seal.holds(seal, "standing", body))
        self._refuse_edited(snapshot)
        self.standing: Standing = self.history.folded(snapshot)

    def append(self, record: Written, candidate: str | None = None, ruler: str | None = None) -> Written:
        """Numbers and seals a record and commits it; gives it as written.

        ``candidate`` becomes the second parent. ``ruler`` (JSON) begins an epoch: it is this and every later
        commit's tree, so that the head always has the pinned one. Raises GoalseekError where somebody else moved
        the ledger.
        """
        record = replace(record, seq=self.standing.seq + 1, seal="")
        sealed = replace(record, seal=self.seal.of("record", self.head or "", to_line(record)))
        line = to_line(sealed)
        moment = int(datetime.fromisoformat(record.timestamp).timestamp())
        before = self.head
        root = before or self.repository.commit(self._tree(None), (), f"goalseek ledger {record.project}\n", 0)
        parents = (root, candidate) if candidate else (root,)
        after = self.repository.commit(self._tree(ruler), parents, line, moment)
        try:
            self.repository.move([RefMove(self.repository.ledger_ref, before, after)])
        except RefMoved:
            found = self.repository.refs().ledger
            raise moved_by_somebody(self.repository.ledger_ref, before or "nothing", found) from None
        self.head = after
        self._write(line)
        self.standing = self.standing.after(sealed)
        if self.standing.seq % _SNAPSHOT_EVERY == 0:
            self.history.remember(self.standing, lambda body: self.seal.of("standing", body))
        return sealed

    def pinned(self) -> str | None:
        """The ruler (JSON) of the present epoch, or None before the first baseline."""
        if self.head is None:
            return None
        level = self.repository.objects.tree(self.repository.tree_of(self.head))
        entry = level.get(RULER_FILE)
        return self.repository.objects.read(entry.blob).decode() if entry else None

    def now(self) -> str:
        """The time for a new record, UTC to the millisecond."""
        return datetime.now(UTC).isoformat("T", "milliseconds").replace("+00:00", "Z")

    def _tree(self, ruler: str | None) -> str:
        objects = self.repository.objects
        if ruler is not None:
            return objects.write_tree({RULER_FILE: Entry("100644", objects.write_bytes(ruler.encode()))})
        return self.repository.tree_of(self.head) if self.head else objects.write_tree({})

    def _write(self, line: str) -> None:
        """One O_APPEND write, fsynced."""
        path = self.history.path
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            content = line.encode() + b"\n"
            if os.write(descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _mend(self) -> None:
        """Brings ``results.jsonl`` to what the chain says: a torn last line goes, missing lines come."""
        self.history.path.parent.mkdir(parents=True, exist_ok=True)
        last = next(self.history.backward(), None)
        whole = last.offset + len(last.text) + 1 if last else 0
        if self.history.size() > whole:
            os.truncate(self.history.path, whole)
            self.mended = "a torn last line of results.jsonl was mended"
        known = last.text.decode() if last else None
        missing: list[str] = []
        commit = self.head
        while commit is not None:
            message, parent = self._message(commit)
            if message == known or parent is None:
                break
            missing.append(message)
            commit = parent
        if known is not None and (commit is None or self._message(commit)[0] != known):
            message = f"{self.history.path} does not end with a record of {self.repository.ledger_ref}"
            hint = f"move it away; it is written again from git: mv {self.history.path} {self.history.path}.old"
            raise GoalseekError(message, hint, UNFIT, "tampered")
        for line in reversed(missing):
            self._write(line)
        if missing:
            self.mended = f"{len(missing)} lines of results.jsonl were written again from git"

    def _refuse_edited(self, snapshot: Snapshot) -> None:
        """Raises GoalseekError where a line that is about to be believed is not what git has."""
        commit = self.head
        for line in self.history.backward():
            if line.offset < snapshot.end:
                return
            message, commit = self._message(commit) if commit else ("", None)
            if message != line.text.decode("utf-8", "replace"):
                told = f"{self.history.path}, at byte {line.offset}: the line is not what git has"
                hint = "see: goalseek audit; goalseek audit --rebuild writes it again"
                raise GoalseekError(told, hint, UNFIT, "tampered")

    def _message(self, commit: str) -> tuple[str, str | None]:
        """A ledger commit's message, and its first parent; the root, which has no record, has none."""
        head, _, message = self.repository.objects.read(commit).partition(b"\n\n")
        parent = next((line[7:].decode() for line in head.split(b"\n") if line.startswith(b"parent ")), None)
        return message.decode(), parent
