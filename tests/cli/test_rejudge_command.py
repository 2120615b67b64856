"""``goalseek rejudge``: the sentence that answers, a line for each decision that differs, JSON, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from project import Project, Projects, answer
from shown import on_a_terminal

from goalseek.locks import project_lock

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MOVES = (answer(1.5), answer(1.6), answer(0), answer(1.85), answer("fail"), answer(3))
SAME = "under min_delta = 0.05 all 5 decisions stay the same"
OTHER = """\
under min_delta = 0.2 the first decision is the same; iteration 2 would have been reverted; after that 0 of 3 would differ by themselves
    2  kept better -> reverted below_min_delta  1.6 beats 1.5 by 0.1, less than min_delta, 0.2; move 2
note: 1 iteration that a guard, a failure, a review or a person decided stays as recorded
"""


@pytest.fixture
def climbed(project: Project) -> Project:
    """A climb of six candidates: 1.5, 1.6, 1.85 and 3 were kept."""
    project.set_moves(*MOVES)
    project.climb("iterate", "-n", str(len(MOVES)))
    return project


def test_it_answers_in_a_sentence_and_lists_what_differs_from_records_alone(climbed: Project) -> None:
    before, files = climbed.users(), sorted(climbed.folder.rglob("*"))
    records = (climbed.folder / ".goalseek/demo/logs/results.jsonl").read_bytes()
    assert climbed.check("rejudge", "--set", "metric.min_delta=0.05").splitlines()[0] == SAME
    assert climbed.check("rejudge", "--set", "metric.min_delta=0.2") == OTHER
    own = climbed.top / ".git" / "goalseek" / "demo"
    with project_lock(own, doing="iterate"):
        assert climbed.check("rejudge", "--set", "metric.min_delta = 0.2") == OTHER
    assert climbed.users() == before and sorted(climbed.folder.rglob("*")) == files
    shutil.move(climbed.folder / ".goalseek", climbed.top.parent / "elsewhere")
    shutil.rmtree(climbed.top / ".git")
    for path in ("elsewhere/demo", "elsewhere/demo/logs/results.jsonl"):
        assert climbed.check("rejudge", f"../{path}", "--set", "metric.min_delta=0.2") == OTHER
    assert (climbed.top.parent / "elsewhere/demo/logs/results.jsonl").read_bytes() == records


def test_it_names_the_end_of_the_run_under_other_limits_and_needs_more_runs_where_they_end(climbed: Project) -> None:
    told = climbed.check("rejudge", "--set", "limits.iterations=3", "--set", "limits.failures=1")
    reached = "limits.iterations = 3 is reached, 3 spent"
    best = "its best is 1.6 there, and 3 at iteration 6"
    assert (
        told
        == f"under limits.iterations = 3 and limits.failures = 1 the run would have ended after iteration 3: {reached}; {best}\n"
    )
    later = climbed.check("rejudge", "--set", "limits.total.iterations=7")
    assert later.endswith("the run would not have ended before iteration 6, where the records end\n")
    target = climbed.check("rejudge", "--set", "metric.target=1.55")
    assert "the run would have ended after iteration 2: the target is reached: score 1.6; its best is 1.6" in target
    both = climbed.check("rejudge", "--set", "metric.min_delta=0.2", "--set", "limits.iterations=4").splitlines()[0]
    assert both.endswith("would differ by themselves; no limit would have ended the run before iteration 2")
    always = climbed.check("rejudge", "--set", 'metric.noise="always"').splitlines()
    first = "iteration 1 needs more runs, the first decision of all; after that 0 of 4 would differ by themselves, and 4 need"
    assert always[0] == f'under noise = "always" {first} more runs'
    assert "-> needs more runs  it asks for run 1 of the incumbent, and 0 were recorded; move 1" in always[1]
    assert always[2] == "each by itself, against what was recorded before it:" and len(always) == 8


def test_its_json_has_every_decision_and_the_sentence(climbed: Project) -> None:
    told = json.loads(climbed.check("rejudge", "--set", 'metric.min_delta="10%"', "--json"))
    assert told["set"] == {"metric.min_delta": '"10%"'} and told["answer"].startswith(
        'under min_delta = "10%" the first'
    )
    assert (told["same"], told["others"], told["last_iteration"], told["best"], told["end"]) == (1, 1, 6, 3, None)
    assert [(row["iteration"], row["new_outcome"], row["in_order"]) for row in told["decisions"]] == [
        (1, "kept", True), (2, "reverted", True), (3, "reverted", False), (4, "kept", False), (6, "kept", False),
    ]  # fmt: skip
    assert climbed.check("rejudge", "--set", "metric.min_delta=0", "--query", "end.reason") == "null\n"


def test_a_line_fits_the_terminal(climbed: Project) -> None:
    shown = on_a_terminal(climbed.folder, "rejudge", "--set", "metric.min_delta=0.2", columns=78)
    (line,) = [COLOURS.sub("", line) for line in shown.splitlines() if "kept better" in line]
    assert len(line.rstrip()) <= 78 and line.rstrip().endswith("…")


@pytest.mark.parametrize(
    ("setting", "why", "hint"),
    [
        ("metric.repeats=3", "records do not tell what metric.repeats changes", "known: metric.min_delta, "),
        ("limits.stagnation=3", "records do not tell what limits.stagnation changes", "limits.total.cost_usd"),
        ("metric.min_delta", "there is no =", "--set metric.min_delta=0.01"),
        ("metric.noise=none", "Invalid value", "--set 'metric.noise=\"none\"'"),
        ('metric.noise="never"', "--set metric.noise: should be 'auto', 'none' or 'always'", ""),
        ("metric.min_delta=-1", "--set metric.min_delta: zero or more", ""),
        ("metric.alpha=0.1\nx=1", "that is more than one value", "give --set several times"),
    ],
)
def test_what_it_cannot_tell_is_refused_with_what_would_be_right(
    project: Project, setting: str, why: str, hint: str
) -> None:
    ended = project.run("rejudge", "--set", setting)
    assert ended.exit_code == 2 and why in ended.stderr and hint in ended.stderr and not ended.stdout


def test_a_key_given_twice_records_of_another_metric_and_none_are_refused(
    project: Project, make_project: Projects
) -> None:
    twice = project.run("rejudge", "--set", "metric.alpha=0.1", "--set", "metric.alpha=0.2")
    assert twice.exit_code == 2 and "metric.alpha has a value already" in twice.stderr
    assert "has no baseline yet" in project.run("rejudge", "--set", "metric.alpha=0.1").stderr
    assert "required: --set" in project.run("rejudge").stderr
    project.set_moves(answer(2))
    project.climb("iterate", "-n", "1")
    other = make_project("other", manifest={"metric": {"direction": "minimize", "query": "size", "noise": "none"}})
    ended = other.run("rejudge", str(project.folder / ".goalseek/demo"), "--set", "metric.min_delta=1")
    assert "the records are of score, to maximize; the manifest has size, to minimize" in ended.stderr


def test_it_says_where_the_manifest_s_own_rule_is_not_the_recorded_one(climbed: Project) -> None:
    climbed.set_manifest({"metric": {"direction": "maximize", "query": "score", "noise": "none", "min_delta": 0.5}})
    told = climbed.check("rejudge", "--set", "metric.min_delta=0").splitlines()
    assert told[0] == "under min_delta = 0 all 5 decisions stay the same"
    assert told[-1] == "note: the manifest's own rule decides iteration 2 otherwise than recorded: it was another then"
