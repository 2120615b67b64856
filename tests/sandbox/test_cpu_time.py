"""The processor time of a command, taken by its reaper: with its children, and with those that nobody waits for."""

import os
import shlex
import sys
from pathlib import Path

import pytest
from msgspec import structs
from rooms import Room

from goalseek.sandbox.supervisor import ProgramResult, Supervisor
from goalseek.sandbox.view import Launch

SPIN = "import time\nwhile time.process_time() < 0.3: pass"
SPINNING = f"{shlex.quote(sys.executable)} -S -c {shlex.quote(SPIN)}"
IGNORING = f"""\
import signal, subprocess, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-S", "-c", {SPIN!r}])
time.sleep(1.0)
"""
IN_CAGE = pytest.param(True, marks=[pytest.mark.needs("bwrap"), pytest.mark.slow])


def run(folder: Path, script: str, in_cage: bool, watches_cpu: bool = True) -> ProgramResult:
    words = ("sh", "-c", script)
    launch = Room.make(folder).ready("bubblewrap", *words) if in_cage else Launch(words, dict(os.environ), folder)
    with Supervisor("test") as programs:
        return programs.run(structs.replace(launch, watches_cpu=watches_cpu), timeout=20.0)


@pytest.mark.parametrize("in_cage", [False, IN_CAGE])
def test_children_count_and_sleep_does_not(tmp_path: Path, in_cage: bool) -> None:
    finished = run(tmp_path, f"{SPINNING} & {SPINNING}; wait; sleep 0.5", in_cage, watches_cpu=False)
    assert finished.exit_code == 0
    assert 0.6 <= finished.cpu_seconds < 0.9


@pytest.mark.parametrize("in_cage", [False, IN_CAGE])
@pytest.mark.parametrize(
    "script",
    [
        f"{shlex.quote(sys.executable)} -S -c {shlex.quote(IGNORING)}",
        f"(setsid sh -c {shlex.quote(SPINNING + '; sleep 30')} >/dev/null 2>&1 &); sleep 1.0",
    ],
    ids=["its parent ignores its end", "it outlives the command"],
)
def test_time_that_nobody_waits_for_is_seen_while_it_is_spent(tmp_path: Path, script: str, in_cage: bool) -> None:
    finished = run(tmp_path, script, in_cage)
    assert finished.exit_code == 0
    assert 0.12 < finished.cpu_seconds < 0.6


def test_each_program_has_a_time_of_its_own(tmp_path: Path) -> None:
    with Supervisor("test") as programs:
        times = [
            programs.run(Launch(("sh", "-c", script), dict(os.environ), tmp_path), timeout=20.0).cpu_seconds
            for script in (SPINNING, "true")
        ]
    assert times[0] >= 0.3 and times[1] < 0.1
