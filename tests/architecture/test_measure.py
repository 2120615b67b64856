"""What ``measure.py`` counts is there, and what only looks like it is not counted."""

from __future__ import annotations

import sys
from pathlib import Path

import marks
import measure
import pytest
from source import build

WORDS_OF = ("'kept'", "'baseline'")
WORDS = """
from enum import StrEnum


class Outcome(StrEnum):
    KEPT = "kept"
    BASELINE = "baseline"
"""
LITERALS = '''
"""kept"""

DEFAULT = "kept"


def show(row, parser):
    """kept"""
    parser.add_parser("baseline")
    print(f"kept", {"kept": 1}, row["kept"], row.get("baseline"), "kept by all")
    match row:
        case "baseline":
            return end("kept", outcome="kept") == "baseline"
    return {"outcome": "kept"}
'''
REPLACES = """
import dataclasses
import os


def write(path, text):
    new = path.with_name("new")
    new.write_text(text)
    new.replace(path)


def move(path, target):
    os.rename(path, target)


def write_name(path, text, state, day):
    path.write_text(text.replace("a", "b"))
    return dataclasses.replace(state, name=text), day.replace(hour=0)
"""
COMMITS = {
    "git.commits": 'def parents(raw):\n    return [line for line in raw.split(b"\\n") if line.startswith(b"parent ")]',
    "ledger.chain": 'def message(raw):\n    return raw.partition(b"\\n\\n")[2]',
    "git.objects": 'def diff(git):\n    both = git("diff-tree", "-p")\n    return both.partition(b"\\n\\n")',
    "git.repository": 'def write(tree, text):\n    return f"tree {tree}\\n\\n{text}".split("\\n\\n")',
}
FOLDS = """
class Standing:
    def after(self, record: Record) -> Standing:
        if isinstance(record, RunRecord):
            return self
        return self if isinstance(record, SettleRecord) else Standing()

    def name(self, record: Record) -> str:
        return "run" if isinstance(record, (RunRecord, SettleRecord)) else ""


class Night:
    def add(self, row):
        if row["kind"] == "run":
            self.runs += 1
        elif row["kind"] == "settle":
            self.settled = row


def fold(state: State, record: Record) -> State:
    match record:
        case RunRecord() | SettleRecord():
            return State()
    return state


def show(record: Record) -> None:
    print(isinstance(record, RunRecord), isinstance(record, SettleRecord))
"""
PARAMETERS = """
class Loop:
    def few(self, a, b, c, *, d, e): ...
    def six(self, a, /, b, *c, d, e, **f): ...


def outer():
    def eight(a, b, c, d, e, f, g, h): ...
    return lambda a, b, c, d, e, f, g, h: eight


def both(project: Project, config: Config | None): ...
def name(project: str, config: Config): ...
"""


def test_words_of_the_vocabulary_are_counted_as_values_and_as_names(tmp_path: Path) -> None:
    values, names = marks.literals(build(tmp_path, {"values": WORDS, "views.live": LITERALS}))
    kept, baseline = [
        sorted(int(word.split()[0].partition(":")[2]) for word in values if name in word) for name in WORDS_OF
    ]
    assert (kept, baseline) == ([4, 13, 13, 14], [12, 13])
    assert len(names) == 4


def test_without_enums_no_literal_is_counted(tmp_path: Path) -> None:
    rows = {row.measure: row for row in measure.habits(build(tmp_path, {"views.live": LITERALS}))}
    assert rows["literals outside values.py"].holds is None


def test_files_that_are_put_in_place_are_told_from_renames_and_other_replacing(tmp_path: Path) -> None:
    source = build(tmp_path, {"files": REPLACES})
    assert marks.atomic_replaces(source) == (["files:write"], ["files:move"])


def test_parsers_of_commits(tmp_path: Path) -> None:
    assert marks.parsers_of_commits(build(tmp_path, COMMITS)) == ["git.commits", "ledger.chain"]


def test_folds_over_records(tmp_path: Path) -> None:
    found = marks.folds(build(tmp_path, {"ledger.standing": FOLDS}))
    assert [name.partition(":")[2] for name in found] == ["Standing.after", "Night.add", "fold"]


def test_parameters_are_counted_without_self_and_lambdas(tmp_path: Path) -> None:
    source = build(tmp_path, {"loop.loop": PARAMETERS})
    assert marks.functions_of_many_parameters(source, 6) == ["loop.loop:Loop.six (6)", "loop.loop:outer.eight (8)"]
    assert marks.functions_of_many_parameters(source, 8) == ["loop.loop:outer.eight (8)"]
    assert marks.takers_of_project_and_config(source) == ["loop.loop:both"]


def test_sizes_are_those_of_modules_with_code(tmp_path: Path) -> None:
    long, short = "x = 1\n" * 351, "x = 1\n"
    source = build(tmp_path, {"git.objects": long, "git.paths": short, "cli.commands.log": short, "values": short})
    (tmp_path / "goalseek" / "git" / "__init__.py").write_text('"""Git."""\n')
    rows = {row.measure: row for row in measure.sizes(source)}
    assert [rows[name].now for name in ("modules", "modules under 40 lines", "packages on the floors")] == [4, 3, 2]
    assert (rows["modules in the largest folder"].now, rows["modules in the largest folder"].note) == (2, "git")
    assert rows["lines of the longest module"].why == ("git.objects (351)",) and rows["modules"].holds
    assert rows["lines of the median module"].holds is rows["lines of the longest module"].holds is False


def test_imports_of_a_module_are_counted_once_each(tmp_path: Path) -> None:
    text = "from goalseek.git import paths\n\n\ndef late():\n    import goalseek.git.paths\n    from goalseek import values\n"
    source = build(tmp_path, {"loop.loop": text, "git.paths": "", "values": ""})
    (row,) = [row for row in measure.edges(source) if row.measure == "imports of loop.loop"]
    assert (row.now, row.note, row.holds) == (2, "loop.loop, imported by 0", True)


@pytest.mark.slow
def test_the_way_of_a_kept_candidate_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_python", lambda checkout: sys.executable)
    modules, calls = measure.climb_rows(Path(__file__).parents[2])
    assert modules.note == "" and modules.now and calls.now
    assert 10 < modules.now < calls.now
