"""Which trees were measured already: a cache in the tool's own folder, made again from the records when in doubt."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from goalseek.beneath import clear
from goalseek.history import History
from goalseek.records import IterationRecord, Record


class Measured:
    """Finds the iteration that measured a tree under a ruler, at the same cost however many there were."""

    def __init__(self, path: Path, history: History, seq: int) -> None:
        self._path = path
        self._database = self._open()
        if self._seq() != seq:
            self._database.close()
            clear(path)
            self._database = self._open()
            for record in history.records():
                self._insert(record)
            self._database.commit()

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def iteration(self, ruler: str, tree: str) -> int | None:
        """The iteration that measured this tree, or None."""
        found = self._database.execute("SELECT iteration FROM measured WHERE ruler = ? AND tree = ?", (ruler, tree))
        row = found.fetchone()
        return int(row[0]) if row else None

    def add(self, record: Record) -> None:
        """Takes in the newest record."""
        self._insert(record)
        self._database.commit()

    def _insert(self, record: Record) -> None:
        if isinstance(record, IterationRecord) and record.tree_hash and record.outcome != "skipped":
            row = (record.digests.get("ruler", ""), record.tree_hash, record.iteration)
            self._database.execute("INSERT OR IGNORE INTO measured VALUES (?, ?, ?)", row)
        self._database.execute("UPDATE upto SET seq = ?", (record.seq,))

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError:
            clear(self._path)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path)
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA journal_mode = MEMORY")
        database.execute("CREATE TABLE IF NOT EXISTS measured (ruler, tree, iteration, PRIMARY KEY (ruler, tree))")
        database.execute("CREATE TABLE IF NOT EXISTS upto (seq)")
        if not database.execute("SELECT seq FROM upto").fetchone():
            database.execute("INSERT INTO upto VALUES (-1)")
        return database

    def _seq(self) -> int:
        return int(self._database.execute("SELECT seq FROM upto").fetchone()[0])
