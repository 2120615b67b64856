"""``status --watch``: the same panel from another terminal, and with ``--output`` what the child prints."""

import json
from pathlib import Path
from threading import Timer

import pytest
from project import Project, until
from shown import Shown, waiting_project

from goalseek.cli import watch
from goalseek.cli.options import Options
from goalseek.manifest.loading import load
from goalseek.project import status
from goalseek.project.activity import MAX_OUTPUT, Observer, Observers, OutputLog
from goalseek.project.picture import read_picture
from goalseek.values import Stop
from goalseek.workspace import answers

pytestmark = pytest.mark.slow


@pytest.fixture
def slow(tmp_path: Path, go: Path) -> Project:
    """A project whose measurements print and then wait for ``go``; it climbed one step."""
    printed = r"first\n\033[2J\033]0;title\007second\n"
    limits = {"iterations": 40, "time": "1h"}
    return waiting_project(tmp_path / "repo", go, (2, 3, 4), climbed=1, prints=printed, limits=limits)


def wait_until_measuring(project: Project) -> None:
    state = project.logs / "state.json"
    until(lambda: read_picture(state).phase == "VERIFY")


@pytest.mark.parametrize("columns", [60, 200])
def test_another_terminal_shows_the_panel_and_q_leaves(slow: Project, go: Path, columns: int) -> None:
    climbing = slow.start("-q", "iterate", "-n", "2")
    with Shown(slow.folder, "status", "--watch", columns=columns) as shown:
        rows = shown.until(lambda text: "run 1, the candidate" in text and "prints      second" in text)
        assert rows[0].startswith("── demo · iteration 2 ──") and "measuring" in rows[1]
        assert len(rows[0]) == min(columns - 1, 100)
        assert any(row.startswith("  best        2 score, baseline 1, +1   ▁█") for row in rows)
        assert any(row.startswith("  iterations  ━") and row.endswith("1 of 40") for row in rows)
        go.touch()
        ended = "  ended       finished as asked; the same command goes on"
        rows = shown.until(lambda text: ended in text and "\n   3  kept" in text)
        assert [row.split()[:2] for row in rows if row[:4].strip().isdigit()] == [["2", "kept"], ["3", "kept"]]
        shown.type("q")
        rows = shown.until_end()
        assert shown.child.returncode == 0
        assert shown.echoes()
        assert not shown.screen.cursor.hidden
        assert not any(row.startswith("── ") for row in rows)
        assert b"\x1b[2J" not in shown.raw and b"title" not in shown.raw
    climbing.communicate(timeout=30)


def test_with_output_the_childs_lines_stay_above_the_panel(slow: Project, go: Path) -> None:
    climbing = slow.start("-q", "iterate")
    with Shown(slow.folder, "status", "--watch", "--output") as shown:
        shown.until(lambda text: "[VERIFY of iteration 2]\nfirst\nsecond\n── demo" in text)
        seen = len(shown.raw)
        shown.until(lambda _: b"demo" in shown.raw[seen:])  # ^C amid a print may repeat its last line
        shown.type("\x03")
        rows = shown.until_end()
        assert shown.child.returncode == 0
        assert rows[-3:] == ["[VERIFY of iteration 2]", "first", "second"]
        assert shown.echoes()
    go.touch()
    climbing.communicate(timeout=30)


def test_elsewhere_it_is_lines_until_nobody_is_at_work(slow: Project, go: Path) -> None:
    climbing = slow.start("-q", "iterate")
    wait_until_measuring(slow)
    with Shown(slow.folder, "status", "--watch", columns=120, environment={"TERM": "dumb"}) as shown:
        shown.until(lambda text: "   2  VERIFY, for " in text)
        go.touch()
        rows = shown.until_end()
        assert shown.child.returncode == 0
    assert rows[-2].split()[:3] == ["2", "kept", "better"]
    assert rows[-1] == "finished as asked; the same command goes on"
    climbing.communicate(timeout=30)


def test_as_json_it_is_the_answer_of_status_and_without_watch_the_output_so_far_stands_below(slow: Project) -> None:
    (told,) = [json.loads(line) for line in slow.run("--json", "status", "--watch").stdout.splitlines()]
    assert told == slow.ask("status")
    rows = slow.run("status", "--output").stdout.splitlines()
    assert rows[-2:] == ["  | first", "  | second"]
    assert slow.ask("status", "--output")["output"][-2:] == ["first", "second"]
    assert "  | " not in slow.run("status").stdout


def test_as_json_shared_files_are_read_once(
    slow: Project, go: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    climbing = slow.start("-q", "iterate")
    wait_until_measuring(slow)
    looks: list[int] = []
    monkeypatch.setattr(status, "may_show_answers", lambda _: True)
    monkeypatch.setattr(answers, "answer_notes_at_head", lambda *_: looks.append(1) or ["a label"])
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.01)
    Timer(0.5, go.touch).start()
    watch.follow_climb(Options(json=True, query=None, output=False), load(slow.manifest))
    climbing.communicate(timeout=30)
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(shown) > 1 and {tuple(told["readable"]) for told in shown} == {("a label",)} and looks == [1]


def test_the_kept_output_stays_small_and_what_cannot_be_kept_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    kept = OutputLog(path)
    kept.on_phase(1, "VERIFY")
    kept.on_output(b"a" * (MAX_OUTPUT - 100))
    assert path.read_bytes().startswith(b"[VERIFY of iteration 1]\naaa")
    kept.on_output(b"b" * 1000)
    assert path.read_bytes() == b"b" * 1000
    kept.on_output(b"c" * 3 * MAX_OUTPUT)
    assert path.stat().st_size == MAX_OUTPUT
    kept.on_stopped(Stop("count", "done"))
    heard: list[bytes] = []

    class Hearing(Observer):
        def on_output(self, chunk: bytes) -> None:
            heard.append(chunk)

    Observers(OutputLog(tmp_path / "gone" / "output.log"), Hearing()).on_output(b"words")
    assert heard == [b"words"]
