"""``[approve]``: a verdict waits for your approval, at a terminal or by ``approve`` and ``decline``."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from project import Project, Projects, answer, home
from shown import Shown

import goalseek
from goalseek.disk import write_atomic
from goalseek.errors import NEEDS_HUMAN, GoalseekError
from goalseek.phase_values import Verdict
from goalseek.project import approval
from goalseek.project.approval import Question
from goalseek.views.lines import LineWatch, _read_lines, prompt_text, question_lines

COUNTING = 'echo "$GOALSEEK_ITERATION" >> "$HOME/measured"; cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
LATER = "2020-01-01T00:00:00Z"


@pytest.fixture
def asking(make_project: Projects) -> Project:
    """A project whose keeps wait; it counts its measurements, and its first proposal is better."""
    files = {"answer.json": answer(1), "hidden/judge.sh": COUNTING}
    project = make_project(files=files, manifest={"approve": {"before": "kept"}})
    project.set_moves(answer(2), answer(1.5), answer(3))
    return project


def change(project: Project, **tables: Any) -> None:
    project.set_manifest({"approve": {"before": "kept"}, **tables})


def waited(project: Project) -> GoalseekError:
    """Climbs in this process until something waits."""
    with pytest.raises(GoalseekError) as raised:
        list(goalseek.iterate(goalseek.load(project.manifest), iterations=9))
    return raised.value


def climbed(project: Project, iterations: int = 1) -> list[tuple[int, str, str]]:
    """What the records of a climb in this process say."""
    records = goalseek.iterate(goalseek.load(project.manifest), iterations=iterations)
    return [(record.iteration, record.outcome, record.reason) for record in records]


def measured() -> list[str]:
    return home("measured").read_text().split()


def request_of(project: Project) -> Path:
    return project.logs / "word-1.json"


@pytest.mark.slow
def test_without_a_terminal_it_ends_with_5_and_an_approved_keep_goes_on_unmeasured(asking: Project) -> None:
    for _ in range(2):
        ended = asking.run("iterate", "-n", "2")
        assert ended.exit_code == 5
        assert "iteration 1 waits for your approval: kept, 2 beats 1 by 1; move 1" in ended.stderr
        assert "goalseek approve 1, or goalseek decline 1" in ended.stderr
        told = asking.state()
        assert (told["status"], told["stop_reason"]) == ("blocked", "needs_human")
    told = asking.check("approve", "1")
    assert told == "iteration 1 will be kept: 2 beats 1 by 1; goalseek iterate goes on\n"
    ended = asking.run("iterate", "-n", "2")
    assert (ended.exit_code, measured()) == (0, ["0", "1", "2"])
    first, second = asking.iterations()[1:]
    assert (first["outcome"], second["outcome"], second["metric"]["incumbent"]) == ("kept", "reverted", 2)
    assert "APPROVE" not in first["seconds"] and first["seconds"]["DECIDE"] < 5
    assert not request_of(asking).exists()


def test_a_declined_keep_is_reverted_and_the_last_word_wins(asking: Project) -> None:
    error = waited(asking)
    assert (error.exit_code, error.stop_reason) == (NEEDS_HUMAN, "needs_human")
    for word, *why in (("decline",), ("approve",), ("decline", "--why", "it drops\nthe log")):
        told = json.loads(asking.check(word, "1", *why, "--json"))
        kept = "kept" if word == "approve" else "reverted"
        assert (told["iteration"], told["word"], told["outcome"], told["holder"]) == (1, word, kept, None)
    assert climbed(asking) == [(1, "reverted", "declined")]
    record = asking.iterations()[1]
    assert record["why"] == "a person declined it: it drops the log; 2 beats 1 by 1"
    assert (record["metric"]["value"], record["metric"]["delta"]) == (2, 1)
    rollback = record["rollback_commit_hash"]
    assert asking.git("log", "-1", "--format=%B", rollback).endswith(f"This reverts commit {record['commit_hash']}.\n")
    assert asking.git("rev-parse", f"{rollback}^{{tree}}") == asking.git("rev-parse", "main^{tree}")
    asking.check("audit")


def test_before_each_a_revert_waits_as_well_and_stays_one_whatever_is_said(asking: Project) -> None:
    """What a person declined is never stacked; a candidate that failed is not anyway, and keeps its reason."""
    change(asking, approve={"before": "each"})
    asking.set_moves(answer(0.5), answer(0.25), "no number", answer(2))
    for number, word in ((1, "approve"), (2, "decline"), (3, "decline")):
        error = waited(asking)
        assert f"iteration {number} waits for your approval: reverted, " in error.message
        said = f"iteration {number} lost, and is reverted with either answer: "
        assert asking.check(word, str(number)).startswith(said)
    assert "iteration 4 waits for your approval: kept" in waited(asking).message
    records = asking.iterations()[1:]
    reasons = [(record["outcome"], record["reason"]) for record in records]
    assert reasons == [("reverted", "worse"), ("reverted", "declined"), ("reverted", "no_metric")]
    assert records[1]["why"] == "a person declined it: 0.25 is worse than 1 by 0.75"
    asking.check("audit")


@pytest.mark.slow
def test_a_word_on_anything_but_what_waits_is_refused(asking: Project) -> None:
    refusals = {("approve", "1"): "nothing waits for approval", ("approve", "one"): "invalid int"}
    for words, why in refusals.items():
        ended = asking.run(*words)
        assert ended.exit_code == 2 and why in ended.stderr
    assert asking.traces() == []
    waited(asking)
    for words, why in {
        ("decline", "2"): "iteration 2 does not wait for approval; iteration 1 does",
        ("approve", "0"): "iteration 0 is recorded already: baseline, measured",
        ("iterate", "--new"): "a new run must wait",
        ("baseline",): "a new baseline must wait",
    }.items():
        ended = asking.run(*words)
        assert ended.exit_code == 2 and why in ended.stderr, words
    assert not request_of(asking).exists()
    change(asking, approve={"before": "never"})
    ended = asking.run("approve", "1")
    assert ended.exit_code == 2 and 'set before = "kept" in [approve]' in ended.stderr
    assert climbed(asking) == [(1, "kept", "better")]


BETTER = Verdict("kept", "better", "2 beats 1 by 1")
QUESTIONS = [Question(number, "run", "commit", "seal", BETTER, "", (), 1, 1, "", False) for number in (1, 2)]


def test_a_word_bound_to_something_else_is_ignored(tmp_path: Path) -> None:
    question, path = QUESTIONS[0], approval.approval_file(tmp_path, 1)
    approval.save_approval(tmp_path, question, "approve")
    assert approval.read_approval(tmp_path, question) == "approve"
    given = json.loads(path.read_text())
    assert set(given) == {"run_id", "iteration", "commit", "decided", "word", "why"}
    other = {"run_id": "20200101T000000Z-dead", "iteration": 2, "commit": "0" * 40, "decided": "0" * 64, "word": "yes"}
    changed = [json.dumps({**given, key: value}) for key, value in other.items()]
    for content in (*changed, "{", "[]", ""):
        path.write_text(content)
        assert approval.read_approval(tmp_path, question) is None, content


def test_answers_that_are_given_at_once_all_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = QUESTIONS
    writing = iter([lambda: approval.save_approval(tmp_path, second, "decline")])

    def write(path: Path, content: str, durable: bool) -> None:
        next(writing, lambda: None)()
        write_atomic(path, content, durable)

    monkeypatch.setattr(approval, "write_atomic", write)
    approval.save_approval(tmp_path, first, "approve")
    answers = [approval.read_approval(tmp_path, question) for question in (first, second)]
    assert answers == ["approve", "decline"]


def test_an_answer_counts_though_a_limit_is_reached_and_none_is_asked_for_any_more(asking: Project) -> None:
    waited(asking)
    change(asking, limits={"deadline": LATER})
    assert waited(asking).exit_code == NEEDS_HUMAN
    asking.check("decline", "1")
    change(asking, limits={"deadline": LATER}, approve={"before": "never"})
    assert climbed(asking, 9) == [(1, "reverted", "declined")]


@pytest.mark.slow
def test_step_names_the_wait_and_a_stored_word_is_not_asked_for_again(asking: Project) -> None:
    climb = goalseek.iterate(goalseek.load(asking.manifest))
    assert next(climb).outcome == "baseline"
    climb.close()
    for _ in range(6):
        told = json.loads(asking.check("step", "--json"))
    assert told == {"done": "DECIDE", "next": "APPROVE"}
    assert asking.run("step").exit_code == 5
    asking.check("decline", "1")
    assert asking.check("step") == "done: APPROVE; next: LOG\n"
    request_of(asking).unlink()
    refused = asking.run("approve", "1")
    assert refused.exit_code == 2 and "nothing waits" in refused.stderr
    assert climbed(asking) == [(1, "reverted", "declined")]
    assert measured() == ["0", "1"]


def test_status_says_what_waits_and_what_to_type_and_prune_leaves_it(asking: Project) -> None:
    waited(asking)
    shown = asking.check("status")
    assert "iteration 1: kept, better" in shown and "changed    answer.json" in shown
    assert str(asking.run_folder(1) / "changes.diff") in shown
    assert shown.endswith("next: goalseek approve 1, or goalseek decline 1; then goalseek iterate\n")
    asking.check("approve", "1")
    told = json.loads(asking.check("status", "--json"))
    assert (told["waits"]["iteration"], told["word"]) == (1, "approve")
    assert told["next"] == "iteration 1 is answered, approve: goalseek iterate goes on"
    asking.check("prune", "--keep", "0")
    assert climbed(asking) == [(1, "kept", "better")]
    assert measured() == ["0", "1"]
    after = json.loads(asking.check("status", "--json"))
    assert (after["waits"], after["word"]) == (None, None)


@pytest.mark.slow
def test_at_a_terminal_it_asks_and_interrupted_it_asks_again(asking: Project) -> None:
    change(asking, notify={"command": ["sh", "-c", 'grep waiting >> "$HOME/told"; :']})
    terminal = Shown(asking.folder, "iterate", "-n", "3")
    shown = terminal.hear("keep iteration 1? [y]es, [n]o, [d]iff, or ^C to decide later: ")
    for part in ("kept, better", "2 beats 1 by 1", "move 1", "answer.json", "1 added, 1 removed", "changes.diff"):
        assert part in shown
    told = asking.state()
    assert (told["status"], told["phase"], told["iteration"], told["ended_at"]) == ("waiting", "APPROVE", 1, None)
    asked = json.loads(home("told").read_text())
    assert (asked["event"], asked["iteration"], asked["title"]) == ("waiting", 1, "move 1")
    assert "beats" in asked["why"] and "goalseek approve 1" in asked["next"]
    terminal.type("what?\nd\n")
    terminal.hear("keep iteration 1?")
    assert '+{"score": 2,' in terminal.hear("keep iteration 1?")
    terminal.child.send_signal(signal.SIGINT)
    assert terminal.ended() == 130
    assert (asking.state()["status"], measured()) == ("interrupted", ["0", "1"])

    terminal = Shown(asking.folder, "iterate", "-n", "3")
    terminal.hear("decide later: ")
    assert json.loads(asking.check("status", "--json"))["status"] == "waiting"
    assert f"process {terminal.child.pid} " in asking.check("approve", "1")
    terminal.hear("approve, said goalseek approve 1")
    terminal.hear("keep iteration 3?")
    terminal.type("n\n")
    assert terminal.ended() == 0
    assert measured() == ["0", "1", "2", "3"]
    outcomes = [(record["outcome"], record["reason"]) for record in asking.iterations()[1:]]
    assert outcomes == [("kept", "better"), ("reverted", "worse"), ("reverted", "declined")]


def test_a_terminal_that_is_closed_to_answers_is_like_none(asking: Project) -> None:
    waited(asking)
    terminal = Shown(asking.folder, "step")
    terminal.hear("decide later: ")
    terminal.type("\x04")
    terminal.hear("waits for your approval")
    assert terminal.ended() == 5


def test_what_an_agent_wrote_cannot_forge_the_question(asking: Project) -> None:
    verdict = Verdict("reverted", "worse", "1 is worse than 2 by 1")
    question = Question(4, "run", "c", "d", verdict, "a\x1b[2Jtitle", ("x\x07.py",), 1, 2, "/tmp/changes.diff", False)
    assert not [letter for line in question_lines(question) for letter in line if not letter.isprintable()]
    assert "reverted either way" in prompt_text(question)


def test_a_question_stays_below_all_notes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    terminal = os.fdopen(reading)
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr("sys.stderr", sys.stdout)  # as on a terminal
    watch = LineWatch("never", is_quiet=False, is_verbose=False)
    asked = Question(4, "run", "c", "d", Verdict("kept", "better", "2 beats 1"), "a title", ("x.py",), 1, 2, "/", False)
    screens = []

    def answer_after_a_note() -> approval.Approval | None:
        if not screens:
            watch.of(5).on_note("waits for your approval")
            screens.append(capsys.readouterr().out)
            return None
        screens.append(capsys.readouterr().out)
        return "approve"

    assert watch.ask(asked, answer_after_a_note) == "approve"
    prompt = prompt_text(asked)
    assert screens[0].endswith(f"{prompt}\nnote: iteration 5: waits for your approval\n{prompt}")
    assert screens[1] == ""
    watch.on_note("later")
    assert capsys.readouterr().out.endswith("\nnote: later\n")
    terminal.close()
    os.close(writing)


def test_in_the_background_it_waits_for_the_terminal_without_a_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"typed for another program\n")
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: -1)
    monkeypatch.setattr(sys, "stdin", os.fdopen(reading, closefd=False))
    typed = _read_lines()
    began = time.monotonic()
    assert [next(typed), next(typed)] == [None, None]
    assert time.monotonic() - began >= 0.1
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp())
    assert next(typed) == "typed for another program\n"
    os.close(reading)
    os.close(writing)
