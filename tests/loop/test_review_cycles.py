"""CHANGES_REQUESTED: the reviewer's words go back to the author, and what he makes of them is measured again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, home
from reviewing import FILES, REPORT, asked, killed, measured, outcome, scores, tokens
from test_repair import killed_when_stored

pytestmark = pytest.mark.slow

ASKS = 'say CHANGES_REQUESTED "No test is weakened: put it back" "It is short: yes"'
APPROVES = 'say APPROVED "fine now"'
REJECTS = "say REJECTED never"


def commits(project: Project) -> list[str]:
    """Subject and content of the branch's commits, newest first, without what was there before."""
    names = project.git("log", "--first-parent", "--format=%H", "main..goalseek/demo").split()
    return [f"{project.git('log', '-1', '--format=%s', name)}: {content(project, name)}" for name in names]


def content(project: Project, name: str = "goalseek/demo") -> str:
    return project.git("show", f"{name}:answer.json")


def test_changes_are_asked_for_once_measured_again_and_approved(reviewed: Callable[..., Project]) -> None:
    edits = (REPORT + scores(2, "two"), REPORT + 'cp answer.json "$HOME/found"; ' + scores(3, "three"))
    project = reviewed(REPORT + ASKS, REPORT + APPROVES, edits=edits)
    record = project.climb()[-1]
    assert outcome(record) == ("kept", "better")
    assert (record["metric"]["value"], measured()) == (3, ["0", "1", "1"])
    (attempt,) = record["attempts"]
    assert attempt["reason"] == "changes_requested" and attempt["usage"]["cost_usd"] == 0.5
    parents = [project.git("rev-parse", f"{name}^") for name in (record["commit_hash"], attempt["commit_hash"])]
    assert parents == [attempt["commit_hash"], record["parent_commit_hash"]]
    assert project.git("rev-parse", "goalseek/demo") == record["commit_hash"]
    assert [content(project, name) for name in (attempt["commit_hash"], "goalseek/demo")] == [
        '{"score": 2}',
        '{"score": 3}',
    ]
    assert home("found").read_text() == '{"score": 2}\n', "the author goes on with his own change"
    first, second = asked("authors")
    assert "No test is weakened: put it back" in second and "put it back" not in first
    assert '-{"score": 1}' in asked("reviews")[1] and '+{"score": 3}' in asked("reviews")[1]
    assert [note for note in record["notes"] if note.startswith("review by")] == [
        "review by command: CHANGES_REQUESTED",
        "review by command: APPROVED",
    ]
    assert tokens(record) == 400
    project.check("audit")
    assert outcome(project.climb()[-1])[0] == "skipped"


def test_a_rejection_at_last_reverts_every_try_newest_first(reviewed: Callable[..., Project]) -> None:
    project = reviewed(ASKS, ASKS, REJECTS, edits=(*(scores(number) for number in (2, 3, 4, 5)),))
    record = project.climb()[-1]
    assert outcome(record) == ("reverted", "review_rejected") and record["why"].endswith("rejected it: never")
    assert [attempt["reason"] for attempt in record["attempts"]] == ["changes_requested"] * 2
    told = commits(project)
    values = [line.rpartition(": ")[2] for line in told]
    assert values == ["1}", "2}", "3}", "4}", "3}", "2}"]
    assert [line.startswith("Revert") for line in told] == [True] * 3 + [False] * 3
    project.check("audit")
    following = project.climb()[-1]
    assert following["parent_commit_hash"] == record["rollback_commit_hash"]


def test_it_goes_back_as_often_as_the_manifest_says(reviewed: Callable[..., Project]) -> None:
    edits = tuple(scores(number) for number in range(2, 9))
    record = reviewed(ASKS, edits=edits, review={"max_cycles": 2}).climb()[-1]
    assert (len(asked("reviews")), len(asked("authors"))) == (3, 3)
    assert outcome(record) == ("reverted", "review_rejected") and "asks for changes" in record["why"]
    assert len(record["attempts"]) == 2 and record["metric"]["value"] == 4


def test_a_verifier_that_says_no_is_never_overruled(reviewed: Callable[..., Project]) -> None:
    worse = {
        "worse": scores(0),
        "tie": 'printf \'{"score": 1, "n": 1}\' > answer.json',
        "verify_failed": scores('"fail"'),
    }
    edits = [edit for number, bad in enumerate(worse.values(), start=2) for edit in (scores(number), bad)]
    project = reviewed(ASKS, edits=tuple(edits))
    records = project.climb("iterate", "-n", str(len(worse)))[1:]
    assert [outcome(record) for record in records] == [("reverted", reason) for reason in worse]
    assert len(asked("reviews")) == len(worse) and content(project) == '{"score": 1}'
    project.check("audit")


def test_a_request_that_its_author_makes_nothing_of_reverts(reviewed: Callable[..., Project]) -> None:
    nothing = ("true", "exit 1", "echo x > other.txt", scores(5))
    edits = [REPORT + edit for number, bad in enumerate(nothing, start=2) for edit in (scores(number), bad)]
    project = reviewed(ASKS, edits=tuple(edits), author={"repair": 0})
    for record in project.climb("iterate", "-n", str(len(nothing)))[1:]:
        assert outcome(record) == ("reverted", "review_rejected") and "asks for changes" in record["why"]
        assert tokens(record) == 200
    assert len(asked("reviews")) == len(nothing) and content(project) == '{"score": 1}'
    project.check("audit")


@pytest.mark.parametrize("where", ["author", "review"])
def test_killed_in_a_cycle_it_goes_on_there(reviewed: Callable[..., Project], where: str) -> None:
    hang = '[ -e "$HOME/waiting" ] || { touch "$HOME/waiting"; sleep 60; }\n'
    edits = [REPORT + scores(2), REPORT + scores(3), REPORT + scores(3)]
    words = [REPORT + ASKS, REPORT + APPROVES, REPORT + APPROVES]
    (edits if where == "author" else words)[1] = hang
    project = reviewed(*words, edits=tuple(edits))
    killed(project, signal.SIGKILL)
    record = project.climb("iterate", "-n", "1")[-1]
    assert (record["iteration"], *outcome(record), record["metric"]["value"]) == (1, "kept", "better", 3)
    calls = (3, 2) if where == "author" else (2, 3)
    assert (len(asked("authors")), len(asked("reviews"))) == calls and measured() == ["0", "1", "1"]
    assert tokens(record) == 400 and "came to no answer" in "; ".join(record["notes"])
    project.check("audit")


STORED = ["verdict", "review", "change-2", "candidate-2", "evidence-2", "verdict-2", "review-2", "record"]


@pytest.mark.parametrize("stored_last", STORED)
def test_killed_after_any_stored_answer_it_goes_on_there_and_calls_nobody_twice(
    reviewed: Callable[..., Project], stored_last: str, tmp_path: Path
) -> None:
    project = reviewed(ASKS, REJECTS, edits=(scores(2), scores(3), scores(4)))
    killed_when_stored(project, stored_last, tmp_path)
    record = project.climb("iterate", "-n", "1")[1]
    assert (record["iteration"], *outcome(record), len(record["attempts"])) == (1, "reverted", "review_rejected", 1)
    assert len(commits(project)) == 4
    assert (len(asked("authors")), len(asked("reviews"))) == (2, 2)
    reviews = sorted(path.name for path in (project.run_folder(1) / "reviews").iterdir())
    assert reviews == ["1.md", "2.md"] and not any("came to no answer" in note for note in record["notes"])
    project.check("audit")


def test_a_crash_in_a_cycle_is_repaired_and_what_comes_of_it_reviewed(reviewed: Callable[..., Project]) -> None:
    edits = (scores(2), scores('"crash"'), scores(3))
    verify = [
        {"name": "train", "run": "! grep crash answer.json", "sees": "candidate"},
        {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"},
    ]
    project = reviewed(ASKS, APPROVES, edits=edits, verify=verify)
    record = project.climb()[-1]
    assert (*outcome(record), record["metric"]["value"]) == ("kept", "better", 3)
    assert [attempt["reason"] for attempt in record["attempts"]] == ["changes_requested", "verify_failed"]
    project.check("audit")


def test_whoever_is_asked_in_the_authors_place_finds_his_change(
    reviewed: Callable[..., Project], tmp_path: Path
) -> None:
    other = tmp_path / "other.sh"
    other.write_text('cp answer.json "$HOME/found"; ' + scores(3))
    fallback = [{"name": "command", "command": ["sh", str(other)]}]
    fails = "echo half > answer.json; exit 1"
    project = reviewed(ASKS, APPROVES, edits=(scores(2), fails), author={"fallback": fallback})
    assert outcome(project.climb()[-1]) == ("kept", "better")
    assert home("found").read_text() == '{"score": 2}\n'


def test_a_reviewed_climb_is_played_again_from_its_recordings(
    reviewed: Callable[..., Project], make_project: Callable[..., Project]
) -> None:
    project = reviewed(ASKS, REJECTS, edits=(scores(2), scores(3)), author={"record": "../recordings"})
    first = project.climb()[-1]
    again = {"name": "replay", "recordings": "../recordings"}
    tables = {"provider": again, "review": {"provider": again, "criteria": ["It is short."]}}
    second = make_project("another", files=FILES, manifest=tables).climb()[-1]
    assert outcome(second) == outcome(first) and second["metric"]["value"] == 3
    assert [note.replace("replay", "command") for note in second["notes"]] == first["notes"]
    assert (len(asked("authors")), len(asked("reviews"))) == (2, 2)


def test_a_limit_that_ends_the_run_in_a_cycle_is_gone_on_from(reviewed: Callable[..., Project]) -> None:
    project = reviewed(
        REPORT + ASKS, REPORT + APPROVES, edits=(REPORT + scores(2), REPORT + scores(3)), limits={"tokens": 200}
    )
    assert len(project.climb()) == 1
    manifest = project.manifest.read_text()
    project.manifest.write_text(manifest.replace("tokens = 200", "tokens = 500"))
    record = project.climb("iterate", "-n", "1")[-1]
    assert (record["iteration"], *outcome(record), tokens(record)) == (1, "kept", "better", 400)
    assert (len(asked("authors")), len(asked("reviews"))) == (2, 2)
