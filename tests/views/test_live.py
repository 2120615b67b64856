"""The panel of a climb at a terminal: rows that fit, lines that stay, and a terminal that is left as it was."""

import contextlib
import json
import math
import os
import re
import termios
import time
from pathlib import Path

import pytest
from project import FILES, JUDGE, Project, answer, held_out, home, living, until
from shown import Shown, waiting_project

from goalseek import locks
from goalseek.manifest.exposure import EXPOSED

pytestmark = pytest.mark.slow

HOSTILE = (
    r"\033[2J\033[31mred\033[0m \033]0;title\007\033[999;999H\033]8;;http://x\033\\link\033]8;;\033\\"
    r" half\rdone \302\233 31m \033P+q\033\\ end"
)


@pytest.fixture
def slow(tmp_path: Path, go: Path) -> Project:
    """A project whose measurements print and then wait for ``go``; it climbed three steps."""
    return waiting_project(tmp_path / "repo", go, (2, 1.5, 3, 4, 5, 6), climbed=3, prints=f"first\\n{HOSTILE}")


def panel_of(rows: list[str]) -> dict[str, str]:
    """The rows of the panel by their label."""
    start = next(place for place, row in enumerate(rows) if row.startswith("── "))
    return {"title": rows[start], **{row[2:14].strip(): row[14:] for row in rows[start + 1 :]}}


def last_line(score: int, kept: str) -> str:
    return f"score 1 → {score} · {EXPOSED} · {kept} · your checkout is untouched · goalseek promote"


def is_measuring(text: str) -> bool:
    return "measuring" in text and "end" in text


def is_measuring_title(text: str) -> bool:
    return "\n  measuring" in text and text.splitlines()[-1].startswith("  tries")


def is_waiting(text: str) -> bool:
    return "\n  waiting " in text and "\n  prints" in text


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_panel_fits_shows_no_raw_output_and_goes_while_the_lines_stay(slow: Project, go: Path, columns: int) -> None:
    limits = {"limits": {"iterations": 40, "time": "1h", "tokens": 2000000, "cost_usd": 20.0}}
    slow.set_manifest({**limits, "env": {"verify": {"set": {"WAIT": str(go)}}}})
    with Shown(slow.folder, "iterate", "-n", "2", columns=columns) as shown:
        rows = shown.until(lambda seen: is_measuring(seen) and "\n  prints " in seen)
        panel = panel_of(rows)
        assert panel["title"].startswith("── demo · iteration 4 ─")
        assert len(panel["title"]) == min(columns - 1, 100)
        assert panel["measuring"].startswith("0s") or panel["measuring"].startswith("1s")
        assert "run 1, the candidate" in panel["measuring"]
        assert panel["best"].startswith("3 score, baseline 1, +2   ▁▅█")
        assert panel["tries"] == "2 kept of 3"
        assert panel["last"] == "better · worse · better"
        assert panel["iterations"].endswith("3 of 40")
        assert panel["time"].endswith("of 1h 00m")
        assert panel["tokens"].endswith("0 of 2M")
        assert panel["cost"].endswith("$0.00 of $20.00")
        assert panel["prints"] == "done  31m  end"
        assert not shown.echoes()
        go.touch()
        rows = shown.until_end()
        assert shown.child.returncode == 0
        assert shown.echoes()
        assert not shown.screen.cursor.hidden
        assert shown.screen.title == ""
    assert colours(shown.raw)
    for sequence in (b"\x1b[2J", b"\x1b]", b"999", b"\x1bP", b"\xc2\x9b", b"http://x"):
        assert sequence not in shown.raw, sequence
    assert not [row for row in rows if "──" in row or "measuring" in row]
    assert [row.split()[:2] for row in rows if row[:4].strip().isdigit()] == [["4", "kept"], ["5", "kept"]]
    last = last_line(5, "4 kept of 5")
    assert "".join(rows[-math.ceil(len(last) / columns) :]) == last


def test_of_several_at_once_there_is_a_line_for_each_here_in_status_and_in_its_picture(slow: Project, go: Path) -> None:
    def are_under_way(text: str) -> bool:
        return "\n  at once     2 measuring, 1 waiting\n" in text and "\n  6           waits for a bench, " in text

    with Shown(slow.folder, "iterate", "-n", "3", "--jobs", "2") as shown:
        rows = shown.until(are_under_way)
        panel = panel_of(rows)
        assert panel["title"].startswith("── demo ───") and panel["tries"] == "2 kept of 3" and "prints" not in panel
        assert [re.sub(r"\d+s", "1s", row) for row in rows[-3:]] == [
            "  4           measuring, 1s: move 4",
            "  5           measuring, 1s: move 5",
            "  6           waits for a bench, 1s: move 6",
        ]
        until(lambda: len(slow.state()["under_way"]) == 3)  # it is written twice a second
        state = slow.state()
        assert (state["status"], state["iteration"], state["phase"]) == ("running", None, None)
        assert [(one["iteration"], one["stage"], one["title"]) for one in state["under_way"]] == [
            (4, "measuring", "move 4"),
            (5, "measuring", "move 5"),
            (6, "waiting", "move 6"),
        ]
        said = slow.check("status")
        assert said.startswith("demo: running, 2 measuring, 1 waiting\n")
        assert "\n  4          measuring, " in said and "\n  6          waits for a bench, " in said
        told = json.loads(slow.check("--json", "status"))
        assert told["under_way"] == state["under_way"] and told["phase"] is None
        assert "iteration 6 has not ended, so it has no record yet\n" in slow.run("show", "6").stderr
        assert "with 3 iterations under way: 2 measuring, 1 waiting" in slow.run("iterate", "--detach").stderr
        with Shown(slow.folder, "status", "--watch") as watch:
            watch.until(are_under_way)
            watch.type("q")
            watch.until_end()
        printed = (slow.logs / "output.log").read_text()
        assert "[VERIFY of iteration 4]\nfirst\n" in printed and "[VERIFY of iteration 5]\nfirst\n" in printed
        go.touch()
        shown.until_end()
        assert shown.child.returncode == 0
    assert "under_way" not in slow.state() and "under_way" not in json.loads(slow.check("--json", "status"))


def test_it_keeps_its_place_when_somebody_types_or_resizes_the_terminal(slow: Project, go: Path) -> None:
    with Shown(slow.folder, "iterate", "-n", "2") as shown:
        shown.until(is_measuring)
        shown.type("hello\n\n\n")
        time.sleep(0.7)
        shown.read(0.5)
        for columns in (60, 120, 40, 80):
            shown.resize(columns)
            width = min(columns - 1, 100)
            titles = [width]
            rows = shown.until(lambda text: [len(row) for row in text.splitlines() if row.startswith("── ")] == titles)  # noqa: B023
            assert all(len(row) <= columns and "hello" not in row for row in rows)
        go.touch()
        rows = shown.until_end()
    assert not [row for row in rows if row.startswith("── ") or row.startswith("  best")], rows


def test_a_terminal_of_few_rows_shows_what_fits_and_nothing_stays(slow: Project, go: Path) -> None:
    wrong = {"COLUMNS": "200", "LINES": "100"}
    with Shown(slow.folder, "iterate", "-n", "2", columns=60, lines=5, environment=wrong) as shown:
        shown.until(is_measuring_title)
        time.sleep(1.2)
        shown.read(0.0)
        rows = shown.until(is_measuring_title)
        assert [row[2:14].strip() for row in rows[-4:]][1:] == ["measuring", "best", "tries"]
        assert len(rows[-4]) == 59, "as wide as the terminal, whatever the environment says"
        go.touch()
        shown.until_end()
        rows = shown.everything()
    assert not [row for row in rows if "──" in row or row.startswith(("  best", "  measuring", "  tries"))], rows
    assert [row.split()[:2] for row in rows if row[:4].strip().isdigit()] == [["4", "kept"], ["5", "kept"]]


def test_settling_and_the_holdout_are_phases_of_the_panel(tmp_path: Path, go: Path) -> None:
    waits = 'until [ -d "$WAIT" ] || rm "$WAIT" 2> /dev/null; do sleep 0.02; done'
    one_by_one = f"printf 'first\\n{HOSTILE}'\n{waits}\n{JUDGE}"
    metric = {"direction": "maximize", "query": "score", "noise": "always", "settle": 2}
    more = {"env": {"verify": {"set": {"WAIT": str(go)}}}, "metric": metric, **held_out("sh hidden/judge.sh")}
    costly = {**more, "metric": {**metric, "settle": 50}}  # at the end of -n 1 it would settle what costs little
    project = Project.make(tmp_path / "noisy", {**FILES, "hidden/judge.sh": one_by_one}, costly)
    project.set_moves(answer(2))
    go.mkdir()
    project.climb("iterate", "-n", "1")
    go.rmdir()
    project.set_manifest({**more, "limits": {"iterations": 1}})
    told = []
    with Shown(project.folder, "iterate", "--forever") as shown:
        for mark in ("run 1, the ", "run 2, the ", "run 3, the ", "run 4, the ", "holdout "):
            rows = shown.until(lambda text: mark in text and text.endswith("end"))  # noqa: B023
            panel = panel_of(rows)
            told.append(panel["holdout"] if mark == "holdout " else panel["settling"])
            assert panel["best"].startswith("2 score, baseline 1, +1")
            assert (panel["tries"], panel["prints"]) == ("1 kept of 1", "done  31m  end")
            assert panel["iterations"].endswith("1 of 1")
            if mark != "holdout ":
                go.touch()
        go.mkdir()
        rows = shown.until_end()
        assert shown.child.returncode == 0
    assert sorted(each.partition(", the ")[2] for each in told) == ["", "baseline", "baseline", "best", "best"]
    text = "\n".join(rows)
    assert "settled: score 1 to 2" in text and "holdout, look 2: " in text and ", settled " in text
    assert "──" not in text


def test_a_wait_takes_the_phases_place_and_is_not_charged_to_it(slow: Project, go: Path) -> None:
    name = f"card {os.getpid()}"
    metric = {"direction": "maximize", "query": "score", "noise": "none", "exclusive": name}
    slow.set_manifest({"metric": metric, "env": {"verify": {"set": {"WAIT": str(go)}}}})
    told = f"waits for {name}: process {os.getpid()} measures with it"
    with Shown(slow.folder, "iterate", columns=100) as shown, contextlib.ExitStack() as held:
        held.enter_context(locks.exclusive_lock(name, lambda text: contextlib.nullcontext(), lambda: None))
        assert panel_of(shown.until(is_waiting))["waiting"] == told
        with Shown(slow.folder, "status", "--watch", columns=100) as other:
            assert panel_of(other.until(is_waiting))["waiting"] == told
        time.sleep(3)
        held.close()
        rows = shown.until(is_measuring)
        assert panel_of(rows)["measuring"].split("s")[0] in ("0", "1")
        go.touch()
        shown.until_end()
        assert shown.child.returncode == 0
    for path in locks.NAMED_LOCKS_FOLDER.glob(f"goalseek-exclusive-card-{os.getpid()}-*"):
        path.unlink()


def test_where_a_narrower_terminal_wraps_anew_it_is_drawn_from_where_it_begins_by_then(slow: Project, go: Path) -> None:
    with Shown(slow.folder, "iterate", environment={"XTERM_VERSION": ""}) as shown:
        rows = shown.until(is_measuring)
        panel = rows[next(place for place, row in enumerate(rows) if row.startswith("── ")) :]
        shown.raw = b""
        shown.resize(40)
        shown.until(lambda text: any(len(row) == 39 for row in text.splitlines() if "──" in row))
        moves = shown.raw.partition("─".encode())[0]
        assert moves.count(b"\x1b[1A") == sum(math.ceil(len(row) / 40) for row in panel) - 1
        go.touch()
        shown.until_end()


@pytest.mark.parametrize(
    ("environment", "arguments"),
    [({"TERM": "dumb"}, ()), ({"TERM": ""}, ()), ({}, ("-q",)), ({}, ("--json",))],
    ids=["dumb", "no TERM", "quiet", "json"],
)
def test_where_the_cursor_cannot_or_shall_not_move_there_are_lines(
    slow: Project, go: Path, environment: dict[str, str], arguments: tuple[str, ...]
) -> None:
    go.touch()
    with Shown(slow.folder, "iterate", *arguments, columns=200, environment=environment) as shown:
        rows = shown.until_end()
        assert not [sequence for sequence in sequences(shown.raw) if sequence[-1:] != b"m"]
        assert shown.echoes()
    if arguments == ("--json",):
        (stopped,) = [line for line in shown.raw.decode().splitlines() if '"stopped"' in line]
        assert json.loads(stopped)["line"].startswith("score 1 ")
    else:
        assert "".join(rows).endswith(last_line(4, "3 kept of 4"))
        assert not any(row.startswith("── ") for row in rows)


def test_control_c_says_what_it_waits_for_leaves_a_sane_terminal_and_says_how_to_go_on(tmp_path: Path) -> None:
    deaf = f"if [ -e {tmp_path}/deaf ]; then trap '' INT TERM; echo deaf; sleep 60 & wait; sleep 60; fi\n{JUDGE}"
    project = Project.make(tmp_path / "deaf-one", {**FILES, "hidden/judge.sh": deaf})
    project.set_moves(answer(2), answer(3))
    project.climb("iterate", "-n", "1")
    (tmp_path / "deaf").touch()
    with Shown(project.folder, "iterate", "--forever", columns=100, environment={"NO_COLOR": "1"}) as shown:
        before = termios.tcgetattr(shown.theirs)
        shown.until(lambda text: "  prints      deaf" in text)
        assert termios.tcgetattr(shown.theirs)[3] & termios.NOFLSH, "^C takes away what is written and not yet read"
        shown.type("\x03")
        shown.until(lambda text: "  waiting     interrupted; for running programs to end" in text)
        shown.type("typed\x03")
        rows = shown.until_end()
        assert shown.child.returncode == 130
        assert shown.echoes()
        assert termios.tcgetattr(shown.theirs) == before
        shown.type("\n")
        assert os.read(shown.theirs, 100) == b"\n", "what was typed before ^C is not the shell's"
        assert not shown.screen.cursor.hidden and not colours(shown.raw)
    assert rows[-1] == "goalseek: interrupted; nothing is lost: the same command goes on from here"
    assert not any(row.startswith("── ") for row in rows)
    assert not [line for line in living(home()).values() if "sleep 60" in line]
    (tmp_path / "deaf").unlink()
    assert [record["iteration"] for record in project.climb("iterate")] == [0, 1, 2]


def test_a_question_takes_the_panels_place(slow: Project, go: Path) -> None:
    slow.set_manifest({"approve": {"before": "kept"}, "env": {"verify": {"set": {"WAIT": str(go)}}}})
    with Shown(slow.folder, "iterate", "-n", "2", "--color", "never", lines=40) as shown:
        shown.until(is_measuring)
        shown.type("y\n")  # before there is a question: no answer to it
        time.sleep(0.3)
        go.touch()
        rows = shown.until(lambda text: "keep iteration 4?" in text)
        assert not any(row.startswith("── ") for row in rows)
        assert shown.echoes()
        go.unlink()
        shown.type("n\n")
        rows = shown.until(lambda text: is_measuring(text) and "iteration 5" in text)
        assert "   4  reverted  declined" in "\n".join(rows)
        go.touch()
        shown.until(lambda text: "keep iteration 5?" in text)
        shown.type("y\n")
        rows = shown.until_end()
    assert not colours(shown.raw)
    assert [record["outcome"] for record in slow.iterations()[-2:]] == ["reverted", "kept"]
    assert "".join(rows).endswith(last_line(5, "3 kept of 5"))


def test_of_several_at_once_a_question_keeps_its_place_while_others_go_on(slow: Project, go: Path) -> None:
    slow.set_manifest({"approve": {"before": "kept"}, "env": {"verify": {"set": {"WAIT": str(go)}}}})
    go.touch()
    with Shown(slow.folder, "iterate", "-n", "3", "--jobs", "2", lines=60) as shown:
        for number, word in ((4, "y"), (5, "n"), (6, "n")):
            shown.until(lambda text: f"keep iteration {number}?" in text)  # noqa: B023
            until(lambda: {one["waits"] for one in slow.state()["under_way"]} == {"waits for your approval"})
            time.sleep(1)
            while shown.read(0.1):
                pass
            assert not [row for row in shown.rows() if row.startswith("── ")], shown.text()
            shown.type(f"{word}\n")
        shown.until_end()
    assert [record["outcome"] for record in slow.iterations()[-3:]] == ["kept", "reverted", "reverted"]


def test_a_closed_terminal_ends_it_as_ever(slow: Project) -> None:
    shown = Shown(slow.folder, "iterate")
    shown.until(is_measuring)
    shown.close()
    assert shown.child.wait(timeout=30) == 129
    assert slow.state()["status"] == "interrupted"


def sequences(raw: bytes) -> list[bytes]:
    return re.findall(rb"\x1b\[[0-?]*[ -/]*[@-~]", raw)


def colours(raw: bytes) -> list[bytes]:
    return [sequence for sequence in sequences(raw) if sequence.endswith(b"m")]
