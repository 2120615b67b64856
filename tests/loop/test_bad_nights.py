"""Nights on which a provider is closed, refuses or fails: what they cost, what is shown, and how they go on."""

import re
from pathlib import Path
from typing import Any

import pytest
from project import Project, Projects, answer, home, until
from test_waiting import status

from goalseek.cli.main import run
from goalseek.ledger import results_file
from goalseek.ledger.checkpoints import Seal
from goalseek.ledger.results_file import History, Snapshot
from goalseek.locks import Holder
from goalseek.project import stop
from goalseek.project.project import Project as OpenProject
from goalseek.project.stop import request_stop
from goalseek.proposal import call
from goalseek.providers import fallback

BETTER = """printf '%s' "{\\"score\\": $((GOALSEEK_ITERATION + 1))}" > answer.json"""
CALLED = 'echo . >> "$HOME/calls"\n'
CLOSED = CALLED + 'echo "429 Too Many Requests" >&2; exit 75\n'
CLOSED_NOTE = "in APPLY_CHANGE command asks to be called later"
RESUMED_NOTE = "an earlier invocation ended before its record; this one used its stored answers: context, plan"
WORKS = CALLED + f"echo better; {BETTER}\n"


def calls() -> int:
    """How often the agent was called."""
    return home("calls").read_text().count(".") if home("calls").exists() else 0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits of this process take no time, and are listed; the clock that they move is the one of closed providers."""
    waits: list[float] = []
    monkeypatch.setattr(fallback, "seconds_with_sleep", lambda: sum(waits))
    monkeypatch.setattr(call, "seconds_with_sleep", lambda: sum(waits))
    monkeypatch.setattr(call, "PAUSE_SECONDS", 1e9)
    monkeypatch.setattr(OpenProject, "pause", lambda project, seconds: waits.append(seconds))
    return waits


def climb(project: Project, *arguments: str) -> int:
    """Runs goalseek in this process; gives its exit code."""
    return run(["-C", str(project.folder), *arguments])


def test_a_closed_provider_costs_no_iteration_and_leaves_two_notes(project: Project, quick: list[float]) -> None:
    script = f'{CALLED}[ "$(wc -l < "$HOME/calls")" -le 8 ] && {{ echo "429" >&2; exit 75; }}; echo better; {BETTER}\n'
    project.set_agent(script, {"limits": {"time": "5m", "failures": 2, "iterations": 1}})
    assert climb(project, "iterate", "--forever") == 0
    _, record = project.iterations()
    assert (record["outcome"], record["iteration"], calls()) == ("kept", 1, 9)
    assert sum(quick) == pytest.approx(40 + 60 + 120 + 240 + 480 + 900, abs=5), "more than limits.time"
    closed = "command asks to be called later"
    assert record["notes"] == [
        f"in APPLY_CHANGE {closed} (the provider ended with 75: 429)",
        f"waited 30m 40s: {closed}",
    ]
    assert sum(record["seconds"].values()) < 60, "a wait is no active time"


def test_after_the_last_iteration_nothing_is_waited_for(project: Project, quick: list[float]) -> None:
    script = f'{CALLED}[ "$(wc -l < "$HOME/calls")" -ge 3 ] && exit 75; echo better; {BETTER}\n'
    project.set_agent(script)
    assert climb(project, "iterate", "-n", "2") == 0
    assert (len(project.iterations()), calls(), quick) == (3, 2, [])


@pytest.mark.slow
def test_a_wait_past_the_end_of_the_invocation_ends_it(project: Project) -> None:
    project.set_agent(CLOSED)
    ended = project.run("iterate", "--for", "50s")
    assert ended.exit_code == 3 and "cannot be asked before 20" in ended.stderr
    assert len(project.iterations()) == 1 and status(project)["stop_reason"] == "provider"


@pytest.mark.slow
def test_a_wait_is_shown_with_its_end_and_a_kill_in_it_or_a_stop_lose_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.set_agent(CLOSED)
    project.climb("baseline")

    def waiting() -> Any:
        return (shown := status(project))["status"] == "waiting" and "closed" not in shown["next"] and shown

    started = project.start("iterate", "--forever")
    shown = until(waiting)
    assert "command asks to be called later; next try at 20" in shown["next"] and shown["phase"] == "APPLY_CHANGE"
    assert shown["next"].endswith("s"), "true whenever it is read"
    started.kill()
    started.communicate(timeout=30)
    started = project.start("iterate", "--forever")
    until(lambda: project.state()["pid"] == started.pid and (shown := waiting()) and "8.0s" in shown["next"])

    def request_and_let_it_end(own: Path) -> Holder | None:
        holder = request_stop(own)
        started.communicate(timeout=30)
        return holder

    monkeypatch.setattr(stop, "request_stop", request_and_let_it_end)
    assert climb(project, "stop") == 0
    assert capsys.readouterr().out.rstrip().endswith(": it waits, and stops now"), "as it was when it was asked"
    assert started.returncode == 0 and len(project.iterations()) == 1
    project.set_agent(WORKS)
    record = project.climb()[-1]
    assert (record["outcome"], record["iteration"]) == ("kept", 1)
    assert [note.split(" (")[0] for note in record["notes"]] == [CLOSED_NOTE, RESUMED_NOTE]
    assert sum(record["seconds"].values()) < 20


@pytest.mark.slow
def test_while_a_failed_provider_is_tried_again_status_quotes_its_error(project: Project) -> None:
    project.set_agent("./propose.py\n")
    started = project.start("iterate", "--forever")
    shown = until(lambda: (shown := status(project))["status"] == "waiting" and shown)
    assert re.search(r"^command failed \(.*propose\.py: .*\); next try at 20", shown["next"]), shown
    project.check("stop")
    started.communicate(timeout=30)


def test_a_key_that_is_refused_ends_the_run_and_costs_nothing(project: Project) -> None:
    project.set_agent("echo 'revoked' >&2; exit 77\n")
    ended = project.run("iterate", "--forever")
    assert ended.exit_code == 3 and "no provider accepts its key or login" in ended.stderr and "revoked" in ended.stderr
    assert len(project.iterations()) == 1 and status(project)["stop_reason"] == "auth"


@pytest.mark.slow
def test_a_run_that_failures_ended_asks_once_more_each_time_it_is_typed(project: Project) -> None:
    project.set_agent(CALLED + "exit 1\n", {"limits": {"failures": 2}})
    ended = project.run("iterate", "--forever")
    assert ended.exit_code == 1 and "failed 2 times in a row" in ended.stderr and len(project.iterations()) == 3
    assert "goalseek iterate asks it once more" in status(project)["next"]
    for count, arguments in enumerate((["--forever"], [], ["-n", "5"]), start=4):
        ended = project.run("iterate", *arguments)
        assert ended.exit_code == 1 and len(project.iterations()) == count, "one try, and the same end"
    project.set_agent(WORKS, {"limits": {"failures": 2, "iterations": 8}})
    assert project.run("iterate", "--forever").exit_code == 0
    assert [record["outcome"] for record in project.iterations()][-3:] == ["kept"] * 3, "it goes on as before"
    project.set_agent(CALLED + "exit 1\n", {"limits": {"failures": 2}})
    before = len(project.iterations())
    assert project.run("iterate", "--forever").exit_code == 1
    assert len(project.iterations()) == before + 2, "its failures count from none again"


@pytest.mark.usefixtures("quick")
def test_each_wait_for_a_failed_provider_is_one_line(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.set_agent("echo no key >&2; exit 1\n")
    climb(project, "iterate")
    lines = [line for line in capsys.readouterr().err.splitlines() if "no key" in line]
    assert ["next try at 20" in line for line in lines][:4] == [True, True, True, False], lines


@pytest.mark.slow
def test_failed_calls_are_no_tries_for_the_next_prompt(project: Project) -> None:
    project.set_agent(CALLED + "exit 1\n", {"limits": {"stagnation": 2, "stagnation_stop": 2}})
    project.climb("iterate", "-n", "3")
    assert status(project)["stagnation"] == 0
    project.set_agent(WORKS, {"limits": {"stagnation": 2, "stagnation_stop": 2}})
    assert project.climb()[-1]["outcome"] == "kept"
    prompt = project.check("show", "4", "--prompt")
    assert "flattened" not in prompt and "provider_failed" not in prompt


def test_a_snapshot_of_an_older_version_is_not_used(played: Projects, monkeypatch: pytest.MonkeyPatch) -> None:
    history, seal = History(played(answer(2)).results), Seal(b"secret")
    with monkeypatch.context() as patch:
        patch.setattr(results_file, "_FOLD", "standing")
        history.save_snapshot(history.replay(Snapshot()), seal)
        assert history.load_snapshot(seal).end > 0
    assert history.load_snapshot(seal).end == 0
