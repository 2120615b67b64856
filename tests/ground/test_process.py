"""Started programs: bounded in time and output, and nothing of them is left."""

import os
import shlex
import sys
import time
from pathlib import Path

import pytest

from goalseek.sandbox.supervisor import KEPT_BYTES, LEAST_BYTES, HeadAndTail, LogFile, ProgramResult, Supervisor
from goalseek.sandbox.view import Launch


def run(folder: Path, script: str, timeout: float | None = 20.0, stdin: bytes = b"") -> tuple[ProgramResult, bytes]:
    log = bytearray()
    with Supervisor("test") as programs:
        launch = Launch(("sh", "-c", script), dict(os.environ), folder)
        finished = programs.run(launch, log.extend, timeout, stdin)
    return finished, bytes(log)


@pytest.mark.elsewhere
def test_exit_codes_signals_output_and_input_come_through(tmp_path: Path) -> None:
    finished, log = run(tmp_path, "cat; echo to stderr >&2; exit 7", stdin=b"x" * 300_000)
    assert (finished.exit_code, finished.timed_out, finished.killed) == (7, False, 0)
    assert finished.stdout == b"x" * 300_000 and finished.stderr == b"to stderr\n"
    assert len(log) == 300_000 + len(b"to stderr\n")
    finished, _ = run(tmp_path, "exit 0", stdin=b"x" * 3_000_000)
    assert finished.exit_code == 0
    finished, _ = run(tmp_path, "kill -9 $$")
    assert finished.exit_code == -9


@pytest.mark.elsewhere
def test_a_limit_ends_grandchildren_that_left_the_session_and_keeps_half_a_line(tmp_path: Path) -> None:
    began = time.monotonic()
    finished, log = run(tmp_path, "printf half; setsid sleep 61 & (sleep 62 &) ; sleep 63", timeout=0.3)
    assert finished.timed_out and finished.exit_code is None and log == b"half"
    assert finished.killed >= 3
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(("takes", "timed_out"), [(0.2, False), (0.7, True)])
@pytest.mark.slow
def test_its_time_is_its_own_however_late_goalseek_looks(tmp_path: Path, takes: float, timed_out: bool) -> None:
    stopped = iter([1.2])  # goalseek does nothing for so long, as after a ^Z
    with Supervisor("test") as programs:
        programs.pulse = lambda: time.sleep(next(stopped, 0.0))
        finished = programs.run(Launch(("sleep", str(takes)), dict(os.environ), tmp_path), timeout=0.5)
    assert finished.timed_out == timed_out and finished.exit_code == (None if timed_out else 0)
    assert takes <= finished.seconds < takes + 0.3


@pytest.mark.elsewhere
def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalseek.sandbox.supervisor.GRACE_SECONDS", 0.2)
    finished, _ = run(tmp_path, "trap '' TERM; while :; do sleep 0.05; done", timeout=0.3)
    assert finished.timed_out and finished.seconds < 5


@pytest.mark.slow
def test_endless_output_is_bounded_with_its_head_and_tail(tmp_path: Path) -> None:
    script = "import sys\nfor _ in range(400): sys.stdout.write('x' * 50_000 + '\\n')\nprint('the end')"
    (tmp_path / "loud.py").write_text("print('the start')\n" + script)
    finished, _ = run(tmp_path, f"{shlex.quote(sys.executable)} loud.py")
    assert len(finished.stdout) < 5 * 2**20
    assert finished.stdout.startswith(b"the start") and finished.stdout.endswith(b"the end\n")
    assert b"bytes left out" in finished.stdout


def test_a_program_that_cannot_start_is_an_error_of_the_caller(tmp_path: Path) -> None:
    with Supervisor("test") as programs, pytest.raises(FileNotFoundError, match="gone"):
        programs.run(Launch((str(tmp_path / "gone"),), {}, tmp_path))


def test_head_and_tail_together_are_never_more_than_asked_for() -> None:
    kept = HeadAndTail(100)
    for number in range(1000):
        kept.write(b"%03d" % number)
    content = kept.content()
    assert content.startswith(b"000001") and content.endswith(b"998999") and len(content) < 250


def test_no_program_is_charged_with_the_start_of_the_reaper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "slow_python"
    slow.write_text(f'#!/bin/sh\nsleep 0.7\nexec {shlex.quote(sys.executable)} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    began = time.monotonic()
    finished, _ = run(tmp_path, "exit 0")
    assert time.monotonic() - began > 0.7
    assert (finished.exit_code, finished.seconds < 0.5) == (0, True)


def test_the_runs_of_an_iteration_share_one_log_that_says_where_each_was_cut(tmp_path: Path) -> None:
    path, runs = tmp_path / "verifier.log", 14
    for number in range(runs):
        with LogFile(path) as log:
            for chunk in (b"[run %d begins]\n" % number, *[b"x" * 2**16] * 128, b"\n[run %d is over]\n" % number):
                log.write(chunk)
    content = path.read_bytes()
    assert KEPT_BYTES // 2 < len(content) <= KEPT_BYTES + runs * LEAST_BYTES
    assert all(b"[run %d begins]" % number in content for number in range(runs))
    assert all(b"[run %d is over]" % number in content for number in range(runs))
    assert content.count(b" bytes left out ...]") == runs
