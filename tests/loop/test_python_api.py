"""From Python: load, iterate, read_results."""

import fcntl
import time
from pathlib import Path

import pytest
from project import Project, answer, home, until
from test_queue import begin

import goalseek
from goalseek.errors import GoalseekError
from goalseek.loop.lanes import HeldLanes
from goalseek.sandbox.supervisor import PROGRAMS_LOCK


def test_a_climb_from_python_yields_each_record_as_it_is_written_and_left_early_loses_nothing(project: Project) -> None:
    project.set_moves(answer(2), answer(0.5), answer(3), answer(4), answer(5))
    manifest = goalseek.load(project.manifest)
    seen = []
    for record in goalseek.iterate(manifest, iterations=2):
        seen.append((record.iteration, record.outcome, record.metric.value))
        assert len(project.iterations()) == len(seen)
    assert seen == [(0, "baseline", 1), (1, "kept", 2), (2, "reverted", 0.5)]
    assert [record.kind for record in goalseek.read_results(project.results)] == ["run", *["iteration"] * 3]
    assert project.climb()[-1]["metric"]["value"] == 3, "the command line goes on from there"
    climb = goalseek.iterate(goalseek.load(str(project.manifest)), iterations=2)
    assert next(climb).metric.value == 4
    climb.close()
    assert [record["metric"]["value"] for record in project.climb()] == [1, 2, 0.5, 3, 4, 5], "the lock was given back"


def test_an_error_meanwhile_is_raised_with_the_next_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = '[ $GOALSEEK_ITERATION = 1 ] || while [ ! -e "$HOME/told" ]; do sleep 0.02; done; echo 1 > a.txt'
    project = begin(tmp_path / "repository", agent=agent, parallel={"agents": 2, "benches": 2})
    acquire_bench, failures = HeldLanes.acquire_bench, []

    def fail_once(lanes: HeldLanes) -> None:
        if lanes.number == 2 and not failures:
            failures.append(lanes)
            raise ValueError("planted")
        acquire_bench(lanes)

    monkeypatch.setattr(HeldLanes, "acquire_bench", fail_once)
    with pytest.raises(ValueError, match="planted"):
        for record in goalseek.iterate(goalseek.load(project.manifest), iterations=2):
            if record.iteration == 1:
                home("told").touch()
                until(lambda: failures)
                time.sleep(0.2)
    assert project.climb("iterate", "-n", "1")[-1]["iteration"] == 2


def test_what_a_person_can_put_right_is_a_goalseek_error(project: Project, tmp_path: Path) -> None:
    assert list(goalseek.read_results(tmp_path / "results.jsonl")) == []
    with pytest.raises(GoalseekError, match="there is no manifest"):
        goalseek.load(tmp_path / "gone.toml")
    project.set_moves(answer(2))
    project.write({"answer.json": "no json"})
    project.commit()
    with pytest.raises(GoalseekError, match="the baseline has no number"):
        list(goalseek.iterate(goalseek.load(project.manifest), iterations=1))
    assert project.traces() == []


def test_a_climb_that_cannot_be_opened_holds_no_lock(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.set_moves(answer(2))
    climb = goalseek.iterate(goalseek.load(project.manifest), iterations=1)
    with monkeypatch.context() as broken, pytest.raises(GoalseekError, match="somebody moved refs"):
        broken.setattr("goalseek.project.project.Ledger", refused)
        next(climb)
    with (project.folder / ".git" / "goalseek" / "demo" / PROGRAMS_LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def refused(*_: object) -> None:
    """A ledger that somebody moved."""
    raise GoalseekError("somebody moved refs")
