"""From Python: a climb goes on, also by a function that proposes; its records, commits, table, plot and report."""

import html
import itertools
import subprocess
import sys
import threading
from pathlib import Path

import git
import pytest
from project import Project, Projects, answer, living

import goalseek
from goalseek import GoalseekError, IterationRecord

NAMES = """Climb GoalseekError HoldoutRecord IterationRecord MeasurementRecord Record RunRecord SettleRecord iterate load
    open read_results""".split()


def test_the_top_level_has_these_names_alone_and_imports_nothing_slow() -> None:
    assert NAMES == sorted(goalseek.__all__) == dir(goalseek)
    assert all(getattr(goalseek, name).__module__.startswith("goalseek") for name in NAMES if name != "Record")
    code = "import goalseek, sys; dir(goalseek); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"pydantic", "git", "rich", "jmespath", "msgspec", "jinja2"} & set(done.stdout.split())


def test_a_climb_has_its_records_the_best_and_the_commit_of_each_as_gitpython_gives_it(
    project: Project, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.set_moves(answer(2), answer(0.5), answer(2))
    monkeypatch.chdir(project.folder)
    with goalseek.open() as climb:
        assert (list(climb.records), climb.best) == ([], None)
    project.climb("iterate", "-n", "3")
    for variable in ("GIT_DIR", "GIT_INDEX_FILE"):  # as git sets them for a hook
        monkeypatch.setenv(variable, str(project.folder / "another"))
    with goalseek.open(project.manifest) as climb:
        iterations = [record for record in climb.records if isinstance(record, IterationRecord)]
        assert [record.outcome for record in iterations] == ["baseline", "kept", "reverted", "skipped"]
        assert climb.best == iterations[1]
        assert isinstance(climb.repo, git.Repo) and climb.repo.working_tree_dir == str(project.folder)
        kept = climb.commit(climb.best)
        assert kept is not None and kept.hexsha == climb.best.commit_hash
        assert kept.message.startswith("move 1\n\nGoalseek-Project: demo\n")
        assert kept.parents[0].hexsha == iterations[0].commit_hash
        assert kept.tree["answer.json"].data_stream.read() == answer(2).encode()
        assert [change.a_path for change in kept.parents[0].diff(kept)] == ["answer.json"]
        assert climb.commit(iterations[3]) is None
        assert living(isolated), "GitPython keeps a process"
    assert not living(isolated)


def test_gitpython_reads_no_sha256_repository_and_the_records_are_read_all_the_same(make_project: Projects) -> None:
    project = make_project(object_format="sha256")
    project.set_moves(answer(2))
    project.climb("iterate", "-n", "1")
    with goalseek.open(project.manifest) as climb:
        assert climb.best and climb.best.metric.value == 2
        with pytest.raises(GoalseekError, match="GitPython cannot read sha256 objects"):
            climb.commit(climb.best)


def test_a_function_proposes_and_its_edits_are_screened_and_judged_like_anybody_s(project: Project) -> None:
    number = itertools.count(1)

    def propose(folder: Path) -> str:
        assert not (folder / "hidden").exists()
        (folder / "answer.json").write_text(answer(3 - (call := next(number)), size=call))
        if call == 3:
            (folder / "other.txt").write_text("mine")
        return f" try\t{call}\n" if call < 4 else ""

    before = project.users()
    records = list(goalseek.open(project.manifest).iterate(iterations=4, propose=propose))
    assert [record.reason for record in records] == ["measured", "better", "worse", "out_of_scope", "worse"]
    assert [record.hypothesis_summary for record in records] == ["", "try 1", "try 2", "try 3", "candidate 4"]
    assert {(record.provider, record.isolation.driver) for record in records[1:]} == {("function", "open")}
    assert records[0].isolation.driver == "" and project.users() == before
    assert "author who could read the hidden files" in project.check("status")
    report = project.check("report", "-o", "-", "--format", "md")
    assert "4 of the tries came from checkouts or Python functions, whose authors" in report


def test_an_exception_of_the_function_ends_the_climb_and_its_iteration_begins_again(project: Project) -> None:
    faults = iter((LookupError("boom"), None))

    def propose(folder: Path) -> str:
        assert (folder / "answer.json").read_text() == answer(1), "what the failed one edited is gone"
        (folder / "answer.json").write_text(answer(3))
        if fault := next(faults):
            raise fault
        return "three"

    climb = goalseek.open(project.manifest)
    with pytest.raises(GoalseekError, match="propose raised LookupError: boom") as failure:
        list(climb.iterate(iterations=1, propose=propose))
    assert isinstance(failure.value.__cause__, LookupError)
    assert (climb.status["status"], climb.status["stop_reason"]) == ("blocked", "provider")
    assert [(record.iteration, record.outcome) for record in climb.iterate(1, propose=propose)] == [(1, "kept")]
    with pytest.raises(GoalseekError, match="it returned None, not a title"):
        list(climb.iterate(iterations=1, propose=lambda folder: None))  # type: ignore[arg-type,return-value]


def test_functions_are_at_work_at_once_while_nothing_else_waits_for_them(project: Project) -> None:
    both = threading.Barrier(2)

    def propose(folder: Path) -> str:
        (folder / "answer.json").write_text(answer(2 + both.wait(timeout=60)))
        return "both were here"

    records = list(goalseek.open(project.manifest).iterate(iterations=2, jobs=2, propose=propose))
    assert [record.hypothesis_summary for record in records[1:]] == ["both were here"] * 2


def test_a_climb_ends_where_it_is_told_to_and_refuses_what_makes_no_sense(project: Project) -> None:
    project.set_moves(answer(2), answer(3), answer(4), answer(5))
    climb = goalseek.open(project.manifest)
    assert [record.metric.value for record in climb.iterate(until="score>=2")] == [1, 2]
    assert list(climb.iterate(seconds=0)) == []
    assert [record.metric.value for record in climb.iterate(iterations=1, provider="scripted")] == [3]
    wrong = {
        "iterations=-1: at least 0": {"iterations": -1},
        "jobs=65: a number from 1 to 64": {"jobs": 65},
        "until: 'size>1': no number is called 'size'": {"until": "size>1"},
        "provider and propose exclude each other": {"provider": "tune", "propose": str},
        "there is no provider 'function'": {"provider": "function"},
    }
    for message, arguments in wrong.items():
        with pytest.raises(GoalseekError) as failure:
            next(climb.iterate(**arguments))
        assert failure.value.message.startswith(message) and failure.value.hint


def test_records_are_a_sequence_that_grows_and_reads_each_when_it_is_asked_for(played: Projects) -> None:
    project = played(answer(2), answer(0.5), more=(answer(3),))
    records = (climb := goalseek.open(project.manifest)).records
    every = list(goalseek.read_results(project.results))
    assert (len(records), records[0], records[-1], records[1:3]) == (4, every[0], every[3], every[1:3])
    assert list(records) == every and [*reversed(records)] == every[::-1] and every[2] in records
    list(climb.iterate(iterations=1))
    assert len(records) == 5 and climb.best == records[4]
    project.results.write_bytes(b"no record\n")
    with pytest.raises(GoalseekError, match="Expecting value"):
        records[len(records) - 1]


def test_what_is_measured_and_asked_is_what_the_commands_give(played: Projects) -> None:
    project = played(answer(2), answer(0.5))
    with goalseek.open(project.manifest) as climb:
        assert climb.diff("best") == climb.diff(1) == project.check("show", "1", "--diff")
        compared = climb.compare(0, "best")
        assert (compared.better, compared.settled.difference) == ("after", 1.0) and len(climb.records) == 4
        assert isinstance(climb.settle(), goalseek.SettleRecord) and climb.settle() == climb.records[-1]
        assert climb.status == project.ask("status")


def test_a_climb_is_a_table_a_plot_and_a_report(
    make_project: Projects, played: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    empty = goalseek.open(make_project("empty").manifest)
    assert len(empty.to_pandas()) == 0 and "Nothing is measured yet" in empty._repr_html_()
    with pytest.raises(GoalseekError, match="nothing is measured yet"):
        empty.plot()
    climb = goalseek.open(played(answer(2), answer(0.5), answer("fail")).manifest)
    frame = climb.to_pandas()
    assert [*frame.columns][:5] == ["iteration", "timestamp", "outcome", "reason", "value"]
    assert frame["value"].fillna(-1).tolist() == [1, 2, 0.5, -1] and frame["iteration"].sum() == 6
    axes = climb.plot()
    rejected, best = (line.get_xydata().tolist() for line in axes.get_lines())
    assert (rejected, best) == ([[2, 0.5]], [[0, 1], [1, 2], [3, 2]])
    assert climb.plot(axes) is axes
    shown = climb._repr_html_()
    assert html.unescape(shown).startswith('<iframe srcdoc="<!DOCTYPE html>') and 'sandbox="allow-scripts"' in shown
    for name, use in {"pandas": climb.to_pandas, "matplotlib": climb.plot}.items():
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(GoalseekError, match=f"{name} is not installed") as failure:
            use()
        assert failure.value.hint == "pip install 'goalseek[notebook]'"
