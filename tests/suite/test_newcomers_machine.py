"""The suite itself: what it says where programs are missing, what it forbids, and what it leaves when it is cut."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from project import living, until

TESTS = Path(__file__).parents[1]
IN_THE_SANDBOX = ("fake_agents.py",)  # a program that goalseek starts, and gives an end
NEEDY = """\
import pytest

@pytest.mark.needs("bwrap", "zsh")
def test_both(): pass

@pytest.mark.needs("bwrap")
def test_one(): pass

@pytest.mark.needs("root")
def test_of_root(): pass

def test_none(): pass
"""
SLOW = """\
import os, pathlib, signal, subprocess, time

def test_long():
    {first}
    started = subprocess.Popen(["sleep", "601"], stdout=subprocess.PIPE)
    pathlib.Path({there!r}).write_text(str(os.getpid()))
    time.sleep(60)

def test_other():
    import gc
    gc.collect()
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder of tests with this suite's own conftest."""
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\nfilterwarnings = error\n")
    (folder / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    return folder


def start(suite: Path, *options: str, path: str | None = None) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(TESTS / "support"), "PATH": path or os.environ["PATH"]}
    words = [sys.executable, "-m", "pytest", "-q", "--basetemp", str(suite.parent / "temporary"), *options]
    return subprocess.Popen(
        words, cwd=suite, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that has zsh."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "zsh").symlink_to("/bin/true")
    return folder


WAITS = {"run", "check_call", "check_output", "communicate", "wait"}


def test_every_wait_for_a_program_has_an_end() -> None:
    endless = []
    for path in [*TESTS.rglob("test_*.py"), *TESTS.glob("support/*.py"), TESTS / "conftest.py"]:
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            name, is_subprocess = call.func.attr, ast.unparse(call.func.value) == "subprocess"
            if name not in WAITS or not (is_subprocess or name in ("communicate", "wait")):
                continue
            named = {keyword.arg for keyword in call.keywords}
            if not call.args[name != "wait" :] and not named & {"timeout", None}:
                endless.append(f"{path.name}:{call.lineno}: give it timeout=120")
    assert not [place for place in endless if not place.startswith(IN_THE_SANDBOX)]


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_what_is_missing_is_said_at_the_end_with_the_line_that_installs_it(
    suite: Path, programs: Path, options: tuple[str, ...]
) -> None:
    (suite / "test_needy.py").write_text(NEEDY)
    running = start(suite, *options, path=str(programs))
    *_, missing, line, counts = running.communicate(timeout=120)[0].splitlines()
    assert missing == "there is no bwrap: 2 tests skipped"
    assert line == "to run them too: apt-get install bubblewrap"
    assert counts.startswith("2 passed, 2 skipped" if os.geteuid() == 0 else "1 passed, 3 skipped")
    assert running.returncode == 0


@pytest.mark.slow
def test_one_that_does_not_work_is_missing_too_and_where_nothing_may_be_a_skip_fails(
    suite: Path, programs: Path
) -> None:
    (suite / "test_needy.py").write_text(NEEDY + "\ndef test_by_hand(): pytest.skip('for no reason')\n")
    (programs / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    (programs / "bwrap").chmod(0o755)
    running = start(suite, "--no-skips", path=f"{programs}:{os.environ['PATH']}")
    said = running.communicate(timeout=120)[0]
    assert running.returncode == 1
    assert "--no-skips: Skipped: bwrap does not work here: bwrap: No permissions to create new namespace" in said
    assert "--no-skips: Skipped: for no reason" in said
    passed = "2 passed" if os.geteuid() == 0 else "1 passed, 1 skipped"
    assert f"1 failed, {passed}, 2 errors" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cut", "first"),
    [
        (signal.SIGKILL, "pass"),
        (signal.SIGINT, "pass"),
        (signal.SIGINT, "signal.signal(signal.SIGINT, signal.SIG_IGN)"),
    ],
    ids=["killed", "interrupted", "deaf"],
)
def test_a_test_that_is_cut_leaves_nothing_and_harms_no_other(suite: Path, cut: signal.Signals, first: str) -> None:
    there = suite.parent / "there"
    (suite / "test_slow.py").write_text(SLOW.format(there=str(there), first=first))
    running = start(suite, "-n", "1")
    pid = int(until(lambda: there.exists() and there.read_text()))
    os.kill(pid if cut == signal.SIGKILL else running.pid, cut)
    said = running.communicate(timeout=60)[0]
    assert not living(suite.parent / "temporary"), said
    assert (", 1 passed" in said) == (cut == signal.SIGKILL), said
    assert running.returncode == (1 if cut == signal.SIGKILL else 2), said


@pytest.mark.slow
def test_a_test_that_hangs_is_ended_and_what_it_started_too(suite: Path) -> None:
    there = suite.parent / "there"
    (suite / "test_slow.py").write_text(SLOW.format(there=str(there), first="pass"))
    running = start(suite, "--timeout", "1")
    said = running.communicate(timeout=60)[0]
    assert "Timeout (>1.0s) from pytest-timeout" in said and "1 failed, 1 passed, 1 error" in said
    assert not living(suite.parent / "temporary")
