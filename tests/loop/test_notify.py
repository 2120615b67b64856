"""``[notify]``: a program of the user's is told of a keep, a budget and the end; it can do the run no harm."""

import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator
from project import Project, answer, home, living
from test_queue import begin

from goalseek.ledger.standing import Standing
from goalseek.loop import notify
from goalseek.manifest.keys import published_schema
from goalseek.manifest.loading import ManifestFile, load
from goalseek.project.activity import Observer, Observers
from goalseek.project.project import Project as OpenProject
from goalseek.sandbox.supervisor import Supervisor
from goalseek.values import Stop

TELL = 'cat >> "$HOME/told"'


def told() -> list[dict[str, Any]]:
    return [json.loads(line) for line in home("told").read_text().splitlines()] if home("told").exists() else []


def ends() -> list[dict[str, Any]]:
    return [event for event in told() if event["event"] == "stopped"]


def set_notify(project: Project, script: str = TELL, tables: dict[str, Any] | None = None) -> None:
    project.set_manifest({"notify": {"command": ["sh", "-c", script]}, **(tables or {})})


def test_keeps_a_budget_that_is_nearly_spent_and_the_end_are_told(project: Project) -> None:
    set_notify(project, tables={"limits": {"iterations": 4}})
    project.set_moves(answer(2), answer(1.5), answer(3))
    ended = project.run("iterate", "-n", "3")
    assert ended.exit_code == 0 and "notify" not in ended.stderr
    records, events = project.iterations(), told()
    first, second, budget, end = events
    assert [event["record"] for event in events] == [records[1], records[3], None, None]
    assert [(event["event"], event["iteration"], event["title"], event["stop_reason"]) for event in events] == [
        ("kept", 1, "move 1", ""),
        ("kept", 3, "move 3", ""),
        ("budget", None, "", ""),
        ("stopped", None, "", "count"),
    ]
    schema = published_schema("notification")
    shape = Draft202012Validator(schema)
    for event in events:
        assert not list(shape.iter_errors(event)) and set(event) == set(schema["properties"])
        assert event["project"] == "demo"
    assert list(shape.iter_errors(records[1])), "a record alone is none"
    assert first["line"] == f"demo: iteration 1 is kept: {first['why']}; move 1" and first["why"] == records[1]["why"]
    assert budget["why"] == "three quarters of limits.iterations = 4 are spent: 3"
    assert budget["line"] == f"demo: {budget['why']}"
    assert end["line"] == f"demo: {end['why']} · {ended.stdout.splitlines()[-1]}" and end["why"] == "3 iterations done"
    best = {"iteration": 3, "value": 3, "commit": records[3]["commit_hash"]}
    assert second["best"] == budget["best"] == end["best"] == best


def test_of_several_at_once_each_question_is_told_once_and_status_names_them_all(project: Project) -> None:
    set_notify(project, tables={"approve": {"before": "kept"}})
    project.set_moves(answer(2), answer(3))
    ended = project.run("iterate", "-n", "2", "--jobs", "2")
    assert ended.exit_code == 5 and "note: iteration 2: waits for your approval: goalseek approve 2, " in ended.stderr
    ended = project.run("--json", "iterate", "-n", "2", "--jobs", "2")
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    notes = [event for event in events if "approval" in event.get("text", "")]
    assert ended.exit_code == 5 and sorted(note["iteration"] for note in notes) == [1, 2]
    assert not list(Draft202012Validator(published_schema("events")).iter_errors(notes[0]))
    asked = {event["iteration"]: event["line"] for event in told()}
    assert asked[2] == "demo: iteration 2 waits for you (3 beats 1 by 2): goalseek approve 2, or decline 2"
    assert told()[-1]["line"] == asked[1], "the end is that of its oldest question"
    *waiting, stopped = [(event["event"], event["iteration"]) for event in told()]
    assert sorted(waiting) == [("waiting", 1), ("waiting", 2)] and stopped == ("stopped", None)
    shown = project.check("status")
    assert "iteration 1: kept, better\n" in shown and "iteration 2: kept, better\n" in shown
    assert shown.endswith("next: goalseek approve 1, or goalseek decline 1; then goalseek iterate\n")
    project.check("approve", "1")
    assert "next: goalseek approve 2, or goalseek decline 2" in project.check("status")


def test_while_a_program_is_told_the_others_go_on_and_what_is_recorded_counts_once(tmp_path: Path) -> None:
    agent = """\
[ $GOALSEEK_ITERATION = 6 ] && touch "$HOME/sixth"
echo 1 > $(echo a b c d e f | cut -d ' ' -f $GOALSEEK_ITERATION).txt
echo '{"cost_usd": 1}' > "$GOALSEEK_USAGE"
"""
    tell = 'n=0; while [ ! -e "$HOME/sixth" ]; do n=$((n + 1)); [ $n = 300 ] && exit 1; sleep 0.02; done; ' + TELL
    tables = {"notify": {"command": ["sh", "-c", tell]}, "limits": {"cost_usd": 6.5}}
    project = begin(tmp_path / "repository", agent=agent, parallel={"landings": 20}, **tables)
    ended = project.run("iterate", "-n", "6", "--jobs", "2")
    assert ended.exit_code == 0 and "notify" not in ended.stderr
    assert len(project.iterations()) == 7, project.state()
    assert sorted(event["event"] for event in told()) == ["budget", *["kept"] * 6, "stopped"]
    project.check("audit")


def test_where_several_are_under_way_a_signal_ends_a_program_that_hangs(tmp_path: Path) -> None:
    tell = """grep -q '"event":"kept"' && touch "$HOME/hangs" && sleep 20"""
    agent = "[ $GOALSEEK_ITERATION = 1 ] || sleep 20; echo 1 > a.txt"
    project = begin(tmp_path / "repository", agent=agent, notify={"command": ["sh", "-c", tell]})
    process = project.start_until(home("hangs"), "iterate", "-n", "2", "--jobs", "2")
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert time.monotonic() - began < 10
    assert project.iterations()[-1]["outcome"] == "kept" and not living(home())


@pytest.mark.slow
def test_an_end_with_nothing_done_since_is_told_once_however_often_cron_comes(project: Project) -> None:
    set_notify(project, tables={"limits": {"iterations": 1}})
    project.set_moves(*(answer(score) for score in (2, 3, 4, 5, 6)))
    project.climb("iterate", "--forever")
    for _ in range(3):
        project.check("iterate", "--no-wait")
    assert [end["stop_reason"] for end in ends()] == ["iterations"]
    set_notify(project, tables={"limits": {"iterations": 2}})
    for _ in range(3):
        project.check("iterate", "--no-wait")
    assert [end["stop_reason"] for end in ends()] == ["iterations"] * 2
    set_notify(project)
    project.check("iterate", "--no-wait")
    assert len(ends()) == 2, "cron has done its iteration, which is no news"
    for _ in range(2):
        project.climb("iterate", "-n", "1")
    assert [end["why"] for end in ends()[2:]] == ["1 iteration done"] * 2, "something was done in between"
    set_notify(project, tables={"limits": {"stagnation_stop": 1}})
    project.set_moves(*[answer(1.5)] * 9)
    for _ in range(2):
        assert project.run("iterate", "--forever").exit_code == 5
    assert [end["stop_reason"] for end in ends()[4:]] == ["needs_human"], "a person is called once"


def test_an_end_by_an_error_is_told_as_well(project: Project) -> None:
    set_notify(project)
    project.write({"answer.json": answer(1, more='"fail": 1,\n')})
    project.commit()
    project.set_moves(answer(2))
    ended = project.run("--json", "iterate")
    shown = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.exit_code, shown["event"], shown["stop_reason"]) == (1, "stopped", "baseline_failed")
    (end,) = told()
    assert (end["stop_reason"], end["best"]) == ("baseline_failed", None)
    assert "told to fail" in end["why"]
    assert end["line"].startswith("demo: the baseline has no number: judge ended with 3")
    assert "commit, and" in end["line"]


def test_it_gets_only_the_users_own_environment(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = {"env": {"agent": {"set": {"MADE": "for the agent"}}}}
    set_notify(project, 'env > "$HOME/seen"; pwd >> "$HOME/seen"', agent)
    project.set_moves(answer(2))
    given = {"DISPLAY": ":0", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x", "TOKEN": "t", "TMPDIR": os.environ["HOME"]}
    for name, value in {**given, "GOALSEEK_SEED": "7", "PATH": f".:{os.environ['PATH']}:"}.items():
        monkeypatch.setenv(name, value)
    project.climb()
    seen = home("seen").read_text().splitlines()
    assert {f"{name}={value}" for name, value in given.items()} <= set(seen)
    assert not [line for line in seen if line.startswith(("GOALSEEK_SEED=", "MADE=", "PATH=.:"))]
    assert seen[-1] == str(project.folder)


def test_a_program_that_is_missing_is_named_before_the_night_and_one_in_home_is_found(project: Project) -> None:
    project.set_manifest({"notify": {"command": ["~/tell"]}})
    project.set_moves(answer(2), answer(3))
    missing = f"{home('tell')} does not exist"
    shown = project.run("doctor", "--quick").stdout
    assert f"✗ notify       {missing}\n               → correct notify.command" in shown
    assert f"note: {missing}; correct notify.command\n" in project.run("iterate").stderr
    home("tell").write_text(f"#!/bin/sh\n{TELL}")
    shown = project.run("doctor", "--quick").stdout
    assert f"✗ notify       {home('tell')} is not executable\n               → chmod +x {home('tell')}\n" in shown
    home("tell").chmod(0o755)
    assert "✓ notify       ~/tell can be started" in project.run("doctor", "--quick").stdout
    project.check("iterate")
    assert [event["event"] for event in told()] == ["kept", "stopped"]


def test_a_program_that_candidates_may_change_is_not_run_and_that_is_said_before_the_night(project: Project) -> None:
    project.write({"tell.sh": TELL})
    scope = {"scope": {"writable": ["answer.json", "*.sh"], "hidden": ["hidden/**"]}}
    project.set_manifest({"notify": {"command": ["sh", "tell.sh"]}, **scope})
    project.commit()
    project.set_moves(answer(2))
    ended = project.run("iterate")
    assert ended.exit_code == 0 and told() == []
    assert ended.stderr.count("tell.sh is not run: scope.writable lets") == 3, "at the start, the keep and the end"
    scope["scope"]["writable"].append("!tell.sh")
    project.set_manifest({"notify": {"command": ["sh", "tell.sh"]}, **scope})
    project.check("iterate")
    assert [end["stop_reason"] for end in told()] == ["count"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sh", "-c", "echo no network >&2; exit 7"], "sh ended with 7: no network"),
        (["no-such-program"], "no-such-program"),
        (["sh", "-c", "exec <&-; sleep 60 & setsid sleep 60 & exit 0"], ""),
        (["sh", "-c", "kill -9 $$"], "sh ended with -9"),
    ],
)
@pytest.mark.slow
def test_whatever_it_does_the_run_goes_on(project: Project, command: list[str], said: str) -> None:
    project.set_manifest({"notify": {"command": command}})
    project.set_moves(answer(2), answer(3))
    ended = project.run("iterate", "-n", "2")
    assert ended.exit_code == 0 and "Traceback" not in ended.stderr
    assert [record["outcome"] for record in project.iterations()] == ["baseline", "kept", "kept"]
    assert said in ended.stderr and ("notify:" in ended.stderr) == bool(said)
    for shown in project.check("status"), project.check("report", "-o", "-"):
        assert ("3 notifications failed since one was sent, the last: " in shown) == bool(said) and said in shown
    set_notify(project)
    project.climb()
    assert "failed since one was sent" not in project.check("status")


class Notes(Observer):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_note(self, text: str) -> None:
        self.heard.append(text)

    def on_stopped(self, stop: Stop) -> None:
        self.heard.append(stop.reason)


def test_one_that_hangs_is_ended_and_others_are_told_first(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    set_notify(project, "sleep 60")
    loaded: ManifestFile = load(project.manifest)
    monkeypatch.setattr(notify, "MAX_SECONDS", 0.3)
    shown = Notes()
    one = SimpleNamespace(loaded=loaded, watch=shown, standing=Standing(), is_by_timetable=False)
    one.make_programs = lambda: Supervisor("owner")
    Observers(shown, notify.Notifier(cast(OpenProject, one))).on_stopped(Stop("count", "done"))
    assert shown.heard == ["count", "notify: sh ran past its limit, 0s"]
