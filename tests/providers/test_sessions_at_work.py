"""Whole runs of agents that go on with their sessions: after a crash, after a review, and after a kill not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_agents import Fake
from project import Project, answer
from reviewing import tokens
from test_agents_at_work import RENEW, SECRET, log_in

pytestmark = pytest.mark.slow

JUDGE = 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
FILES = {"answer.json": answer(1), "other.txt": "x\n", "hidden/judge.sh": JUDGE}
EDIT = """
score = 2 * int(environment["GOALSEEK_ITERATION"]) + (phase == "repair")
open("answer.json", "w").write('{"score": %d}' % score)
"""
STRAYS = "run open('other.txt', 'w').close()"
ASKS, APPROVES = (
    f'say "<<<GOALSEEK REVIEW " + nonce + "\\n{word}\\nwhy not\\nGOALSEEK REVIEW " + nonce + ">>>"'
    for word in ("CHANGES_REQUESTED", "APPROVED")
)
RESUMING = {"--resume", "resume", "--session"}


@pytest.fixture
def agents(make_project: Callable[..., Project]) -> Callable[..., Project]:
    """Makes a project with this provider, and other tables."""

    def make(provider: dict[str, Any], sandbox: str = "none", **tables: Any) -> Project:
        return make_project(files=FILES, manifest={"provider": provider, "sandbox": {"mode": sandbox}, **tables})

    return make


def calls(made: Fake) -> list[tuple[str, bool]]:
    """The phase of each call, and whether it went on with a session."""
    return [(call["phase"], bool(RESUMING & set(call["argv"]))) for call in made.calls]


@pytest.mark.parametrize(
    ("name", "sandbox"),
    [
        *[(name, "none") for name in ("claude", "codex", "opencode")],
        pytest.param("claude", "bubblewrap", marks=pytest.mark.needs("bwrap")),
    ],
)
def test_a_repair_goes_on_with_the_session_of_its_apply(
    fake: Callable[..., Fake], agents: Callable[..., Project], name: str, sandbox: str
) -> None:
    made = fake(name, EDIT, apply=STRAYS)
    project = agents({"name": name}, sandbox)
    record = project.climb()[-1]
    assert (record["outcome"], record["metric"]["value"]) == ("kept", 3), record["why"]
    asked = calls(made)  # in the sandbox nobody outside sees its log
    assert asked == ([] if sandbox == "bubblewrap" else [("plan", False), ("apply", True), ("repair", True)])
    (session,) = (project.trees() / "agent" / "home" / "sessions").iterdir()
    assert session.read_text() == "3"
    (attempt,) = record["attempts"]
    assert (attempt["reason"], tokens(attempt), tokens(record), record["notes"]) == ("out_of_scope", 100, 300, [])
    told = (project.run_folder(1) / "prompts" / "repair.md").read_text()
    assert "other.txt is not the candidate's to edit" in told and "a higher rate" in told and "score" in told


@pytest.mark.parametrize(("author", "reviewer"), [("claude", "codex"), ("codex", "claude")])
def test_what_a_review_asks_for_goes_back_into_the_authors_session(
    fake: Callable[..., Fake], agents: Callable[..., Project], author: str, reviewer: str
) -> None:
    made, other = fake(author, EDIT), fake(reviewer, EDIT, _0=ASKS, always=APPROVES)
    record = agents({"name": author}, review={"provider": reviewer, "criteria": ["It is short."]}).climb()[-1]
    assert (record["outcome"], record["metric"]["value"]) == ("kept", 3), record["why"]
    assert calls(made) == [("plan", False), ("apply", True), ("repair", True)]
    assert calls(other) == [("review", False), ("review", False)], "a reviewer looks afresh"
    assert "why not" in made.calls[-1]["prompt"]
    (attempt,) = record["attempts"]
    assert (tokens(attempt), tokens(record)) == (200, 500)


@pytest.mark.parametrize("role", ["author", "reviewer"])
def test_a_login_that_was_renewed_before_a_kill_is_put_back_from_whose_home_it_was(
    fake: Callable[..., Fake], agents: Callable[..., Project], isolated: Path, role: str
) -> None:
    file, place = log_in(isolated), isolated / "waiting"
    waits = f"{RENEW}\nopen({str(place)!r}, 'w').close()\ntime.sleep(60)"
    made, other = fake("claude", EDIT, always=f"run {waits}"), fake("codex", EDIT)
    author, reviewer = (made, other) if role == "author" else (other, made)
    review = {"provider": reviewer.name, "criteria": ["It is short."]}
    project = agents({"name": author.name}, review=review)
    project.climb("baseline")
    project.kill_when(place, "iterate", "-n", "1")
    assert json.loads(file.read_text())["claudeAiOauth"]["refreshToken"] == SECRET
    assert "was put back" in project.run("baseline").stderr
    assert json.loads(file.read_text())["claudeAiOauth"]["refreshToken"] == SECRET + "+"


@pytest.mark.parametrize("phase", ["apply", "repair"])
def test_after_a_kill_a_session_begins_anew_and_what_the_killed_call_added_is_charged_once(
    fake: Callable[..., Fake], agents: Callable[..., Project], phase: str
) -> None:
    made = fake("claude", EDIT)
    project = agents({"name": "claude"})
    project.climb()
    strays = {"apply": STRAYS} if phase == "repair" else {}
    place = project.folder.parent / "waiting"
    waits = f"run STORED.write_text('9'); open({str(place)!r}, 'w').close(); time.sleep(60)"
    made.acts(EDIT, **strays, **{phase: waits})
    project.kill_when(place, "iterate", "-n", "1")
    before = calls(made)
    made.acts(EDIT, **strays)
    record = project.climb("iterate", "-n", "1")[-1]
    assert record["outcome"] == "kept", record["why"]
    assert before[-1] == (phase, True) and calls(made) == [(phase, False)]
    killed = 100
    assert (tokens(record), record["usage"]["estimated"]) == (100 * len(before) + killed, True)
    assert record["usage"]["cost_usd"] == pytest.approx(0.25 * len(before) + 0.25)


def test_where_another_one_answered_a_session_begins_anew(
    fake: Callable[..., Fake], agents: Callable[..., Project]
) -> None:
    first, second = fake("claude", EDIT, apply="auth"), fake("codex", EDIT, apply=STRAYS)
    record = agents({"name": "claude", "fallback": ["codex"]}).climb()[-1]
    assert record["outcome"] == "kept", record["why"]
    assert calls(first) == [("plan", False), ("apply", True), ("repair", False)]
    assert calls(second) == [("apply", False)] and tokens(record) == 300


def test_what_was_used_between_megabytes_of_output_is_charged_and_the_output_is_stored_short(
    fake: Callable[..., Fake], agents: Callable[..., Project]
) -> None:
    row = {"type": "step_finish", "part": {"tokens": {"input": 1000}}}
    filler = 'print(json.dumps({"type": "tool", "text": "x" * 3_000_000}))'
    fake("opencode", EDIT, apply=f"run {filler}; print(json.dumps({row!r})); {filler}; text = ''")
    project = agents({"name": "opencode"})
    record = project.climb()[-1]
    assert (record["outcome"], tokens(record)) == ("kept", 1200), record["why"]
    fake("opencode", EDIT, apply=f"run {filler}; {filler}; {filler}; {filler}; os.kill(os.getpid(), 9)")
    assert project.climb()[-1]["reason"] == "provider_failed"
    assert (project.run_folder(2) / "provider_output.md").stat().st_size < 7_000_000
