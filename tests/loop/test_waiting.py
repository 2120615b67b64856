"""A run that waits, sleeps or works long says so: the heartbeat, measurements that exclude each other, ``--detach``."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs
from project import Project, Projects, answer, home, living, until

from goalseek import disk, locks
from goalseek.cli.main import run
from goalseek.errors import GoalseekError
from goalseek.manifest.tables import Limits
from goalseek.project import activity
from goalseek.project.activity import Activity, Observer
from goalseek.project.limits import Clock
from goalseek.project.picture import Picture, read_picture
from goalseek.proposal.call import IterationCall

WAITING = """\
if [ ! -e "$HOME/go" ]; then touch "$HOME/waiting"; while [ ! -e "$HOME/go" ]; do sleep 0.05; done; fi
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""


def status(project: Project) -> dict[str, Any]:
    return dict(json.loads(project.check("status", "--json")))


@pytest.fixture
def waiting(project: Project) -> Project:
    """Its verifier waits until ``go`` is there."""
    project.write({"hidden/judge.sh": WAITING})
    project.commit()
    project.set_moves(answer(2), answer(3))
    return project


def test_the_picture_is_written_only_when_it_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    doing = Activity(path, Observer())
    for phase in ("PLAN", "APPLY_CHANGE", "VERIFY"):
        doing.show(Picture("running", "run", "now", 3, phase))
    assert read_picture(path).phase == "PLAN", "the others followed at once"
    doing.beat()
    assert read_picture(path).phase == "PLAN", "twice a second at most"
    with monkeypatch.context() as patch:
        patch.setattr(activity, "BEAT_SECONDS", 0.0)
        doing.beat()
    assert read_picture(path).phase == "VERIFY"
    with doing.waiting("for a card"):
        assert read_picture(path).waits == "for a card", "another status is shown at once"
    assert read_picture(path) == structs.replace(doing.picture, heartbeat_at=read_picture(path).heartbeat_at)
    assert (doing.picture.status, doing.picture.next) == ("running", "")
    path = tmp_path / "another.json"
    doing = Activity(path, Observer())
    doing.beat()
    assert not path.exists()
    doing.show(Picture("running", "run", "now", 3, "VERIFY"))
    path.unlink()
    doing.beat()
    assert not path.exists(), "not yet time"
    monkeypatch.setattr(activity, "HEARTBEAT_SECONDS", 0.0)
    doing.beat()
    assert read_picture(path).phase == "VERIFY" and read_picture(path).heartbeat_at


def test_a_picture_without_a_holder_of_the_lock_is_of_an_interrupted_run(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for content in ("", "[]", "null", '{"status": 3}', '{"under_way": [{}]}'):
        path.write_text(content)
        assert read_picture(path) == Picture()
    shown = {"status": "waiting", "next": "for a card", "phase": "VERIFY", "iteration": 3, "new": 1}
    path.write_text(json.dumps(shown))
    assert (read_picture(path).waits, read_picture(path).phase) == ("for a card", "VERIFY")
    dead = read_picture(path, is_held=False)
    assert (dead.status, dead.waits, dead.phase, dead.phase_in_words()) == ("interrupted", "", None, "")
    path.write_text(json.dumps({"status": "completed", "next": "goes on"}))
    assert read_picture(path, is_held=False) == read_picture(path)


@pytest.mark.slow
def test_in_a_long_phase_the_heartbeat_goes_on_and_status_says_when_it_has_gone_stale(waiting: Project) -> None:
    started = waiting.start("iterate")
    until(lambda: home("waiting").exists())
    picture = waiting.logs / "state.json"
    first = read_picture(picture).heartbeat_at
    until(lambda: read_picture(picture).heartbeat_at != first)
    assert status(waiting)["silent"] == ""
    started.send_signal(signal.SIGSTOP)
    picture.write_text(json.dumps({**json.loads(picture.read_text()), "heartbeat_at": "2026-01-01T00:00:00Z"}))
    assert f"process {started.pid} on" in status(waiting)["silent"]
    assert "no heartbeat for" in waiting.run("status").stdout
    home("go").touch()
    started.send_signal(signal.SIGCONT)
    started.communicate(timeout=30)
    assert started.returncode == 0 and status(waiting)["silent"] == ""


@pytest.fixture
def two(make_project: Projects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Project]]:
    name = f"card of {tmp_path.name}"
    metric = {"direction": "maximize", "query": "score", "exclusive": name}
    made = [make_project(each, manifest={"metric": metric}) for each in ("one", "other")]
    for project in made:
        project.set_moves(answer(2))
    made[0].write({"hidden/judge.sh": WAITING})
    made[0].commit()
    yield made
    for path in locks.NAMED_LOCKS_FOLDER.glob(f"goalseek-exclusive-card-of-{tmp_path.name}*"):
        path.unlink()


@pytest.mark.slow
def test_measurements_that_name_the_same_thing_wait_for_each_other_and_the_wait_is_shown(two: list[Project]) -> None:
    one, other = two
    first = one.start("iterate")
    until(lambda: home("waiting").exists())
    second = other.start("iterate")
    seen = until(lambda: status(other) if status(other)["status"] == "waiting" else None)
    assert f"process {first.pid} measures with it" in seen["next"] and seen["phase"] == "VERIFY"
    began = time.monotonic()
    time.sleep(1.0)
    assert second.poll() is None and other.iterations() == []
    home("go").touch()
    waited = time.monotonic() - began
    for started in (first, second):
        _, stderr = started.communicate(timeout=30)
        assert started.returncode == 0, stderr
    assert "waits for card of" in stderr
    assert other.iterations()[0]["seconds"]["VERIFY"] < waited, "a wait is not the verifier's time"


def test_detached_it_climbs_on_without_the_terminal_and_says_how_to_watch(waiting: Project) -> None:
    ended = waiting.run("iterate", "--forever", "--detach")
    assert ended.exit_code == 0, ended.stderr
    assert "note: candidate code can read the hidden files" in ended.stderr, "the terminal has the notes of the start"
    assert "goalseek status" in ended.stdout and "goalseek stop" in ended.stdout
    pid = int(ended.stdout.split()[1])
    assert os.getsid(pid) == pid
    named = rf"at work: process {pid} on \S+, since \d\d:\d\d; in VERIFY of iteration 0 for \d+\.\ds"
    for command in (["iterate"], ["baseline"], ["revert", "1", "--why", "not ours"]):
        refused = waiting.run(*command)
        assert refused.exit_code == 4 and re.search(named, refused.stderr), refused
    silent = waiting.run("iterate", "--no-wait")
    assert (silent.exit_code, silent.stdout, silent.stderr) == (0, "", "")
    until(lambda: waiting.state()["turn"] == "run 1, the baseline")
    log = waiting.logs / "detached.log"
    before = log.read_bytes()
    again = waiting.run("iterate", "--detach")
    assert (again.exit_code, again.stdout) == (4, "") and re.search(named, again.stderr), again
    assert len(again.stderr.splitlines()) == 2 and waiting.run("iterate", "--detach", "--no-wait").exit_code == 0
    assert log.read_bytes() == before, "what the one at work prints stays its own"
    assert f"asked process {pid} on" in waiting.run("stop").stdout
    home("go").touch()
    until(lambda: not living(home()))
    assert "goalseek stop asked for it" in log.read_text()
    assert status(waiting)["stop_reason"] == "asked"


def test_detached_it_runs_nothing_that_lies_in_the_users_folder(project: Project) -> None:
    project.set_moves(answer(2))
    for name in ("secrets.py", "statistics.py", "goalseek/__init__.py"):
        project.write({name: 'raise RuntimeError("not goalseek\'s own")\n'})
    project.commit()
    ended = project.run("iterate", "--detach")
    assert ended.exit_code == 0, ended.stderr
    until(lambda: not living(home()))
    assert [record["outcome"] for record in project.iterations()] == ["baseline", "kept"]


@pytest.mark.slow
def test_a_limit_that_is_reached_already_is_told_detached_as_attached(project: Project) -> None:
    project.set_manifest({"limits": {"iterations": 1, "stagnation_stop": "none"}})
    project.set_moves(answer(2))
    project.climb("iterate")
    attached = project.run("iterate", "--forever")
    ended = project.run("iterate", "--forever", "--detach")
    assert (ended.exit_code, attached.exit_code) == (0, 0)
    assert "limits.iterations = 1 is reached" in ended.stdout
    assert "in the background" not in ended.stdout and "has ended already" in ended.stdout
    told = json.loads(project.run("iterate", "--forever", "--detach", "--json").stdout)
    assert (told["ended"], told["stop_reason"]) == (True, "iterations")
    assert "goalseek iterate --new" in told["next"]
    project.set_manifest({"limits": {"stagnation_stop": 1}})
    project.set_moves(answer(2), answer(1))
    assert project.run("iterate").exit_code == 5
    ended = project.run("iterate", "--forever", "--detach")
    assert ended.exit_code == project.run("iterate", "--forever").exit_code == 5
    assert "limits.stagnation_stop = 1" in ended.stderr


def test_what_cannot_start_detached_says_why_with_its_own_exit_code(project: Project) -> None:
    project.set_moves(answer(2))
    subprocess.run(["git", "branch", "goalseek"], cwd=project.top, check=True, timeout=120)
    ended = project.run("iterate", "--detach")
    assert ended.exit_code == project.run("iterate").exit_code == 3
    assert ended.stderr == project.run("iterate").stderr


def test_a_nearly_full_disk_is_named_before_the_first_iteration(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.set_moves(answer(2))
    monkeypatch.setattr(disk, "LITTLE_FREE", 2**80)
    assert run(["-C", str(project.folder), "iterate", "-n", "1"]) == 0
    assert "MiB are free on the disk of" in capsys.readouterr().err
    monkeypatch.setattr(disk, "LEAST_FREE", 2**80)
    assert run(["-C", str(project.folder), "iterate", "-n", "1"]) == 3
    assert "make room: at least" in capsys.readouterr().err
    state_file = project.logs / "state.json"
    assert read_picture(state_file).stop_reason == "disk"


def test_a_wait_ends_though_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    monkeypatch.setattr(time, "time", lambda: 1e9 - (time.monotonic() - began))
    waited: list[tuple[str, float]] = []
    run = SimpleNamespace(
        ends_at=None,
        loaded=SimpleNamespace(logs=tmp_path),
        repository=SimpleNamespace(own=tmp_path),
        activity=SimpleNamespace(
            clock=Clock(),
            waiting=lambda text: contextlib.nullcontext(),
            note_wait=lambda why, seconds: waited.append((why, seconds)),
        ),
        pause=lambda seconds: time.sleep(seconds) if time.monotonic() - began < 5 else pytest.fail("it still waits"),
    )
    call: Any = SimpleNamespace(project=run, manifest=SimpleNamespace(limits=Limits()))
    assert IterationCall.wait(call, 0.2, "it is asked again")
    assert time.monotonic() - began < 5 and waited == [("it is asked again", 0.2)]


def test_a_link_in_the_place_of_a_lock_is_said_and_not_followed(tmp_path: Path) -> None:
    with locks.exclusive_lock("gpu0", contextlib.nullcontext, lambda: None, tmp_path):
        (lock,) = tmp_path.glob("goalseek-exclusive-*")
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(GoalseekError, match="cannot open the lock"),
        locks.exclusive_lock("gpu0", contextlib.nullcontext, lambda: None, tmp_path),
    ):
        pytest.fail("it was opened")
    assert not (tmp_path / "elsewhere").exists()
