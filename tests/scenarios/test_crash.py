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
import taking_back
from killing import assert_same, assert_sound, forget_picture
from project import Project, answer
from taking_back import part

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


def traced(project: Project, *options: str, command: tuple[str, ...] = ("iterate", "--forever")) -> int:
    strace = ["strace", "-q", *options, "-e", f"trace={EFFECTS}", "-e", "signal=none"]
    done = subprocess.run(
        [*strace, sys.executable, "-m", "goalseek", *command],
        cwd=project.folder,
        capture_output=True,
        timeout=120,
    )
    return done.returncode


def effects(tmp_path: Path) -> list[tuple[str, int]]:
    """Each effect of an undisturbed climb: the system call, and how many of its kind came before, itself included."""
    trace = tmp_path / "trace"
    assert traced(crashing(tmp_path, "traced"), "-o", str(trace)) == 0
    return effects_in(trace)


def effects_in(trace: Path) -> list[tuple[str, int]]:
    """Those that a trace has."""
    counts: dict[str, int] = {}
    found = []
    for line in trace.read_text(errors="replace").splitlines():
        call = re.match(r"(\w+)\(", line)
        if not call:
            continue
        counts[call[1]] = counts.get(call[1], 0) + 1
        if line.endswith("= 0"):
            found.append((call[1], counts[call[1]]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.needs("strace")
def test_killed_before_any_effect_the_same_command_ends_as_if_nothing_had_been(tmp_path: Path, block: int) -> None:
    undisturbed = crashing(tmp_path, "undisturbed")
    undisturbed.climb("iterate", "--forever")
    every, kills = effects(tmp_path), 0
    chosen = every[block::BLOCKS]
    assert len(every) > 100
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


def copied(project: Project, folder: Path) -> Project:
    folder.mkdir()
    return project.copy(folder / "repository")


@pytest.mark.slow
@pytest.mark.needs("strace")
@pytest.mark.parametrize("then", ["revert", "iterate"])
def test_a_revert_killed_before_any_effect_is_made_once_by_the_same_command_or_dropped(
    tmp_path: Path, then: str
) -> None:
    """A third of the effects is for the same command, another for ``iterate``, after which it is made."""
    moves = part("a", 2), part("b", 3), part("c", 5)
    before = taking_back.climb(tmp_path / "before", *moves)
    before.set_moves(*moves, part("b", 9))
    revert = ("revert", "1", "--why", "not ours")
    undisturbed = copied(before, tmp_path / "undisturbed")
    assert traced(undisturbed, "-o", str(tmp_path / "trace"), command=revert) == 0
    chosen = effects_in(tmp_path / "trace")[then == "iterate" :: 3]
    kills = dropped = 0
    for call, place in chosen:
        project = copied(before, tmp_path / f"{call}-{place}")
        inject = f"inject={call}:signal=SIGKILL:when={place}"
        kills += traced(project, "-o", os.devnull, "-e", inject, command=revert) != 0
        forget_picture(project)
        has_landed = False
        if then == "iterate":
            record = project.climb("iterate")[-1]
            has_landed = len(project.iterations()) == 6
            assert (record["outcome"], record["metric"]["value"]) == ("kept", 15 if has_landed else 16)
            dropped += not has_landed
        ended = project.run(*revert)
        has_landed |= ended.exit_code == 2 and "taken back already" in ended.stderr
        assert ended.exit_code == (2 if has_landed else 0), ended
        assert [record["taken_back"] for record in project.iterations() if "taken_back" in record] == [1]
        assert_sound(project)
        if then == "revert":
            assert_same(project, undisturbed)
        shutil.rmtree(project.top.parent)
    assert kills > len(chosen) / 2 and (then == "revert" or 0 < dropped < len(chosen))
