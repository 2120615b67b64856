"""The index of measured trees, for finding duplicates: an SQLite cache, rebuilt from the records when in doubt."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from goalseek.ledger.records import IterationRecord, Record
from goalseek.ledger.results_file import History
from goalseek.own_folders import remove_if_exists
from goalseek.values import Outcome


class TreeIndex:
    """Finds the iteration that measured a tree under a ruler, in time that does not grow with their number.

    A damaged file is rebuilt and ``note`` gets a message; where none can be written, the index is kept in memory.
    """

    def __init__(self, path: Path, history: History, seq: int, note: Callable[[str], None]) -> None:
        self._path = path
        self._history = history
        self._note = note
        try:
            self._database = _connect(str(path))
        except sqlite3.DatabaseError as error:
            self._database = _connect(":memory:")
            self._repair(error)
        if self._database.execute("SELECT seq FROM upto").fetchone() != (seq,):
            self._rebuild()

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def iteration(self, ruler: str, tree: str) -> int | None:
        """The iteration that measured this tree, or None."""
        try:
            return _iteration(self._database, ruler, tree)
        except sqlite3.DatabaseError as error:
            self._repair(error)
            return _iteration(self._database, ruler, tree)

    def add(self, record: Record) -> None:
        """Adds the newest record."""
        try:
            _insert(self._database, record)
            self._database.commit()
        except sqlite3.DatabaseError as error:
            self._repair(error)  # with this record, which is in the ledger

    def _repair(self, error: sqlite3.DatabaseError) -> None:
        is_written = self._rebuild()
        how = "made again from the records" if is_written else "kept in memory: it cannot be written"
        self._note(f"{self._path.name}, a cache of which trees were measured, was damaged ({error}); it is {how}")

    def _rebuild(self) -> bool:
        """Builds the index from every record: True for a file, False for memory, where no file can be written."""
        self._database.close()
        try:
            remove_if_exists(self._path)
            self._database = self._build(str(self._path))
            return True
        except (OSError, sqlite3.DatabaseError):
            self._database = self._build(":memory:")
            return False

    def _build(self, name: str) -> sqlite3.Connection:
        database = _connect(name)
        for record in self._history.records():
            _insert(database, record)
        database.commit()
        return database


def _connect(name: str) -> sqlite3.Connection:
    database = sqlite3.connect(name, check_same_thread=False)
    try:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA journal_mode = MEMORY")
        database.execute("CREATE TABLE IF NOT EXISTS measured (ruler, tree, iteration, PRIMARY KEY (ruler, tree))")
        database.execute("CREATE TABLE IF NOT EXISTS upto (seq)")
        if not database.execute("SELECT seq FROM upto").fetchone():
            database.execute("INSERT INTO upto VALUES (-1)")
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _iteration(database: sqlite3.Connection, ruler: str, tree: str) -> int | None:
    row = database.execute("SELECT iteration FROM measured WHERE ruler = ? AND tree = ?", (ruler, tree)).fetchone()
    return int(row[0]) if row else None


def _insert(database: sqlite3.Connection, record: Record) -> None:
    if isinstance(record, IterationRecord) and record.tree_hash and record.outcome != Outcome.SKIPPED:
        row = (record.digests.get("ruler", ""), record.tree_hash, record.iteration)
        database.execute("INSERT OR IGNORE INTO measured VALUES (?, ?, ?)", row)
    database.execute("UPDATE upto SET seq = ?", (record.seq,))
