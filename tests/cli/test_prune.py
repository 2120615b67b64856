"""``goalseek prune``: what can be made again, or is old, goes; records, commits and the best's artifacts stay."""

import fcntl
import os
from pathlib import Path

import pytest
from project import Project, Projects, answer

pytestmark = pytest.mark.slow


@pytest.fixture
def climbed(played: Projects) -> Project:
    """A project after six iterations, of which the second was the best."""
    moves = (answer(2), answer(3), answer(1.1), answer(1.2), answer(1.3), answer(1.4))
    project = played(*moves, more=[answer(4)])
    project.check("exec", "--as", "agent", "--", "true")  # makes the trees, which a copy has not
    return project


def folders(project: Project) -> list[int]:
    """The iterations whose artifacts are there."""
    return sorted(int(path.name) for path in project.run_folder(0).parent.iterdir())


def trees(project: Project) -> list[Path]:
    return list(Path(os.environ["XDG_CACHE_HOME"], "goalseek").iterdir())


def test_old_run_folders_go_and_as_many_stay_as_command_or_manifest_says(climbed: Project) -> None:
    climbed.check("prune", "--keep", "2")
    assert folders(climbed) == [0, 2, 5, 6]
    assert (climbed.run_folder(2) / "changes.diff").exists()
    listed = climbed.check("log", "--query", "iteration").splitlines()
    assert listed == [str(number) for number in range(7)]
    for keep_runs in (1, "none"):
        climbed.set_manifest({"log": {"keep_runs": keep_runs}})
        climbed.check("prune")
        assert folders(climbed) == [0, 2, 6]


def test_without_old_run_folders_the_loop_goes_on_and_knows_duplicates(climbed: Project) -> None:
    def changed_lines() -> list[str]:
        return [line for line in climbed.check("show", "3", "--diff").splitlines() if line.startswith(("+", "-"))]

    lines = changed_lines()
    climbed.check("prune", "--keep", "0")
    assert changed_lines() == lines and '+{"score": 1.1,' in lines
    before = climbed.iterations()
    climbed.check("prune", "--keep", "0")
    records = climbed.climb("iterate")
    assert records[:-1] == before
    last = records[-1]
    assert (last["iteration"], last["outcome"], last["metric"]["value"]) == (7, "kept", 4)
    assert last["metric"]["incumbent"] == 3
    assert last["parent_commit_hash"] == before[-1]["rollback_commit_hash"]
    assert climbed.run("exec", "--as", "agent", "--", "cat", "answer.json").stdout == answer(4)
    climbed.run("prune", "--keep", "0")
    climbed.set_moves(answer(1.3))
    assert climbed.climb("iterate")[-1]["reason"] == "duplicate"


def test_a_dry_run_lists_and_prune_removes_the_trees_alone(climbed: Project) -> None:
    assert climbed.run("prune", "--keep", "-1").exit_code == 2
    assert folders(climbed) == [0, 1, 2, 3, 4, 5, 6]
    there = trees(climbed)
    with (climbed.top / ".git" / "goalseek" / "demo" / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert climbed.run("prune").exit_code == 4
    assert trees(climbed) == there
    (there,) = trees(climbed)
    ended = climbed.run("prune", "--keep", "2", "--dry-run")
    going = [there, *(climbed.run_folder(number) for number in (1, 3, 4))]
    assert ended.stdout.splitlines() == [f"would remove {path}" for path in going]
    assert (folders(climbed), trees(climbed)) == ([0, 1, 2, 3, 4, 5, 6], [there])
    assert (there / "workspace" / "answer.json").exists()
    told = climbed.ask("prune", "--keep", "2", "--dry-run")
    assert told == {"removed": [str(path) for path in going], "dry_run": True}
    before, refs = climbed.users(), climbed.git("for-each-ref")
    records = climbed.run_folder(0).parents[1] / "logs" / "results.jsonl"
    content = records.read_bytes()
    (there,) = trees(climbed)
    locked = climbed.trees() / "workspace" / "locked"
    locked.mkdir()
    (locked / "file").write_text("x")
    locked.chmod(0o500)
    assert climbed.check("prune") == f"removed {there}\n"
    assert trees(climbed) == []
    assert folders(climbed) == [0, 1, 2, 3, 4, 5, 6]
    assert records.read_bytes() == content
    assert (climbed.users(), climbed.git("for-each-ref")) == (before, refs)
    assert climbed.run("prune").stdout == "nothing to remove\n"
