"""``goalseek stop``: the iteration at work ends, then the run; nothing else is ever stopped by it."""

import fcntl
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from project import Project, answer, home, until

from goalseek.locks import Holder, lock_holder, project_lock

WAITING = """\
if [ "$GOALSEEK_ITERATION" = 2 ]; then
    touch "$HOME/waiting"
    while [ ! -e "$HOME/go" ]; do sleep 0.05; done
fi
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""


@pytest.fixture
def waiting(project: Project) -> Project:
    """Its verifier waits in iteration 2 until ``go`` is there."""
    project.write({"hidden/judge.sh": WAITING})
    project.commit()
    project.set_moves(*(answer(score) for score in range(2, 30)))
    return project


def request_of(project: Project) -> Path:
    return project.top / ".git" / "goalseek" / "demo" / "stop.json"


def started_and_waiting(project: Project) -> subprocess.Popen[str]:
    return project.start_until(home("waiting"), "iterate", "--forever")


@pytest.mark.slow
def test_the_iteration_at_work_ends_and_then_the_run_with_0(waiting: Project) -> None:
    started = started_and_waiting(waiting)
    text = waiting.manifest.read_text()
    for bad_line in ("[limits]\niterations = -4\n", "[limits\n"):
        waiting.manifest.write_text(f"{text}\n{bad_line}")
        looked = waiting.run("status", "--json")
        assert looked.exit_code == 0 and json.loads(looked.stdout)["status"] == "running", looked.stderr
        assert re.search("^note: the manifest is invalid now.*last valid one applies: .*toml", looked.stderr)
    asked = waiting.run("stop")
    assert asked.exit_code == 0 and "last valid one applies" in asked.stderr, asked.stderr
    waiting.manifest.write_text(text)
    assert f"process {started.pid} on " in asked.stdout
    assert re.search(r"usually takes [0-9.]+s$", asked.stdout)
    home("go").touch()
    _, stderr = started.communicate(timeout=30)
    assert started.returncode == 0 and "goalseek stop asked for it" in stderr
    state = waiting.state()
    assert (state["status"], state["stop_reason"]) == ("completed", "asked")
    assert [record["iteration"] for record in waiting.iterations()] == [0, 1, 2]
    assert not request_of(waiting).exists()
    assert len(waiting.climb("iterate", "-n", "1")) == 4


def test_where_nothing_is_running_it_leaves_everything_as_it_is_and_a_program_gets_json(waiting: Project) -> None:
    nothing = {"asked": False, "holder": None, "usual_seconds": None}
    assert waiting.ask("stop") == nothing
    assert waiting.traces() == []
    started = started_and_waiting(waiting)
    told = waiting.ask("stop")
    home("go").touch()
    started.communicate(timeout=30)
    assert told["asked"] is True and f"process {started.pid} " in told["holder"] and told["usual_seconds"] > 0
    assert waiting.ask("stop") == nothing
    request_of(waiting).write_text("{}")
    assert "nothing is running" in waiting.run("stop").stdout
    assert request_of(waiting).read_text() == "{}"


@pytest.mark.slow
def test_a_request_that_a_kill_left_behind_does_not_stop_the_next_one(waiting: Project) -> None:
    started = started_and_waiting(waiting)
    waiting.check("stop")
    started.kill()
    started.communicate(timeout=120)
    assert request_of(waiting).exists()
    home("go").touch()
    assert len(waiting.climb("iterate", "-n", "2")) == 4
    assert not request_of(waiting).exists()


@pytest.mark.parametrize("change", [{"holder": "process 1 on elsewhere"}, None])
@pytest.mark.slow
def test_a_request_for_another_run_is_ignored_and_removed(waiting: Project, change: dict[str, str] | None) -> None:
    started = started_and_waiting(waiting)
    waiting.check("stop")
    request = json.loads(request_of(waiting).read_text())
    request_of(waiting).write_text("torn" if change is None else json.dumps({**request, **change}))
    home("go").touch()
    until(lambda: len(waiting.iterations()) >= 5)
    assert not request_of(waiting).exists()
    waiting.check("stop")
    _, stderr = started.communicate(timeout=30)
    assert started.returncode == 0 and "goalseek stop asked for it" in stderr


@pytest.mark.slow
def test_from_another_worktree_it_reaches_the_climb_and_so_do_direct_and_status(waiting: Project) -> None:
    other = waiting.top.with_name("other")
    waiting.git("worktree", "add", "--quiet", str(other))
    started = started_and_waiting(waiting)
    there = Project(other, other)
    shown = there.run("status").stdout
    assert "demo: running" in shown and f"at work in {waiting.folder}" in shown and "best " in shown
    assert there.run("direct", "prefer fives").stdout.startswith("direction 1, from iteration 2")
    assert "prefer fives" in waiting.run("direct", "--list").stdout and not (other / ".goalseek").exists()
    assert f"asked process {started.pid} on " in there.run("stop").stdout
    home("go").touch()
    _, stderr = started.communicate(timeout=30)
    assert started.returncode == 0 and "goalseek stop asked for it" in stderr
    assert f"last at work in {waiting.folder}" in there.fail(2, "approve", "3")
    assert "at work" not in there.run("status").stdout


@pytest.mark.elsewhere
def test_a_command_that_looks_for_no_request_is_named_and_nothing_is_promised(project: Project) -> None:
    own = project.top / ".git" / "goalseek" / "demo"
    with project_lock(own, doing="doctor", manifest=project.manifest):
        asked, second = project.run("stop"), project.run("iterate")
    assert asked.exit_code == 4 and asked.stdout == "" and not request_of(project).exists()
    assert f"goalseek doctor is at work, and goalseek stop cannot end it: process {os.getpid()} on" in asked.stderr
    assert f"at once: kill {os.getpid()}\n" in asked.stderr
    assert second.exit_code == 4 and "goalseek doctor" in second.stderr and f"kill {os.getpid()}" in second.stderr


@pytest.mark.slow
def test_the_note_of_a_holder_that_was_killed_is_not_that_of_the_next(project: Project) -> None:
    own = project.top / ".git" / "goalseek" / "demo"
    with project_lock(own, doing="iterate"):
        pass
    note = json.loads((own / "lock").read_text())
    with (own / "lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_holder(own) == Holder(**note)
        for gone in ({"started": "1"}, {"pid": 2**22 + 1}):
            (own / "lock").write_text(json.dumps({**note, **gone}))
            assert "its process is starting" in project.fail(4, "stop")
        (own / "lock").write_text(json.dumps({**note, "started": "1", "host": "elsewhere"}))
        assert "process" in str(lock_holder(own)), "nobody can look there"
        (own / "lock").write_text(json.dumps({**note, "started": "1", "namespace": "pid:[1]"}))
        assert "process" in str(lock_holder(own)), "another container's numbers mean nothing here"
        (own / "lock").write_text(json.dumps({**note, "doing": ""}))
        assert "another version of goalseek began it" in project.run("stop").stderr
    assert not request_of(project).exists() and lock_holder(own) is None
