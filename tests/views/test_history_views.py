"""``log`` and ``show`` as a person sees them, on generated records: columns, widths, colours, times, exports."""

import builtins
import csv
import io
import json
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import records
from msgspec.structs import replace
from project import Project
from rich.cells import cell_len
from shown import on_a_terminal, read_soon

from goalseek.cli.main import run as command_line
from goalseek.errors import GoalseekError
from goalseek.humanize import format_age
from goalseek.ledger.results_file import History
from goalseek.ledger.selection import Selection, parse_since, select_lines
from goalseek.records import IterationRecord, MetricResult
from goalseek.values import Phase, Usage, VerifierRun, to_line
from goalseek.views.lines import LineWatch, record_line
from goalseek.views.terminal_text import why_and_title

NOW = datetime.now(UTC)
ESCAPE = "\x1b"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202etitle\r\nforged line"
TALL = "größere Schritte 改善された学習率 " * 8


def record(number: int, age: timedelta, **more: Any) -> IterationRecord:
    baseline, kept = ("baseline", "measured", "measured"), ("kept", "better", "2 beats 1 by 1")
    outcome, reason, why = {0: baseline, 1: kept}.get(number, ("reverted", "worse", "1.5 is worse than 2 by 0.5"))
    fields: dict[str, Any] = {
        "project": "demo",
        "timestamp": (NOW - age).isoformat("T", "milliseconds").replace("+00:00", "Z"),
        "why": why,
        "metric": MetricResult("score", "maximize", 1.5 + number, 1.0, number - 1.0, 12.0),
        "runs": (VerifierRun("candidate", 1.5, 4711, 3.0),),
        "guards": {"size": 10.0},
        "commit_hash": f"{number:040d}",
        "parent_commit_hash": f"{0:040d}",
        "changed_files": ("answer.json", "src/two words.txt"),
        "changed_loc": 3,
        "hypothesis_summary": f"move {number}",
        "provider": "scripted",
        "model": "m-1",
        "usage": Usage(100, 20, 30, 0.5),
        "seconds": {"PLAN": 1.0, "VERIFY": 3.0},
        "run_dir": f"runs/{number:04d}",
    }
    return replace(records.iteration(number + 1, number, outcome, reason), **{**fields, **more})


def written(project: Project, climb: list[IterationRecord]) -> Project:
    logs = project.logs
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "results.jsonl").write_text("".join(to_line(one) + "\n" for one in climb))
    return project


AGES = (timedelta(days=90), timedelta(days=3), timedelta(hours=26), timedelta(hours=2), timedelta(seconds=30))


def night_records() -> list[IterationRecord]:
    """Five records, the last but one with a title in wide letters, the last with a hostile one."""
    hostile = {"outcome": "skipped", "reason": "no_change", "hypothesis_summary": HOSTILE, "why": HOSTILE}
    special: dict[int, dict[str, str]] = {3: {"hypothesis_summary": TALL}, 4: hostile}
    return [record(number, age, **special.get(number, {})) for number, age in enumerate(AGES)]


@pytest.fixture
def night(project: Project) -> Project:
    return written(project, night_records())


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_log_has_columns_and_show_wraps_as_wide_as_the_terminal_is(night: Project, columns: int) -> None:
    shown = COLOURS.sub("", on_a_terminal(night.folder, "log", columns=columns)).splitlines()
    assert len(shown) == 1 + 5
    assert max(cell_len(line) for line in shown) <= columns
    place = shown[0].index("reason")
    for line, reason in zip(shown[1:], ("measured", "better", "worse", "worse", "no_change"), strict=True):
        assert line[place:].startswith(reason + " ")
    assert ("outcome" in shown[0]) == (columns >= 80)
    assert ("2 h ago" in shown[4]) == (columns == 200)
    assert " 2h " in shown[4] or columns == 200
    assert shown[4].endswith("…")
    assert "2 beats 1 by 1"[: columns - 45] in shown[2]
    page = COLOURS.sub("", on_a_terminal(night.folder, "show", "3", columns=columns))
    assert max(cell_len(line) for line in page.splitlines()) <= columns
    indented = [line for line in page.splitlines() if line.startswith(" " * 13)]
    assert len(indented) >= {60: 7, 80: 3, 200: 1}[columns]
    assert " ".join(page.split()).count("größere") == 8


def test_the_line_of_an_iteration_fits_any_terminal() -> None:
    for record in night_records():
        for columns in (1, 5, 20, 39, 47, 48, 60, 300):
            line = record_line(record, lambda text, name: text, columns)
            assert cell_len(line) <= columns and line.count("…") <= 1


def test_a_long_why_leaves_room_for_the_title() -> None:
    why, title = "+53.4% (2 runs v the incumbent's last 3, median 0.561825, odds > 9:1)", "halve the step"
    assert why_and_title(why, title, 68) == "+53.4% (2 runs v the incumbent's last 3, median 0.5…; halve the step"
    assert why_and_title(why, title, None) == f"{why}; {title}"
    assert why_and_title(why, "", 10) == "+53.4% (2…"


def test_a_pipe_gets_whole_lines_without_a_header_or_a_colour(night: Project) -> None:
    lines = night.run("log").stdout.splitlines()
    assert [int(line.split()[0]) for line in lines] == [0, 1, 2, 3, 4]
    assert lines[3].count("größere") == 8
    assert ESCAPE not in "".join(lines)
    assert [line[46:57].strip() for line in lines] == ["1.5", "2.5", "3.5", "4.5", "5.5"]
    page = night.run("show", "3").stdout.splitlines()
    assert any(line.endswith("改善された学習率") and line.count("größere") == 8 for line in page)
    for when, line in zip(("-", "3 d ago", "1 d ago", "2 h ago", " ago"), lines, strict=True):
        assert when in line[:18]


@pytest.mark.slow
def test_outcomes_have_colours_where_somebody_wants_them(night: Project) -> None:
    shown = on_a_terminal(night.folder, "log")
    assert "\x1b[32m   1" in shown and "\x1b[2m   2" in shown and "\x1b[36m   0" in shown and "\x1b[35m   4" in shown
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        for command in (("log",), ("show", "1")):
            assert ESCAPE not in on_a_terminal(night.folder, *command, environment=environment)


def test_what_an_agent_wrote_does_not_act_on_the_terminal(night: Project) -> None:
    for command in (["log"], ["show", "4"], ["log", "--color", "always"]):
        shown = COLOURS.sub("", night.run(*command).stdout)
        assert ESCAPE not in shown and "\u202e" not in shown and "\x07" not in shown
        assert not [line for line in shown.splitlines() if line.startswith("forged")]
    shown = night.run("status").stdout
    assert "forged line" in shown and not set("\x1b\x07\u202e") & set(shown)
    assert not [line for line in shown.splitlines() if line.startswith("forged")]


def test_times_are_told_as_people_say_them() -> None:
    told = {0: "0 s ago", 59: "59 s ago", 60: "1 min ago", 3600: "1 h ago", 7300: "2 h ago", 86400: "1 d ago"}
    told |= {-50: "0 s ago", 30 * 86400 - 1: "29 d ago"}
    short = {0: "0s", 59: "59s", 60: "1m", 3600: "1h", 7300: "2h", 86400: "1d", -50: "0s"}
    short |= {30 * 86400 - 1: "29d", 30 * 86400: "4w", 35 * 86400: "5w"}
    for seconds, expected in told.items():
        assert format_age((NOW - timedelta(seconds=seconds)).isoformat(), NOW) == expected
    for seconds, expected in short.items():
        assert format_age((NOW - timedelta(seconds=seconds)).isoformat(), NOW, is_short=True) == expected
    assert format_age("2024-05-06T12:00:00Z", NOW) == "2024-05-06"
    assert (
        format_age((NOW - timedelta(days=30)).isoformat(), NOW) == f"{(NOW - timedelta(days=30)).astimezone():%Y-%m-%d}"
    )


def test_since_takes_what_people_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        now = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)  # noon in Tokyo
        assert parse_since("12", now) == (12, None)
        moments = {
            "2h": "2026-11-21T01:00:00+00:00",
            "2 h ago": "2026-11-21T01:00:00+00:00",
            "3 days ago": "2026-11-18T03:00:00+00:00",
            "1h30m": "2026-11-21T01:30:00+00:00",
            "yesterday": "2026-11-19T15:00:00+00:00",
            "today": "2026-11-20T15:00:00+00:00",
            "2026-11-21T07:00": "2026-11-20T22:00:00+00:00",
            "2026-11-21": "2026-11-20T15:00:00+00:00",
            "2026-11-21T07:00Z": "2026-11-21T07:00:00+00:00",
        }
        found = {text: parse_since(text, now)[1] for text in moments}
        assert {text: moment and moment.astimezone(UTC).isoformat() for text, moment in found.items()} == moments
        for text in ("tomorrow", "", "-3", "2 parsecs", "99999999999d"):
            with pytest.raises(GoalseekError):
                parse_since(text, now)
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_since_finds_all_of_them_though_the_clock_was_set_back_or_numbers_are_missing(project: Project) -> None:
    def found(*arguments: str) -> list[int]:
        return [json.loads(line)["iteration"] for line in project.run("log", "--json", *arguments).stdout.splitlines()]

    minutes = [*range(900, 600, -1), *range(700, 0, -1)]  # a hundred minutes are lived through twice
    written(project, [record(number, timedelta(minutes=age)) for number, age in enumerate(minutes)])
    for limit in (650, 100):
        since = (NOW - timedelta(minutes=limit)).isoformat()
        expected = [number for number, age in enumerate(minutes) if age < limit]
        assert found("--since", since) == expected
        assert found("--since", since, "--last", "3") == expected[-3:]
    written(project, [record(number, timedelta(0)) for number in (0, 1, 5, 6, 9)])
    for asked, expected in ((0, [0, 1, 5, 6, 9]), (2, [5, 6, 9]), (6, [6, 9]), (9, [9]), (10, [])):
        assert found("--since", str(asked)) == expected


def test_every_kind_of_file_has_the_same_rows_and_none_where_there_are_none(night: Project, tmp_path: Path) -> None:
    for kind in ("csv", "parquet", "jsonl"):
        target = str(tmp_path / f"night.{kind}")
        ended = night.run("export", "--to", kind, target, "--json")
        assert json.loads(ended.stdout) == {"to": kind, "target": target, "iterations": 5}
    with (tmp_path / "night.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pyarrow.parquet.read_table(tmp_path / "night.parquet").to_pylist()
    for row, line in zip(table, (tmp_path / "night.jsonl").read_text().splitlines(), strict=True):
        guards, moment = dict(row["guards"]), row["timestamp"].isoformat(timespec="milliseconds")
        assert {**row, "guards": guards, "timestamp": moment.replace("+00:00", "Z")} == json.loads(line)
    assert [row["iteration"] for row in table] == [0, 1, 2, 3, 4] == [int(row["iteration"]) for row in rows]
    assert (
        list(table[0])
        == list(rows[0])
        == [
            *("iteration", "timestamp", "outcome", "reason", "value", "incumbent", "delta", "odds", "needed"),
            *("title", "why"),
            *("commit_hash", "run_id", "epoch", "stacked", "taken_back", "provider", "model", "turn_of"),
            *("changed_files", "changed_loc", "guards"),
            *("input_tokens", "cached_tokens", "output_tokens", "cost_usd", "seconds"),
        ]
    )
    assert (table[1]["provider"], table[1]["model"], table[1]["odds"]) == ("scripted", "m-1", 12.0)
    used = [table[1][name] for name in ("input_tokens", "cached_tokens", "output_tokens", "changed_loc", "epoch")]
    assert used == [100, 20, 30, 3, 0]
    assert table[4]["title"] == HOSTILE == rows[4]["title"]
    assert (table[1]["value"], table[1]["cost_usd"], table[1]["seconds"]) == (2.5, 0.5, 4.0)
    assert table[1]["changed_files"] == ["answer.json", "src/two words.txt"] == rows[1]["changed_files"].split("\n")
    assert dict(table[1]["guards"]) == {"size": 10.0} == json.loads(rows[1]["guards"])
    assert abs(table[4]["timestamp"] - (NOW - AGES[4])) < timedelta(milliseconds=1)
    all_of_them = night.run("log", "--last", "9" * 25)
    assert (all_of_them.exit_code, len(all_of_them.stdout.splitlines())) == (0, len(AGES)), all_of_them.stderr
    written(night, [])
    for kind in ("csv", "parquet", "jsonl"):
        assert night.check("export", "--to", kind, str(tmp_path / f"none.{kind}")).startswith("0 iterations to ")
    assert pyarrow.parquet.read_table(tmp_path / "none.parquet").num_rows == 0
    assert len((tmp_path / "none.csv").read_text().splitlines()) == 1
    assert (tmp_path / "none.jsonl").read_text() == ""


def test_a_letter_that_is_none_is_written_and_a_text_that_a_spreadsheet_would_run_is_text_in_csv(
    project: Project, tmp_path: Path
) -> None:
    formulas = ['=HYPERLINK("http://evil","x")', "+1+1", "-2", "@SUM(A1)", "\t=1", "\r=1"]
    plain = ["a = b", "'=1", "", "half \ud83d a letter"]
    files = {"changed_files": ("=1.txt", "b.txt")}
    rows = [
        record(number, timedelta(0), hypothesis_summary=title, **files)
        for number, title in enumerate([*formulas, *plain])
    ]
    written(project, rows)
    for kind in ("csv", "parquet", "jsonl"):
        project.check("export", "--to", kind, str(tmp_path / f"night.{kind}"))
    with (tmp_path / "night.csv").open(newline="", errors="surrogatepass") as file:
        table = list(csv.DictReader(file))
    assert [row["title"] for row in table] == [f"'{title}" for title in formulas] + plain
    assert table[0]["delta"] == "-1.0" and table[1]["changed_files"] == "'=1.txt\nb.txt"
    lines = map(json.loads, (tmp_path / "night.jsonl").read_text().splitlines())
    assert [row["title"] for row in lines] == [*formulas, *plain]
    columns = pyarrow.parquet.read_table(tmp_path / "night.parquet").to_pylist()
    assert [row["title"] for row in columns] == [*formulas, *plain[:-1], "half ? a letter"]


def test_a_bad_export_fails_before_a_record_is_read_and_leaves_the_old_file(night: Project, tmp_path: Path) -> None:
    results = night.results
    (tmp_path / "old.csv").write_text("old\n")
    results.write_bytes(results.read_bytes() + b"{no record}\n")
    (tmp_path / "folder.csv").mkdir()
    for name, expected in (("none/x.csv", "No such file"), ("folder.csv", "is a folder")):
        ended = night.run("export", "--to", "csv", str(tmp_path / name))
        assert ended.exit_code == 2 and f"--to csv {tmp_path / name}: {expected}" in ended.stderr
    ended = night.run("export", "--to", "csv", str(tmp_path / "old.csv"))
    assert ended.exit_code == 3 and "goalseek audit" in ended.stderr
    assert sorted(path.name for path in tmp_path.glob("*old*")) == ["folder.csv", "old.csv"]
    assert (tmp_path / "old.csv").read_text() == "old\n"


def test_an_export_touches_no_other_file_of_the_users_and_never_the_records(night: Project, tmp_path: Path) -> None:
    for ending in ("csv", "jsonl", "parquet"):
        mine, link, elsewhere = (tmp_path / name for name in (f"all.{ending}.new", f"all.{ending}", f"far.{ending}"))
        mine.write_text("mine\n")
        link.symlink_to(elsewhere)
        night.check("export", "--to", ending, str(link))
        assert (mine.read_text(), link.is_symlink(), elsewhere.stat().st_size > 100) == ("mine\n", True, True)
    results = night.results
    before = results.read_bytes()
    (night.folder / "link.jsonl").symlink_to(results)
    for name in (str(results), "link.jsonl"):
        ended = night.run("export", "--to", "jsonl", name)
        assert ended.exit_code == 2 and "this is the file of the records" in ended.stderr
    assert results.read_bytes() == before
    assert night.run("export", "--to", "csv", "").exit_code == 2


def test_parquet_without_pyarrow_says_what_to_install(
    night: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    file = tmp_path / "night.parquet"
    assert command_line(["-C", str(night.folder), "export", "--to", "parquet", str(file)]) == 2
    assert "pip install 'goalseek[parquet]'" in capsys.readouterr().err
    assert not file.exists()


def test_show_tells_when_how_likely_and_what_it_cost_and_refuses_what_names_no_iteration(project: Project) -> None:
    by_subscription = record(0, AGES[0], usage=Usage(0, 0, 30, about_usd=1234.5))
    written(project, [by_subscription, *night_records()[1:]])
    shown = project.run("show", "1").stdout
    for expected in (
        "3 d ago",
        "2.5, against 1",
        "odds > 9:1",
        "100 tokens in, 20 cached, 30 out, $0.50",
        "size",
    ):
        assert expected in shown
    assert "two words" in shown
    assert "0 tokens in, 0 cached, 30 out, about $1,234.50 by subscription" in project.run("show", "0").stdout
    for words, which in ((["²"], "²"), (["one"], "one"), (["--", "-1"], "-1"), (["9" * 5000], "999")):
        ended = project.run("show", *words)
        assert ended.exit_code == 2 and which in ended.stderr and "is no iteration's number" in ended.stderr


PATCH = b"""\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@ here
 same
---- was dashes
++++ is pluses \x1b[2J
 end
diff --git a/b.txt b/b.txt
new file mode 100644
"""


def test_a_diff_has_colours_on_a_terminal_and_escaped_control_characters_elsewhere(night: Project) -> None:
    folder = night.run_folder(2)
    folder.mkdir(parents=True)
    (folder / "changes.diff").write_bytes(PATCH)
    assert night.run("show", "2", "--diff").stdout.encode() == PATCH.replace(b"\x1b", b"\\x1b")
    shown = on_a_terminal(night.folder, "show", "2", "--diff")
    assert shown == night.run("show", "2", "--diff", "--color", "always").stdout
    for expected in (
        *("\x1b[36m@@ -1,3 +1,3 @@ here\x1b[0m", "\x1b[31m---- was dashes\x1b[0m", "\n same\n"),
        *("\x1b[1m+++ b/a.txt\x1b[0m", "\x1b[1mnew file mode 100644\x1b[0m"),
    ):
        assert expected in shown
    assert "\x1b[2J" not in shown
    plain = on_a_terminal(night.folder, "show", "2", "--diff", environment={"NO_COLOR": "1"})
    assert ESCAPE not in plain and "+++ is pluses" in plain


def test_control_characters_are_escaped_in_a_pipe_unless_they_are_asked_for(night: Project) -> None:
    folder = night.run_folder(2)
    folder.mkdir(parents=True)
    content = "a\tb\n\x1b[2J\x07 \x9b1m\rforged \x7f\xe9\n"
    escaped = "a\tb\n\\x1b[2J\\x07 \\x9b1m\\rforged \\x7f\xe9\n"
    parts = {"diff": "changes.diff", "plan": "plan.md", "prompt": "prompt.md", "output": "provider_output.md"}
    for option, name in parts.items():
        (folder / name).write_text(content)
        ended = night.run("show", "2", f"--{option}")
        assert ended.stdout.endswith(escaped) and str(folder) in ended.stderr, option
    (folder / "changes.diff").write_bytes(b"in latin-1: \xe9\r\n")
    command = [sys.executable, "-m", "goalseek", "show", "2", "--diff"]
    done = subprocess.run(command, cwd=night.folder, capture_output=True, check=True, timeout=120)
    assert (done.stdout, done.stderr) == (b"in latin-1: \xe9\r\n", b"")


def test_parts_as_json_are_texts_by_name(night: Project, tmp_path: Path) -> None:
    folder = night.run_folder(2)
    (folder / "snapshot").mkdir(parents=True)
    (folder / "changes.diff").write_bytes(PATCH)
    (folder / "plan.md").write_text("the plan\n")
    (folder / "snapshot" / "a.txt").write_text("a\n")
    told = json.loads(night.run("show", "2", "--diff", "--plan", "--json").stdout)
    assert (told["plan"], told["diff"].encode()) == ("the plan\n", PATCH)
    told = json.loads(night.run("show", "2", "--files", str(tmp_path / "taken"), "--json").stdout)
    assert told == {"files": 1, "folder": str(tmp_path / "taken")}
    assert json.loads(night.run("show", "2", "--query", "metric.value").stdout) == 3.5


@pytest.mark.slow
def test_a_long_history_starts_to_print_at_once(project: Project) -> None:
    count, path = 80_000, written(project, [record(0, timedelta(0)), record(1, timedelta(0))]).results
    line = (
        to_line(record(2, timedelta(0)))
        .replace('"seq":3', '"seq":%(seq)d')
        .replace('"iteration":2', '"iteration":%(n)d')
    )
    with path.open("a") as file:
        file.writelines(line % {"seq": n + 1, "n": n} + "\n" for n in range(2, count))
    began = time.monotonic()
    command = [sys.executable, "-m", "goalseek", "log"]
    with subprocess.Popen(command, cwd=project.folder, stdout=subprocess.PIPE) as started:
        assert started.stdout
        lines = read_soon(started.stdout.fileno()).count(b"\n")
        first = time.monotonic() - began
        lines += sum(chunk.count(b"\n") for chunk in iter(lambda: read_soon(started.stdout.fileno()), b""))
    whole = time.monotonic() - began
    assert lines == count and first < whole / 2.5, (first, whole)


def test_the_newest_of_many_records_are_read_from_the_end_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = written(project, [record(number, timedelta(0)) for number in range(3000)])
    path = long.results
    sizes: list[int] = []

    class Counting(io.FileIO):
        def read(self, size: int = -1) -> bytes | None:
            sizes.append(size)
            return super().read(size)

    monkeypatch.setattr(Path, "open", lambda path, mode: Counting(path))
    newest = select_lines(History(path), Selection(last=20))
    assert [summary.iteration for _, summary in newest] == list(range(2980, 3000))
    assert 0 < sum(sizes) < path.stat().st_size / 20 and min(sizes) > 0


def test_a_note_says_to_which_iteration_it_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    watch = LineWatch("never", is_quiet=False, is_verbose=False)
    watch.on_note("before")
    watch.on_phase(3, Phase.VERIFY)
    watch.on_note("meanwhile")
    watch.on_record(
        replace(records.iteration(3, 3, "reverted", "worse"), notes=("at the end",), dropped_files=("a.txt",))
    )
    watch.on_phase(3, Phase.SETTLE)
    watch.on_note("after")
    assert capsys.readouterr().err.splitlines() == [
        "note: before",
        "note: iteration 3: meanwhile",
        "note: iteration 3: at the end",
        "note: iteration 3: files outside the scope were left out: a.txt",
        "note: after",
    ]
