"""SIGKILL at random instants, again and again, of one and the same climb until it is done.

The instants are seeded, and spread over what this machine needs: a start, and a few iterations after it; or a tracer
tells of each rename, link and fsync of the programs that goalseek started, and at a random one the group is killed.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from killing import assert_same, assert_sound, climbing, forget_picture, kill, start
from project import Project, home, living

ITERATIONS = 30
KILLS_LEAST = 12
KILLS_MOST = 60
FEWER, FEWEST = 16, 10
EFFECTS = "rename,link,linkat,unlink,fsync,mkdir,rmdir,ftruncate,pwrite64,symlink,openat"
AT_A_TIME = 2.0
pytestmark = pytest.mark.usefixtures("same_dates")


def undisturbed(tmp_path: Path, iterations: int = ITERATIONS) -> tuple[Project, Callable[[random.Random], float]]:
    """A climb to its end, and what draws the seconds after which the next one is killed."""
    project = climbing(tmp_path / "undisturbed", iterations)
    began = time.monotonic()
    project.climb("iterate", "--forever")
    ended = time.monotonic()
    project.climb("iterate", "--forever")  # its limit is reached: this is what a start costs
    opening = time.monotonic() - ended
    each = max(ended - began - opening, 0.0) / (iterations + 1)
    assert len(project.iterations()) == iterations + 1
    return project, lambda dice: dice.uniform(0.3 * opening, opening + AT_A_TIME * each)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1))  # benchmarks/kills.py has the others
@pytest.mark.parametrize("target", ["tool", "group", "everything"])
def test_it_ends_as_if_nothing_had_been(tmp_path: Path, target: str, seed: int) -> None:
    calm, draw = undisturbed(tmp_path)
    dice, kills = random.Random(f"{target} {seed}"), 0
    project = climbing(tmp_path / "killed", ITERATIONS)
    users, done, pace = project.users(), 0, 1.0
    while kills < KILLS_MOST and done <= ITERATIONS:
        started = start(project, "iterate", "--forever")
        time.sleep(pace * draw(dice))
        kills += kill(started, target)
        forget_picture(project)
        before, done = done, len(project.iterations())
        pace *= 0.7 if done - before > AT_A_TIME else 1.05 if done == before else 1.0  # the load of a machine changes
    project.climb("iterate", "--forever")
    assert kills >= KILLS_LEAST, "the climb was over before it could be killed"
    assert_same(project, calm)
    assert project.users() == users
    assert_sound(project)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_git_that_is_killed_changes_nothing_of_what_comes_out(tmp_path: Path, seed: int) -> None:
    calm, draw = undisturbed(tmp_path, FEWER)
    dice, kills = random.Random(seed), 0
    project = climbing(tmp_path / "killed", FEWER)
    while kills < KILLS_MOST and len(project.iterations()) <= FEWER:
        kills += kill_child(project, draw(dice), dice, lambda command: command.startswith("git "))
        forget_picture(project)
    project.climb("iterate", "--forever")
    assert kills >= FEWER / 2, "no git was killed"
    assert_same(project, calm)
    assert_sound(project)


@pytest.mark.slow
def test_an_agent_or_a_verifier_that_is_killed_costs_its_own_iteration_at_most(tmp_path: Path) -> None:
    dice, kills = random.Random("programs"), 0
    project = climbing(tmp_path / "killed", FEWER)
    for script in (home() / "agent.sh", project.folder / "hidden" / "judge.sh"):
        script.write_text("sleep 0.1\n" + script.read_text())
    project.commit("slower")
    project.climb()
    while kills < KILLS_MOST and len(project.iterations()) <= FEWER:
        script = ("agent.sh", "judge.sh")[kills % 2]
        kills += kill_child(project, dice.uniform(0, 0.05), dice, lambda command, script=script: script in command)
    assert kills >= 4, "no program was killed"
    records = project.climb("iterate", "--forever")
    assert len(records) == FEWER + 1
    assert {"provider_failed", "verify_failed"} <= {record["reason"] for record in records}
    assert_sound(project)


def kill_child(project: Project, seconds: float, dice: random.Random, wanted: Callable[[str], bool]) -> bool:
    """Kills one of the programs that the tool has at work then, or next, and lets it end; whether there was one."""
    started = start(project, "iterate", "-n", "1")
    time.sleep(seconds)
    found: list[int] = []
    deadline = time.monotonic() + 60
    while not found and started.poll() is None:
        assert time.monotonic() < deadline
        found = [pid for pid, command in living(home()).items() if pid != started.pid and wanted(command)]
    chosen = dice.choice(sorted(found)) if found else 0
    if chosen:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chosen, signal.SIGKILL)
    _, stderr = started.communicate(timeout=60)
    assert started.returncode >= 0, (started.returncode, stderr)
    return bool(chosen)


def killed_after(project: Project, told_of: Path, effects: int) -> bool:
    """Climbs, and is killed after so many effects of its children; whether there were that many."""
    told_of.unlink(missing_ok=True)
    os.mkfifo(told_of)
    trace = ("strace", "-f", "-q", "-o", str(told_of), "-e", f"trace={EFFECTS}", "-e", "signal=none")
    started = start(project, "iterate", "--forever", before=trace)
    tool = ""
    with told_of.open(errors="replace") as lines:
        for line in lines:
            call = re.match(r"(\d+) +(\w+)\(", line)
            if not call:
                continue
            tool = tool or call[1]
            is_effect = call[2] != "openat" or "O_CREAT" in line
            effects -= call[1] != tool and is_effect
            if effects <= 0:
                break
        was_killed = kill(started, "group")
        for _ in lines:  # the tracer's last words
            pass
    return was_killed and effects <= 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.needs("strace")
def test_killed_after_an_effect_of_a_child_it_ends_as_if_nothing_had_been(tmp_path: Path, seed: int) -> None:
    calm, _ = undisturbed(tmp_path, FEWEST)
    dice, kills = random.Random(seed), 0
    project = climbing(tmp_path / "killed", FEWEST)
    while kills < KILLS_MOST and len(project.iterations()) <= FEWEST:
        kills += killed_after(project, tmp_path / "trace", dice.randint(1, 30))
        forget_picture(project)
    project.climb("iterate", "--forever")
    assert kills >= 15, "the climb was over before it could be killed"
    assert_same(project, calm)
    assert_sound(project)
