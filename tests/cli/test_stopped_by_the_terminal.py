"""^Z, ``fg`` and ``bg`` of a shell: nothing of the panel is left behind, and the terminal is the shell's meanwhile."""

import shlex
import sys
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


def leave(shown: Shown) -> list[str]:
    shown.type("exit\n")
    return shown.until_end()


def test_it_stops_without_a_trace_and_is_drawn_anew(slow: Project, go: Path) -> None:
    with Shown(slow.folder, command=BASH, environment=QUIET) as shown:
        shown.until(is_prompt)
        shown.type(f"{GOALSEEK} iterate -n 2\n")
        shown.until(has_panel)
        for _ in range(2):
            shown.type("\x1a")
            rows = shown.until(lambda text: is_prompt(text) and "Stopped" in text)
            assert not any("──" in row or "measuring" in row for row in rows), rows
            assert shown.echoes()
            assert not shown.screen.cursor.hidden
            shown.type("echo he''re; clear\n")
            shown.until(lambda text: text == "$")
            shown.type("fg\n")
            rows = shown.until(has_panel)
            assert panels(rows) == 1
            assert not shown.echoes()
            assert shown.screen.cursor.hidden
        go.touch()
        rows = shown.until(lambda text: is_prompt(text) and "promote" in text)
        assert panels(rows) == 0
        assert [row.split()[:2] for row in rows if row[:4].strip().isdigit()] == [["2", "kept"], ["3", "kept"]]
        assert shown.echoes()
        leave(shown)


def test_in_the_background_there_are_lines_and_in_front_the_panel_again(slow: Project, go: Path) -> None:
    with Shown(slow.folder, command=BASH, environment=QUIET) as shown:
        shown.until(is_prompt)
        shown.type(f"{GOALSEEK} iterate -n 3\n")
        shown.until(has_panel)
        shown.type("\x1a")
        shown.until(lambda text: is_prompt(text) and "Stopped" in text)
        shown.type("bg\n")
        go.touch()
        shown.until(lambda text: "   2  kept" in text)
        go.unlink()
        shown.read(0.7)
        assert panels(shown.rows()) == 0
        assert shown.echoes()
        shown.type("fg\n")
        rows = shown.until(has_panel)
        assert panels(rows) == 1
        go.touch()
        rows = shown.until(lambda text: is_prompt(text) and "promote" in text)
        assert panels(rows) == 0
        assert shown.echoes()
        leave(shown)


def test_started_in_the_background_it_draws_nothing_over_the_shell(slow: Project, go: Path) -> None:
    go.touch()
    with Shown(slow.folder, command=BASH, environment=QUIET) as shown:
        shown.until(is_prompt)
        shown.type(f"{GOALSEEK} iterate -n 2 & echo typed\n")
        rows = shown.until(lambda text: "goalseek promote" in text)
        assert panels(rows) == 0
        assert "typed" in rows
        assert "──".encode() not in shown.raw
        assert shown.echoes()
        shown.type("wait\n")
        leave(shown)


def test_who_watches_can_be_stopped_too(slow: Project, go: Path) -> None:
    climbing = slow.start("-q", "iterate")
    with Shown(slow.folder, command=BASH, environment=QUIET) as shown:
        shown.until(is_prompt)
        shown.type(f"{GOALSEEK} status --watch\n")
        shown.until(has_panel)
        shown.type("\x1a")
        rows = shown.until(lambda text: is_prompt(text) and "Stopped" in text)
        assert panels(rows) == 0
        assert shown.echoes()
        shown.type("fg\n")
        rows = shown.until(has_panel)
        assert panels(rows) == 1
        shown.type("q")  # a key alone, without a line's end
        rows = shown.until(is_prompt)
        assert panels(rows) == 0
        assert shown.echoes()
        leave(shown)
    go.touch()
    climbing.communicate(timeout=30)
