"""The cache of which trees were measured: damage is mended from the records, and no disk for it is no reason to stop."""

import sqlite3
from pathlib import Path

from project import Project, answer

from goalseek.ledger.results_file import History
from goalseek.ledger.tree_index import TreeIndex


def damage(path: Path) -> None:
    """Makes the index unreadable; the file opens, and fails at the first question."""
    database = sqlite3.connect(path)
    page = dict(database.execute("SELECT name, rootpage FROM sqlite_master"))["sqlite_autoindex_measured_1"]
    database.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)


def test_a_damaged_file_is_made_again_once_and_knows_what_it_knew(project: Project) -> None:
    project.set_moves(answer(2), answer(0), answer(0))
    project.climb("iterate", "-n", "2")
    damage(project.top / ".git/goalseek/demo/measured.sqlite")
    ended = project.run("iterate")
    assert ended.exit_code == 0 and ended.stderr.count("it is made again from the records") == 1
    assert project.iterations()[-1]["reason"] == "duplicate"
    assert "measured.sqlite" not in project.run("iterate").stderr


def test_where_no_file_can_be_made_it_is_kept_in_memory(project: Project, own: Path) -> None:
    project.set_moves(answer(2))
    project.climb("iterate")
    notes: list[str] = []
    history = History(project.run_folder(0).parents[1] / "logs" / "results.jsonl")
    newest = list(history.records())[-1]
    measured = TreeIndex(own / "none" / "measured.sqlite", history, newest.seq, notes.append)
    measured.add(newest)
    kept = project.iterations()[1]
    assert measured.iteration(kept["digests"]["ruler"], kept["tree_hash"]) == 1
    assert [note.endswith("kept in memory: it cannot be written") for note in notes] == [True]
    measured.close()
