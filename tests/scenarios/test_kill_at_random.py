"""SIGKILL at random instants, again and again, of one and the same climb until it is done.

The instants are seeded, and spread over what this machine needs: a start, and a few iterations after it. The tool is
killed, its process group, everything of this home, or a git alone; or a tracer tells of each effect of the programs
that goalseek started, and after a random one the group is killed.
"""

import contextlib
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from killing import assert_same, assert_sound, climbing, forget_picture, kill, start
from project import Project, home, living

ITERATIONS = 16
KILLS_LEAST = 8
KILLS_MOST = 60
FEW = 10
WAYS = ("tool", "group", "everything", "git", "effect")
EFFECTS = "rename,link,linkat,unlink,fsync,mkdir,rmdir,ftruncate,pwrite64,symlink,openat"
AT_A_TIME = 2.0
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("same_dates")]


@pytest.mark.needs("strace")
def test_it_ends_as_if_nothing_had_been(tmp_path: Path, ways: Sequence[str] = WAYS, seed: int = 0) -> None:
    """benchmarks/kills.py has the other seeds."""
    calm = climbing(tmp_path / "undisturbed", ITERATIONS)
    began = time.monotonic()
    calm.climb("iterate", "--forever")
    ended = time.monotonic()
    calm.climb("iterate", "--forever")  # its limit is reached: this is what a start costs
    opening = time.monotonic() - ended
    each = max(ended - began - opening, 0.0) / (ITERATIONS + 1)
    assert len(calm.iterations()) == ITERATIONS + 1

    project = climbing(tmp_path / "killed", ITERATIONS)
    users, dice, done, pace = project.users(), random.Random(f"{ways} {seed}"), 0, 1.0
    kills: Counter[str] = Counter()
    while kills.total() < KILLS_MOST and done <= ITERATIONS:
        way = dice.choice(ways)
        seconds = pace * dice.uniform(0.3 * opening, opening + AT_A_TIME * each)
        if way == "git":
            kills[way] += kill_child(project, seconds, dice, lambda command: command.startswith("git "))
        elif way == "effect":
            kills[way] += killed_after(project, tmp_path / "trace", dice.randint(1, 30))
        else:
            started = start(project, "iterate", "--forever")
            time.sleep(seconds)
            kills[way] += kill(started, way)
        forget_picture(project)
        before, done = done, len(project.iterations())
        pace *= 0.7 if done - before > AT_A_TIME else 1.05 if done == before else 1.0  # the load of a machine changes
    project.climb("iterate", "--forever")
    assert kills.total() >= KILLS_LEAST, "the climb was over before it could be killed"
    assert_same(project, calm)
    assert project.users() == users
    assert_sound(project)


def test_an_agent_or_a_verifier_that_is_killed_costs_its_own_iteration_at_most(tmp_path: Path) -> None:
    dice, kills = random.Random("programs"), 0
    project = climbing(tmp_path / "killed", FEW)
    for script in (home() / "agent.sh", project.folder / "hidden" / "judge.sh"):
        script.write_text("sleep 0.1\n" + script.read_text())
    project.commit("slower")
    project.climb()
    while kills < KILLS_MOST and len(project.iterations()) <= FEW:
        script = ("agent.sh", "judge.sh")[kills % 2]
        kills += kill_child(project, dice.uniform(0, 0.05), dice, lambda command, script=script: script in command)
    assert kills >= 4, "no program was killed"
    records = project.climb("iterate", "--forever")
    assert len(records) == FEW + 1
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
