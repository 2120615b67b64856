"""^Z, ``fg`` and ``bg`` of a shell: nothing of the panel is left behind, and the terminal is the shell's meanwhile."""

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from project import Project
from shown import Shown, waiting_project

pytestmark = pytest.mark.slow

BASH = ("bash", "--norc", "--noprofile", "--noediting", "-i")
QUIET = {"PS1": "$ ", "HISTFILE": ""}
GOALSEEK = f"{shlex.quote(sys.executable)} -m goalseek"


@pytest.fixture
def slow(tmp_path: Path, go: Path) -> Project:
    """A project whose measurements wait for ``go``; it climbed one step."""
    return waiting_project(tmp_path / "repo", go, (2, 3, 4, 5), climbed=1)


def panels(rows: list[str]) -> int:
    return len([row for row in rows if row.startswith("── ")])


def has_panel(text: str) -> bool:
    return "measuring" in text and text.splitlines()[-1].startswith("  prints")


def is_prompt(text: str) -> bool:
    return text.splitlines()[-1:] == ["$"]


@pytest.fixture
def shell(slow: Project) -> Iterator[Shown]:
    """An interactive shell at the project, which ends by itself when the test has ended."""
    with Shown(slow.folder, command=BASH, environment=QUIET) as shown:
        shown.until(is_prompt)
        yield shown
        shown.type("exit\n")
        shown.until_end()


def bring_to_front(shown: Shown, command: str) -> None:
    """Runs a command until it shows one panel, and has the terminal."""
    shown.type(f"{command}\n")
    assert panels(shown.until(has_panel)) == 1
    assert not shown.echoes() and shown.screen.cursor.hidden


def stop(shown: Shown) -> None:
    shown.type("\x1a")
    rows = shown.until(lambda text: is_prompt(text) and "Stopped" in text)
    assert not any("──" in row or "measuring" in row for row in rows), rows
    assert shown.echoes() and not shown.screen.cursor.hidden


def assert_left(shown: Shown, holds: Callable[[str], bool]) -> list[str]:
    """Nothing of the panel is left, and the terminal is the shell's."""
    rows = shown.until(holds)
    assert panels(rows) == 0 and shown.echoes()
    return rows


def is_over(text: str) -> bool:
    return is_prompt(text) and "promote" in text


def test_it_stops_without_a_trace_and_is_drawn_anew(shell: Shown, go: Path) -> None:
    bring_to_front(shell, f"{GOALSEEK} iterate -n 2")
    for _ in range(2):
        stop(shell)
        shell.type("echo he''re; clear\n")
        shell.until(lambda text: text == "$")
        bring_to_front(shell, "fg")
    go.touch()
    rows = assert_left(shell, is_over)
    assert [row.split()[:2] for row in rows if row[:4].strip().isdigit()] == [["2", "kept"], ["3", "kept"]]


def test_in_the_background_there_are_lines_and_in_front_the_panel_again(shell: Shown, go: Path) -> None:
    bring_to_front(shell, f"{GOALSEEK} iterate -n 3")
    stop(shell)
    shell.type("bg\n")
    go.touch()
    shell.until(lambda text: "   2  kept" in text)
    go.unlink()
    shell.read(0.7)
    assert_left(shell, lambda text: True)
    bring_to_front(shell, "fg")
    go.touch()
    assert_left(shell, is_over)


def test_started_in_the_background_it_draws_nothing_over_the_shell(shell: Shown, go: Path) -> None:
    go.touch()
    shell.type(f"{GOALSEEK} iterate -n 2 & echo typed\n")
    rows = assert_left(shell, lambda text: "goalseek promote" in text)
    assert "typed" in rows and "──".encode() not in shell.raw
    shell.type("wait\n")


def test_who_watches_can_be_stopped_too(slow: Project, shell: Shown, go: Path) -> None:
    climbing = slow.start("-q", "iterate")
    bring_to_front(shell, f"{GOALSEEK} status --watch")
    stop(shell)
    bring_to_front(shell, "fg")
    shell.type("q")  # a key alone, without a line's end
    assert_left(shell, is_prompt)
    go.touch()
    climbing.communicate(timeout=30)
