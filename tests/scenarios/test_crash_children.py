"""SIGKILL right after an effect of a program that goalseek started: git's own renames, links and fsyncs.

A tracer tells of each effect as it happens; at a random one the tool's whole process group is killed, again and again,
until the climb is done.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest
from killing import assert_sound, branch, climbing, forget_picture, kill, start, told
from project import Project

EFFECTS = "rename,link,linkat,unlink,fsync,mkdir,rmdir,ftruncate,pwrite64,symlink,openat"
ITERATIONS = 10
KILLS_LEAST = 15
KILLS_MOST = 60
pytestmark = pytest.mark.usefixtures("same_dates")


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
def test_it_ends_as_if_nothing_had_been(tmp_path: Path, seed: int) -> None:
    calm = climbing(tmp_path / "undisturbed", ITERATIONS)
    calm.climb("iterate", "--forever")
    dice, kills = random.Random(seed), 0
    project = climbing(tmp_path / "killed", ITERATIONS)
    while kills < KILLS_MOST and len(project.iterations()) <= ITERATIONS:
        kills += killed_after(project, tmp_path / "trace", dice.randint(1, 30))
        forget_picture(project)
    project.climb("iterate", "--forever")
    assert kills >= KILLS_LEAST, "the climb was over before it could be killed"
    assert told(project) == told(calm) and branch(project) == branch(calm)
    assert_sound(project)
