"""Standard streams that are closed, full, read by nobody, in plain letters, or of a terminal that is gone."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import Project, Projects, answer, until
from shown import Shown, read_soon, waiting_project

from goalseek.manifest.exposure import EXPOSED

pytestmark = pytest.mark.elsewhere

GOALSEEK = (sys.executable, "-m", "goalseek")
LOOKS = ("status", "log", "show best --diff", "report -o -", "--json log", "manifest show", "direct --list")


@pytest.fixture
def climbed(played: Projects) -> Project:
    """A project that climbed one step; what it says has letters that ASCII lacks."""
    odd = {"title": "größer → 日本", "files": {"answer.json": answer(2)}}
    return played(odd, more=(answer(3), answer(4), answer(5)))


def ended_in(
    project: Project, shell: str, *commands: str, environment: dict[str, str] | None = None
) -> Iterator[tuple[str, subprocess.CompletedProcess[bytes]]]:
    """How each command ends within a line of a shell, in which ``G`` is the command line."""
    for command in commands:
        line = shell.replace("G", f'"$PYTHON" -m goalseek {command}', 1)
        given = {**os.environ, "PYTHON": sys.executable, **(environment or {})}
        yield (
            command,
            subprocess.run(["bash", "-c", line], cwd=project.folder, env=given, capture_output=True, timeout=120),
        )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.slow
def test_a_closed_stream_is_as_dev_null(climbed: Project, closed: str) -> None:
    for command, done in ended_in(climbed, f"G {closed}", "log", "report -o -", "iterate"):
        assert done.returncode == 0, (command, done.stderr)
        assert b"bug" not in done.stderr
    assert climbed.iterations()[-1]["iteration"] == 2


def test_what_is_asked_for_and_cannot_be_given_is_said(climbed: Project) -> None:
    for command, done in ended_in(climbed, "G >/dev/full", "log", "log --help", "--version", "show best --diff"):
        assert (done.returncode, done.stderr.count(b"\n")) == (3, 2), (command, done.stderr)
        assert done.stderr.startswith(b"goalseek: the disk is full: ")
    for command, done in ended_in(climbed, "G 1</dev/null", "log"):
        assert done.returncode == 3, command
        assert done.stderr.startswith(b"goalseek: standard output cannot be written: Bad file descriptor\n")


def test_a_climb_whose_lines_cannot_be_written_goes_on_later(climbed: Project) -> None:
    for _, done in ended_in(climbed, "G >/dev/full", "iterate"):
        assert done.returncode == 3, done.stderr
    state = climbed.state()
    assert (state["status"], state["stop_reason"]) == ("blocked", "disk")
    assert [record["iteration"] for record in climbed.climb("iterate")] == [0, 1, 2, 3]


@pytest.mark.slow
def test_chatter_that_nobody_can_read_changes_nothing(climbed: Project) -> None:
    for command, done in ended_in(climbed, "G 2>/dev/full", "iterate", "report"):
        assert (done.returncode, done.stderr) == (0, b""), command
        assert done.stdout
    for _, done in ended_in(climbed, "G 2> >(true)", "bogus"):
        assert done.returncode == 2


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_it_silently(climbed: Project) -> None:
    for command, done in ended_in(climbed, "set -o pipefail; G | true", *LOOKS[:-1], "log --help"):
        assert (done.returncode, done.stderr) == (141, b""), command


def test_a_climb_whose_reader_goes_away_was_interrupted_and_is_no_bug(climbed: Project) -> None:
    for _, done in ended_in(climbed, "set -o pipefail; G 2>/dev/null | true", "iterate -n 2"):
        assert done.returncode == 141
    state = climbed.state()
    assert (state["status"], state["stop_reason"]) == ("interrupted", "interrupted")
    assert [record["iteration"] for record in climbed.climb("iterate")] == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["streams", "locale"],
)
def test_where_there_are_few_letters_they_do(climbed: Project, environment: dict[str, str]) -> None:
    commands = (*LOOKS, "show best", "iterate", "doctor --quick", "report", "promote", "audit")
    for command, done in ended_in(climbed, "G", *commands, environment=environment):
        assert done.returncode == (1 if "doctor" in command else 0), (command, done.stderr)
        if command != "report -o -":  # a file, whatever the terminal
            assert done.stdout.isascii() and done.stderr.isascii(), command
        if command == "log":
            assert b"gr??er -> ??" in done.stdout
        elif command == "iterate":
            assert done.stdout.splitlines()[-1].startswith(f"score 1 -> 3 | {EXPOSED} | 2 kept of 2 | ".encode())
        elif command == "doctor --quick":
            assert b"\n+ trees " in done.stdout


def test_a_file_name_that_is_no_text_is_printed_as_it_is(climbed: Project) -> None:
    for _, done in ended_in(climbed, r"G -o $'n\xff.html'", "report", environment={"PYTHONIOENCODING": "utf-8"}):
        assert (done.returncode, done.stdout) == (0, b"n\xff.html\n"), done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_what_is_long_comes_whole_through_a_pipe_that_never_waits(climbed: Project, unbuffered: str) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    command = [*GOALSEEK, "report", "-o", "-"]
    given = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    started = subprocess.Popen(command, cwd=climbed.folder, env=given, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    time.sleep(0.5)  # while it is full
    page = b"".join(iter(lambda: read_soon(ours), b""))
    os.close(ours)
    assert started.communicate(timeout=120)[1] == b"" and started.returncode == 0
    assert page.startswith(b"<!DOCTYPE html>") and page.endswith(b"</html>\n")


def test_who_must_not_hear_a_hangup_or_an_interrupt_does_not(tmp_path: Path, go: Path) -> None:
    """As under ``nohup``, and as a job in the background of a script."""
    project = waiting_project(tmp_path / "repo", go, (2, 3, 4), climbed=1)
    line = f"trap '' HUP INT; exec {shlex.join(GOALSEEK)} iterate -n 2"
    started = subprocess.Popen(["bash", "-c", line], cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: (project.run_folder(2) / "candidate.json").exists())
    started.send_signal(signal.SIGHUP)
    started.send_signal(signal.SIGINT)
    go.touch()
    stdout, stderr = started.communicate(timeout=30)
    assert started.returncode == 0, stderr
    assert b"3 kept of 3" in stdout


@pytest.mark.slow
def test_a_climb_that_outlives_its_terminal_goes_on(tmp_path: Path, go: Path) -> None:
    project = waiting_project(tmp_path / "repo", go, (2, 3, 4), climbed=1)
    shown = Shown(project.folder, command=("bash", "-c", f"trap '' HUP; exec {shlex.join(GOALSEEK)} iterate -n 2"))
    shown.until(lambda text: "measuring" in text)
    shown.close()
    go.touch()
    assert shown.child.wait(timeout=30) == 0
    assert [record["outcome"] for record in project.iterations()] == ["baseline", "kept", "kept", "kept"]
