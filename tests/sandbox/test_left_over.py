"""Programs that hide, and a tool that is killed: nothing is left when its command ends, or when somebody takes over."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, answer, home, living, until
from rooms import write_program

from goalseek.sandbox.supervisor import LOST, ProgramResult, Supervisor
from goalseek.sandbox.view import Launch

pytestmark = pytest.mark.elsewhere

HIDING = 'env -i setsid sh -c \'echo $$ > "{pid}.new"; mv "{pid}.new" "{pid}"; exec sleep 7777\' &\n'
STUBBORN = HIDING.replace("echo", 'trap "" TERM; echo', 1).replace("exec sleep 7777", "while :; do sleep 0.1; done")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def run(folder: Path, script: str, pulse: Callable[[], None] = lambda: None) -> ProgramResult:
    with Supervisor("test", folder / "lock") as programs:
        programs.pulse = pulse
        return programs.run(Launch(("sh", "-c", script), dict(os.environ), folder), timeout=20.0)


@pytest.mark.parametrize("script", [HIDING, pytest.param(STUBBORN, marks=pytest.mark.slow)])
def test_who_left_session_parents_and_environment_is_found_and_counted(tmp_path: Path, script: str) -> None:
    finished = run(tmp_path, script.format(pid=tmp_path / "pid") + f'while [ ! -e "{tmp_path}/pid" ]; do :; done')
    assert finished.exit_code == 0 and finished.killed >= 1
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_programs_that_start_others_without_end_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalseek.sandbox.supervisor.GRACE_SECONDS", 0.2)
    script = 'trap "" TERM; breed() { while :; do sleep 60 & sleep 0.01; done; }\n'
    finished = run(tmp_path, f"{script} breed & breed & breed & sleep 0.5; exit 0")
    assert finished.exit_code == 0 and finished.killed > 10


def test_one_program_after_another_and_none_inherits_anything(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w+b") as secret, Supervisor("test", tmp_path / "lock") as programs:
        os.set_inheritable(secret.fileno(), True)
        for _ in range(3):
            listing = Launch(("ls", "-l", "/proc/self/fd"), {"PATH": os.environ["PATH"]}, tmp_path)
            finished = programs.run(listing)
            names = [line.split(" -> ")[0].rsplit(" ", 1)[-1] for line in finished.stdout.decode().splitlines()[1:]]
            assert finished.exit_code == 0 and names == ["0", "1", "2", "3"], finished  # the last is that of ls itself


def test_a_program_that_kills_the_reaper_is_found_by_its_mark_and_the_next_one_runs(tmp_path: Path) -> None:
    with Supervisor("test", tmp_path / "lock") as programs:
        script = ("sh", "-c", "sleep 60 & kill -9 $PPID; wait")
        finished = programs.run(Launch(script, dict(os.environ), tmp_path), timeout=20.0)
        assert finished.exit_code == LOST and finished.killed >= 1
        assert programs.run(Launch(("true",), dict(os.environ), tmp_path)).exit_code == 0


def test_a_reaper_that_was_started_ahead_runs_programs_and_a_dead_one_is_replaced(tmp_path: Path) -> None:
    with Supervisor("test", tmp_path / "lock") as programs:
        programs.start()
        ahead = programs._reaper
        assert ahead
        assert programs.run(Launch(("true",), dict(os.environ), tmp_path)).exit_code == 0
        assert programs._reaper is ahead
        ahead.kill()
        ahead.wait(timeout=120)
        assert programs.run(Launch(("true",), dict(os.environ), tmp_path)).exit_code == 0


def test_names_that_are_no_text_reach_the_program_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"odd \xff \xc3\xa9\n")
    folder.mkdir()
    with Supervisor("test") as programs:
        odd = os.fsdecode(b"\xfe=\xc3\xa9")
        script = ("sh", "-c", 'printf "%s|%s|" "$1" "$ODD"; pwd', "sh", odd)
        finished = programs.run(Launch(script, {"PATH": os.environ["PATH"], "ODD": odd}, folder))
    assert finished.stdout == os.fsencode(f"{odd}|{odd}|{folder}\n")


def test_the_pulse_beats_while_a_program_runs(tmp_path: Path) -> None:
    beats: list[float] = []
    run(tmp_path, "sleep 0.5", lambda: beats.append(time.monotonic()))
    assert len(beats) >= 3


def test_what_a_provider_left_running_is_ended_and_in_the_record(project: Project, tmp_path: Path) -> None:
    agent = tmp_path / "agent.sh"
    agent.write_text("(setsid sleep 61 >/dev/null 2>&1 &)\nprintf '{\"score\": 2}' > answer.json; echo a title\n")
    project.set_manifest({"provider": {"name": "command", "command": ["sh", str(agent)]}})
    record = project.climb()[-1]
    assert record["outcome"] == "kept"
    assert record["notes"] == ["programs that the provider left running in APPLY_CHANGE were ended: 1"]


WAITING = """\
if [ ! -e "$HOME/go" ]; then {hiding} while [ ! -e "$HOME/pid" ]; do :; done; touch "$HOME/waiting"; sleep 60; fi
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""


def killed(project: Project, hiding: str, reaper_too: bool = False) -> int:
    """A climb whose tool was killed while its verifier had a program in hiding; gives that program's number."""
    project.write({"hidden/judge.sh": WAITING.format(hiding=hiding.format(pid=home("pid")).strip())})
    project.commit()
    project.set_moves(answer(2))
    started: subprocess.Popen[str] = project.start("iterate")
    until(lambda: home("waiting").exists())
    if reaper_too:
        reapers = [pid for pid, line in living(home("")).items() if "goalseek.sandbox.reaper" in line]
        for pid in reapers:
            os.kill(pid, signal.SIGSTOP)
    started.kill()
    started.communicate(timeout=120)
    if reaper_too:
        for pid in reapers:
            os.kill(pid, signal.SIGKILL)
    home("go").touch()
    return int(home("pid").read_text())


@pytest.mark.parametrize("hiding", [HIDING, pytest.param(STUBBORN, marks=pytest.mark.slow)])
def test_who_takes_over_from_a_killed_tool_waits_until_its_programs_have_ended(project: Project, hiding: str) -> None:
    hidden = killed(project, hiding)
    ended = project.run("iterate")
    assert ended.exit_code == 0 and not is_alive(hidden)
    assert ("ended programs" in ended.stderr) or hiding == HIDING
    assert [record["outcome"] for record in project.iterations()] == ["baseline", "kept"]


def test_where_the_reaper_was_killed_too_what_carries_the_mark_is_ended(project: Project) -> None:
    marked = HIDING.replace("env -i ", "")
    hidden = killed(project, marked, reaper_too=True)
    assert is_alive(hidden)
    ended = project.run("iterate")
    assert ended.exit_code == 0 and "ended programs of a killed run" in ended.stderr and not is_alive(hidden)


@pytest.mark.needs("bwrap")
def test_every_bubblewrap_of_a_climb_carries_the_mark_that_takeover_looks_for(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe of the sandbox is among them."""
    script = f'#!/bin/sh\nprintf "%s\\n" "$GOALSEEK_PROCESS" >> {tmp_path}/marks\nexec {shutil.which("bwrap")} "$@"\n'
    write_program(tmp_path / "bin" / "bwrap", script)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    project.set_manifest({"sandbox": {"mode": "bubblewrap"}})
    project.commit()
    project.set_moves(answer(2))
    project.climb("iterate", "--jobs", "2")
    first, *others = (tmp_path / "marks").read_text().splitlines()
    owner = project.trees().name
    assert first == f"{owner}/trusted" and len(others) >= 2
    assert [mark for mark in others if not mark.startswith(f"{owner}.")] == []
