"""``goalseek promote --measure``: the result against its new base, both measured afresh with the pinned verifier."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from project import FILES, Project, answer, living, until

# The number is the candidate's times what a file beside it says, so it depends on the base as well.
JUDGE = """\
factor=$(cat factor.txt) || exit 4
echo "$factor $(head -1 answer.json)" >> "%s"
score=$(head -1 answer.json | tr -dc 0-9)
case $factor in
down) size=$((score * 10)) score=$((100 - score));;
lower) score=$((100 - score)) size=10;;
heavier) size=$((score * 10));;
esac
if [ "$size" ]; then
    echo "{\\"score\\": $score, \\"size\\": $size}" > "$GOALSEEK_RUN_DIR/metrics.json"
    exit
fi
sed "s/\\"score\\": \\([0-9]*\\)/\\"score\\": \\1$factor/" answer.json > "$GOALSEEK_RUN_DIR/metrics.json"
"""


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "seen"


@pytest.fixture
def climbed(make_project: Callable[..., Project], seen: Path) -> Project:
    files = {**FILES, "hidden/judge.sh": JUDGE % seen, "factor.txt": "0\n", "answer.json": answer(2)}
    project = make_project(files=files, manifest={"guard": [{"query": "size", "max_increase": "10%"}]})
    project.set_moves(answer(3), answer(4))
    assert [record["outcome"] for record in project.climb("iterate", "-n", "2")] == ["baseline", "kept", "kept"]
    seen.unlink()
    return project


def measured(project: Project, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    ended = project.run("promote", "--measure", "--json", *arguments)
    assert ended.exit_code == exit_code, ended
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_pairs_in_turn_settle_it_and_nothing_is_recorded(climbed: Project, seen: Path) -> None:
    before, records = climbed.users(), climbed.records()
    found = measured(climbed)["measured"]
    settled = found["compared"]["settled"]
    assert (settled["pairs"], settled["before"], settled["after"], settled["in_percent"]) == (2, 20, 40, True)
    assert settled["difference"] == pytest.approx(1.0)
    order = [line.partition('"score": ')[2][0] for line in seen.read_text().splitlines()]
    assert order == ["2", "4", "4", "2"]
    assert (climbed.users(), climbed.records()) == (before, records)


def test_on_a_main_that_moved_it_is_the_new_base_that_counts_under_the_pinned_verifier(climbed: Project) -> None:
    climbed.write({"factor.txt": "5\n", "hidden/judge.sh": "echo 99 > $GOALSEEK_RUN_DIR/metrics.json\n"})
    climbed.commit("another factor, another judge")
    found = measured(climbed, "--onto", "main", "--branch", "better")
    assert (found["measured"]["compared"]["settled"]["before"], found["measured"]["compared"]["settled"]["after"]) == (
        25,
        45,
    )
    assert climbed.git("rev-parse", "better") == found["commit"]
    assert climbed.git("show", "better:hidden/judge.sh").startswith("echo 99")


def test_it_says_so_in_words(climbed: Project) -> None:
    ended = climbed.run("promote", "--measure")
    assert "measured on this base: 20 → 40, the result against the base: 100% better" in ended.stdout
    assert "5 pairs" in ended.stderr


@pytest.mark.slow
def test_a_result_that_is_worse_there_or_breaks_a_guard_is_a_finding(climbed: Project) -> None:
    climbed.write({"factor.txt": "down\n"})
    climbed.commit("the other way round")
    found = measured(climbed, "--onto", "main", exit_code=1)["measured"]
    assert (found["compared"]["settled"]["before"], found["compared"]["settled"]["after"]) == (98, 96)
    assert found["compared"]["settled"]["interval"][1] < 0
    assert found["broken"] == ["size is 40, up from 20 by more than 10%"]
    assert "2% worse (exactly)" in climbed.run("promote", "--measure", "--onto", "main").stdout


@pytest.mark.parametrize(("factor", "is_worse", "broken"), [("lower", True, 0), ("heavier", False, 1)])
def test_one_of_the_two_is_a_finding_as_well(climbed: Project, factor: str, is_worse: bool, broken: int) -> None:
    climbed.write({"factor.txt": f"{factor}\n"})
    climbed.commit("another factor")
    found = measured(climbed, "--onto", "main", exit_code=1)["measured"]
    assert (found["compared"]["settled"]["interval"][1] < 0, len(found["broken"])) == (is_worse, broken)


def test_a_base_without_a_number_is_named(climbed: Project) -> None:
    climbed.git("rm", "--quiet", "factor.txt")
    climbed.write({"factor.txt/x": "now a folder\n"})
    climbed.commit("broken")
    patch = climbed.top.parent / "home.patch"
    ended = climbed.run("promote", "--measure", "--onto", "main", "--branch", "better", "--patch", str(patch))
    assert ended.exit_code == 1
    assert "the base has no number" in ended.stderr
    assert "better" not in climbed.git("for-each-ref") and not patch.exists()


@pytest.mark.slow
def test_killed_while_it_measures_the_same_command_measures_and_makes(climbed: Project, seen: Path) -> None:
    judge = 'while test -e "$HOME/hold"; do sleep 0.02; done\n' + JUDGE % seen
    climbed.write({"hidden/judge.sh": judge})
    climbed.commit("a judge that can be held")
    assert climbed.run("baseline").exit_code == 0
    seen.unlink()
    hold = Path(os.environ["HOME"], "hold")
    hold.touch()
    command = ("promote", "--measure", "--branch", "better")
    process = climbed.start(*command)
    until(lambda: any("judge.sh" in line for line in living(hold.parent).values()))
    process.kill()
    process.communicate(timeout=120)
    assert "better" not in climbed.git("for-each-ref")
    hold.unlink()
    assert climbed.run(*command).exit_code == 0
    assert climbed.git("log", "--reverse", "--format=%s", "main..better").split("\n") == ["move 1", "move 2"]
    assert len(seen.read_text().splitlines()) >= 4


def test_while_a_climb_is_at_work_nothing_is_measured_or_made(climbed: Project) -> None:
    import fcntl

    lock = os.open(climbed.top / ".git/goalseek/demo/lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert climbed.run("promote", "--measure", "--branch", "better").exit_code == 4
        assert "better" not in climbed.git("for-each-ref")
        assert climbed.run("promote", "--branch", "better").exit_code == 0
    finally:
        os.close(lock)


@pytest.mark.slow
def test_what_setup_gives_is_made_on_the_new_base_and_what_is_read_only_stays_as_pinned(
    make_project: Callable[..., Project], seen: Path
) -> None:
    judge = (JUDGE % seen).replace("cat factor.txt", 'echo "$(cat build/factor)$(cat data.txt)"')
    files = {
        **FILES,
        "hidden/judge.sh": judge,
        "factor.txt": "0\n",
        "answer.json": answer(2),
        "data.txt": "7\n",
        "notes.txt": "\n",
    }
    scope = {"writable": ["answer.json", "notes.txt"], "hidden": ["hidden/**"], "read_only": ["data.txt"]}
    setup = {"run": "mkdir -p build && cp factor.txt build/factor", "gives": ["build"]}
    project = make_project(files=files, manifest={"scope": scope, "setup": setup})
    project.set_moves(answer(3))
    project.climb("iterate", "-n", "1")
    project.write({"factor.txt": "5\n", "data.txt": "8\n", "notes.txt": "mine\n"})
    project.commit("another factor")
    settled = measured(project, "--onto", "main")["measured"]["compared"]["settled"]
    assert (settled["before"], settled["after"]) == (257, 357)
    settled = measured(project)["measured"]["compared"]["settled"]
    assert (settled["before"], settled["after"]) == (207, 307)
