"""``goalseek audit --rerun N``: an old commit measured again with the pinned ruler, and held against its record."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from project import FILES, Project

# The number is the candidate's, the seed's, and of something that nobody pinned.
JUDGE = """\
drift=$(cat "$HOME/drift" 2>/dev/null || echo 0)
if grep -q fail answer.json; then echo "told to fail" >&2; exit $((3 + drift)); fi
if [ "$drift" = 9 ]; then exit 9; fi
sed "s/SEED/$GOALSEEK_SEED$drift/; s/SIZE/1$GOALSEEK_ITERATION$drift/" answer.json > "$GOALSEEK_RUN_DIR/metrics.json"
"""
GUARD = [{"query": "size", "max": 165}]


def answer(number: int) -> str:
    return f'{{"score": {number}.SEED, "size": SIZE}}\n'


def make(top: Path, **metric: Any) -> Project:
    """A project after a baseline, a keep, a candidate that is worse, one that fails, one out of scope, a keep."""
    project = Project.make(
        top,
        files={**FILES, "answer.json": answer(1), "hidden/judge.sh": JUDGE},
        manifest={"metric": {"direction": "maximize", "query": "score", **metric}, "guard": GUARD},
    )
    moves = (answer(2), answer(0), "fail", {"files": {"other.txt": "x\n"}}, answer(3))
    project.set_moves(*moves)
    project.climb("iterate", "-n", str(len(moves)))
    return project


@pytest.fixture
def climbed(made_once: Callable[..., Project], tmp_path: Path) -> Project:
    """A copy of the climb."""
    return made_once(make, tmp_path / "repository")


def drift(digit: str) -> None:
    Path(os.environ["HOME"], "drift").write_text(digit)


def again(project: Project, number: int, exit_code: int) -> dict[str, Any]:
    ended = project.run("audit", "--rerun", str(number), "--json")
    assert ended.exit_code == exit_code, ended
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def state(project: Project) -> object:
    logs = project.logs
    return project.users(), project.git("for-each-ref"), (logs / "results.jsonl").read_bytes()


@pytest.mark.slow
def test_a_seeded_verifier_agrees_to_the_last_bit_and_nothing_is_recorded(climbed: Project) -> None:
    before, records = state(climbed), climbed.iterations()
    for number in (0, 2):
        found = again(climbed, number, 0)
        assert (found["iteration"], found["commit"]) == (number, records[number]["commit_hash"])
        assert found["seed"] == records[number]["runs"][-1]["seed"]
        assert found["found"]["how"] == "equal"
        score, size = found["found"]["numbers"]
        assert (score["recorded"], score["again"]) == (records[number]["runs"][-1]["value"],) * 2
        assert (size["name"], size["again"], size["how"]) == ("size", records[number]["guards"]["size"], "equal")
    assert state(climbed) == before
    ended = climbed.run("audit", "--rerun", "1")
    assert ended.exit_code == 0
    assert "with the pinned ruler and the seed of then" in ended.stdout
    assert ": the same\n  score: " in ended.stdout
    assert "again, to the last bit" in ended.stdout
    assert "measuring iteration 1 again" in ended.stderr
    assert "nothing was recorded" in ended.stderr
    assert climbed.run("audit").exit_code == 0


def test_a_number_that_moved_is_named_in_its_units_and_in_percent(climbed: Project) -> None:
    drift("7")
    found = again(climbed, 5, 1)
    assert found["found"]["how"] == "differs"
    score, size = found["found"]["numbers"]
    assert score["how"] == "differs"
    assert score["difference"] == score["again"] - score["recorded"] != 0
    assert score["percent"] == pytest.approx(100 * score["difference"] / score["recorded"])
    assert (size["recorded"], size["again"], size["how"]) == (150, 157, "within")
    assert size["text"] == "size: recorded 150, now 157: +7, +4.67%; on the same side of its bounds"


def test_a_failed_candidate_fails_the_same_way_or_not(climbed: Project) -> None:
    assert again(climbed, 3, 0)["found"]["text"] == [
        "it fails again the same way: verify_failed: judge ended with 3: told to fail"
    ]
    drift("1")
    found = again(climbed, 3, 1)["found"]
    assert found["text"][0] == "it fails again, but otherwise: verify_failed: judge ended with 4: told to fail"
    assert found["text"][1] == "recorded was: judge ended with 3: told to fail"
    drift("9")
    assert "it was measured then, and fails now: verify_failed" in again(climbed, 1, 1)["found"]["text"][0]


def test_a_failure_that_is_none_any_more_differs(tmp_path: Path) -> None:
    judge = 'if [ ! -e "$HOME/mended" ] && grep -q x answer.json; then exit 3; fi\n' + JUDGE
    project = Project.make(tmp_path / "repository", files={**FILES, "answer.json": answer(1), "hidden/judge.sh": judge})
    project.set_moves(answer(2).replace("{", '{"x": 0,'))
    project.climb("iterate", "-n", "1")
    Path(os.environ["HOME"], "mended").touch()
    (told,) = again(project, 1, 1)["found"]["text"]
    assert told.startswith("it failed then (verify_failed), and gives 2.")


@pytest.mark.slow
def test_less_than_min_delta_decides_nothing_but_a_bound_that_is_crossed_does(tmp_path: Path) -> None:
    project = make(tmp_path / "repository", min_delta=0.2)
    drift("7")
    found = again(project, 5, 0)["found"]
    assert found["how"] == "within"
    assert "less than min_delta" in found["numbers"][0]["text"]
    project.set_manifest(
        {
            "metric": {"direction": "maximize", "query": "score", "min_delta": 0.2},
            "guard": [{"query": "size", "max": 155}],
        }
    )
    found = again(project, 5, 1)["found"]
    assert [number["how"] for number in found["numbers"]] == ["within", "differs"]


def test_a_metric_that_moves_by_itself_is_held_against_the_spread_of_its_repeats(tmp_path: Path) -> None:
    judge = """\
count=$(($(cat "$HOME/count" 2>/dev/null || echo 0) + 1))
echo $count > "$HOME/count"
step=$(cat "$HOME/step" 2>/dev/null || echo 0)
echo "{\\"score\\": 1$step$((count * 7 % 10)), \\"size\\": 1}" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
    metric = {"direction": "maximize", "query": "score", "noise": "always"}
    project = Project.make(
        tmp_path / "repository",
        files={**FILES, "answer.json": answer(1), "hidden/judge.sh": judge},
        manifest={"metric": metric},
    )
    project.set_moves(answer(2))
    project.climb("iterate", "-n", "1")
    ended = project.run("audit", "--rerun", "0")
    assert ended.exit_code == 0, ended
    assert ": the same within the noise\n  score: recorded 10" in ended.stdout
    assert "score is noisy, runs of the same code differ here by up to about " in ended.stdout
    assert ended.stdout.endswith("and this one lies within\n")
    assert "measuring once more, to see whether it moves by itself" in ended.stderr
    Path(os.environ["HOME"], "step").write_text("9")
    found = again(project, 0, 1)["found"]
    assert found["how"] == "differs"
    assert found["numbers"][0]["text"].endswith("and this one lies beyond")


def test_another_number_that_stays_is_no_noise(climbed: Project) -> None:
    drift("7")
    (score, _) = again(climbed, 5, 1)["found"]["numbers"]
    assert score["once_more"] == score["again"] != score["recorded"]
    assert score["text"].endswith("measured once more it is the same again, so this is no noise")


@pytest.mark.parametrize(
    ("number", "told"),
    [("4", "was never measured: skipped / out_of_scope"), ("99", "no record of iteration 99"), ("x", "invalid int")],
)
def test_what_was_never_measured_is_refused(climbed: Project, number: str, told: str) -> None:
    ended = climbed.run("audit", "--rerun", number)
    assert ended.exit_code == 2
    assert told in ended.stderr


def test_another_epochs_iteration_is_refused_with_why(climbed: Project) -> None:
    climbed.write({"hidden/more.txt": "more\n"})
    climbed.commit("another ruler")
    assert climbed.run("baseline").exit_code == 0
    ended = climbed.run("audit", "--rerun", "1")
    assert ended.exit_code == 2
    assert "ruler of epoch 0, and that of epoch 1 is pinned now" in ended.stderr
    assert "iteration 6 and those after it" in ended.stderr
    assert again(climbed, 6, 0)["found"]["how"] == "equal"


def test_records_that_do_not_hold_are_not_compared_with(climbed: Project) -> None:
    climbed.git("update-ref", "refs/heads/goalseek/demo", "HEAD")
    ended = climbed.run("audit", "--rerun", "1")
    assert ended.exit_code == 1
    assert "the records do not hold" in ended.stderr
    assert ended.stdout == ""


def test_another_run_at_work_is_waited_for_by_nobody_and_two_answers_are_not_asked_for_at_once(
    climbed: Project,
) -> None:
    with (climbed.top / ".git/goalseek/demo/lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert climbed.run("audit", "--rerun", "1").exit_code == 4
    assert climbed.run("audit", "--rerun", "1", "--rebuild").exit_code == 2


def test_where_nothing_was_recorded_there_is_nothing_to_measure_again(project: Project) -> None:
    assert project.run("audit", "--rerun", "0").exit_code == 3
    assert project.traces() == []
