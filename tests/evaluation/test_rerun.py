"""``goalseek audit --rerun N``: an old commit measured again with the pinned verifier, and held against its record."""

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from noisy import METRIC
from project import FILES, Project, home

# The number is the candidate's, the seed's, and of something that nobody pinned.
JUDGE = """\
drift=$(cat "$HOME/drift" 2>/dev/null || echo 0)
if [ ! -e "$HOME/mended" ] && grep -q fail answer.json; then echo "told to fail" >&2; exit $((3 + drift)); fi
if [ "$drift" = 9 ]; then exit 9; fi
sed "s/SEED/$GOALSEEK_SEED$drift/; s/SIZE/1$GOALSEEK_ITERATION$drift/; s/fail/5/" answer.json > "$GOALSEEK_RUN_DIR/metrics.json"
"""
NOISY = """\
count=$(($(cat "$HOME/count" 2>/dev/null || echo 0) + 1))
echo $count > "$HOME/count"
step=$(cat "$HOME/step" 2>/dev/null || echo 0)
echo "{\\"score\\": 1$step$((count * 7 % 10)), \\"size\\": 1}" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
GUARD = [{"query": "size", "max": 165}]


def answer(number: object) -> str:
    return f'{{"score": {number}.SEED, "size": SIZE}}\n'


def make(top: Path, judge: str = JUDGE, **metric: Any) -> Project:
    """A project after a baseline, a keep, a candidate that is worse, one that fails, one out of scope, a keep."""
    files = {**FILES, "answer.json": answer(1), "hidden/judge.sh": judge}
    project = Project.make(top, files=files, manifest={"metric": {**METRIC, **metric}, "guard": GUARD})
    moves = (answer(2), answer(0), answer("fail"), {"files": {"other.txt": "x\n"}}, answer(3))
    project.set_moves(*moves)
    project.climb("iterate", "-n", str(len(moves) if judge == JUDGE else 1))
    return project


@pytest.fixture
def climbed(made_once: Callable[..., Project], tmp_path: Path) -> Project:
    """A copy of the climb."""
    return made_once(make, tmp_path / "repository")


def drift(digit: str) -> None:
    home("drift").write_text(digit)


def again(project: Project, number: int, exit_code: int) -> dict[str, Any]:
    ended = project.run("audit", "--rerun", str(number), "--json")
    assert ended.exit_code == exit_code, ended
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.slow
def test_a_seeded_verifier_agrees_to_the_last_bit_and_nothing_is_recorded(climbed: Project) -> None:
    def state() -> object:
        return climbed.users(), climbed.git("for-each-ref"), climbed.results.read_bytes()

    before, records = state(), climbed.iterations()
    for number in (0, 2):
        found = again(climbed, number, 0)
        assert (found["iteration"], found["commit"]) == (number, records[number]["commit_hash"])
        assert found["seed"] == records[number]["runs"][-1]["seed"]
        assert found["found"]["how"] == "equal"
        score, size = found["found"]["numbers"]
        assert (score["recorded"], score["again"]) == (records[number]["runs"][-1]["value"],) * 2
        assert (size["name"], size["again"], size["how"]) == ("size", records[number]["guards"]["size"], "equal")
    assert state() == before
    ended = climbed.run("audit", "--rerun", "1")
    assert ended.exit_code == 0
    assert "with the pinned verifier and the recorded seed" in ended.stdout
    assert ": the same\n  score: " in ended.stdout and "again, identical" in ended.stdout
    assert "measuring iteration 1 again" in ended.stderr and "nothing was recorded" in ended.stderr
    assert climbed.run("audit").exit_code == 0


@pytest.mark.slow
def test_a_number_that_moved_and_stays_is_no_noise_and_named_in_its_units_and_in_percent(climbed: Project) -> None:
    drift("7")
    found = again(climbed, 5, 1)
    assert found["found"]["how"] == "differs"
    score, size = found["found"]["numbers"]
    assert score["how"] == "differs"
    assert score["difference"] == score["again"] - score["recorded"] != 0
    assert score["percent"] == pytest.approx(100 * score["difference"] / score["recorded"])
    assert score["once_more"] == score["again"]
    assert score["text"].endswith("measured once more, it is the same, so the difference is not noise")
    assert (size["recorded"], size["again"], size["how"]) == (150, 157, "within")
    assert size["text"] == "size: recorded 150, now 157: +7, +4.7%; on the same side of its bounds"
    climbed.set_manifest({"metric": {**METRIC, "min_delta": 0.2}, "guard": GUARD})
    found = again(climbed, 5, 0)["found"]
    assert found["how"] == "within" and "less than min_delta" in found["numbers"][0]["text"]
    climbed.set_manifest({"metric": {**METRIC, "min_delta": 0.2}, "guard": [{"query": "size", "max": 155}]})
    found = again(climbed, 5, 1)["found"]
    assert [number["how"] for number in found["numbers"]] == ["within", "differs"], "a bound was crossed"


def test_a_failed_candidate_fails_the_same_way_or_not(climbed: Project) -> None:
    def texts(number: int, exit_code: int) -> list[str]:
        found: list[str] = again(climbed, number, exit_code)["found"]["text"]
        return found

    told = "verify_failed: judge ended with {}: told to fail"
    assert texts(3, 0) == [f"it fails again the same way: {told.format(3)}"]
    drift("1")
    recorded = "recorded was: judge ended with 3: told to fail"
    assert texts(3, 1) == [f"it fails again, but otherwise: {told.format(4)}", recorded]
    home("mended").touch()
    assert texts(3, 1)[0].startswith("it failed then (verify_failed), and gives 5.")
    drift("9")
    assert texts(1, 1)[0].startswith("it was measured then, and fails now: verify_failed")


def test_a_metric_that_moves_by_itself_is_held_against_the_spread_of_its_repeats(tmp_path: Path) -> None:
    project = make(tmp_path / "repository", NOISY, noise="always")
    ended = project.run("audit", "--rerun", "0")
    assert ended.exit_code == 0, ended
    assert ": the same within the noise\n  score: recorded 10" in ended.stdout
    assert "score is noisy, runs of the same code differ here by up to about " in ended.stdout
    assert "and this one lies within\n" in ended.stdout
    assert "measuring once more, to see the noise" in ended.stderr
    home("step").write_text("9")
    found = again(project, 0, 1)["found"]
    assert found["how"] == "differs"
    assert found["numbers"][0]["text"].endswith("and this one lies beyond")


def test_another_epochs_iteration_is_refused_with_why(climbed: Project) -> None:
    climbed.write({"hidden/more.txt": "more\n"})
    climbed.commit("another ruler")
    assert climbed.run("baseline").exit_code == 0
    ended = climbed.run("audit", "--rerun", "1")
    assert ended.exit_code == 2
    assert "verifier of epoch 0, and that of epoch 1 is pinned now" in ended.stderr
    assert "iteration 6 and those after it" in ended.stderr
    assert again(climbed, 6, 0)["found"]["how"] == "equal"


def test_what_cannot_be_compared_with_is_refused(climbed: Project, make_project: Callable[..., Project]) -> None:
    def refusal(*arguments: str) -> tuple[int, str]:
        ended = climbed.run("audit", "--rerun", *arguments)
        assert ended.stdout == ""
        return ended.exit_code, ended.stderr

    never = "was never measured: skipped / out_of_scope"
    for number, told in (("4", never), ("99", "no record of iteration 99"), ("x", "invalid int")):
        code, text = refusal(number)
        assert code == 2 and told in text
    with (climbed.top / ".git/goalseek/demo/lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert refusal("1")[0] == 4, "nobody waits for another run at work"
    assert refusal("1", "--rebuild")[0] == 2, "two answers are not asked for at once"
    climbed.git("update-ref", "refs/heads/goalseek/demo", "HEAD")
    code, text = refusal("1")
    assert code == 1 and "the records fail the audit" in text
    empty = make_project("empty")
    assert empty.run("audit", "--rerun", "0").exit_code == 3 and empty.traces() == []
