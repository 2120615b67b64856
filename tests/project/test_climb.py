"""From Python: a climb's records, and its repository by GitPython."""

from pathlib import Path

import git
import pytest
from project import Project, Projects, answer, living

import goalseek
from goalseek.errors import GoalseekError
from goalseek.records import IterationRecord


def test_a_climb_has_its_records_the_best_and_the_commit_of_each_as_gitpython_gives_it(
    project: Project, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.set_moves(answer(2), answer(0.5), answer(2))
    monkeypatch.chdir(project.folder)
    with goalseek.open() as climb:
        assert (climb.records, climb.best) == ([], None)
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
