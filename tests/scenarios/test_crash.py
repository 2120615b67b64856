"""SIGKILL at every effect: a tracer outside finds them in an undisturbed run, and kills before each one in turn.

What is compared is what a person has in the end: the same records but for times, names of runs, hashes and seals, and
the same trees on the branch.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from killing import assert_same, forget_picture
from project import Project, answer

EFFECTS = "rename,link,unlink,fsync,mkdir,rmdir,truncate,ftruncate,pwrite64,symlink"
BLOCKS = 12
ITERATIONS = 3
pytestmark = pytest.mark.usefixtures("same_dates")


def crashing(tmp_path: Path, name: str) -> Project:
    """A climb with a keep, a revert and a proposal outside the scope; it ends at its own limit."""
    provider = {"name": "scripted", "script": "../moves.toml"}
    project = Project.make(tmp_path / name, manifest={"limits": {"iterations": ITERATIONS}, "provider": provider})
    project.script = tmp_path / "moves.toml"
    project.set_moves(answer(2), answer(0), {"files": {"other.txt": "mine\n"}})
    return project


def traced(project: Project, *options: str) -> int:
    command = ["strace", "-q", *options, "-e", f"trace={EFFECTS}", "-e", "signal=none"]
    done = subprocess.run(
        [*command, sys.executable, "-m", "goalseek", "iterate", "--forever"],
        cwd=project.folder,
        capture_output=True,
        timeout=120,
    )
    return done.returncode


def effects(tmp_path: Path) -> list[tuple[str, int]]:
    """Each effect of an undisturbed climb: the system call, and how many of its kind came before, itself included."""
    trace = tmp_path / "trace"
    assert traced(crashing(tmp_path, "traced"), "-o", str(trace)) == 0
    counts: dict[str, int] = {}
    found = []
    for line in trace.read_text(errors="replace").splitlines():
        call = re.match(r"(\w+)\(", line)
        if not call:
            continue
        counts[call[1]] = counts.get(call[1], 0) + 1
        if line.endswith("= 0"):
            found.append((call[1], counts[call[1]]))
    assert len(found) > 100
    return found


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.needs("strace")
def test_killed_before_any_effect_the_same_command_ends_as_if_nothing_had_been(tmp_path: Path, block: int) -> None:
    undisturbed = crashing(tmp_path, "undisturbed")
    undisturbed.climb("iterate", "--forever")
    chosen, kills = effects(tmp_path)[block::BLOCKS], 0
    for call, place in chosen:
        project = crashing(tmp_path, f"{call}-{place}")
        killed = traced(project, "-o", os.devnull, "-e", f"inject={call}:signal=SIGKILL:when={place}")
        assert killed in (0, 128 + signal.SIGKILL, -signal.SIGKILL)
        kills += killed != 0
        forget_picture(project)
        project.check("iterate", "--forever")
        assert_same(project, undisturbed)
        shutil.rmtree(project.top)
    assert kills > len(chosen) / 2, "the tracer did not kill"
