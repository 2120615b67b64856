"""``goalseek promote --measure``: the result against its new base, both measured afresh with the pinned verifier."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
from project import FILES, Project, Projects, answer, home

# The number is the candidate's times what a file beside it says, so it depends on the base as well.
JUDGE = """\
factor=$(cat factor.txt) || exit 4
echo "$factor $(head -1 answer.json)" >> "$HOME/seen"
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
MEASURED_FILES = {**FILES, "hidden/judge.sh": JUDGE, "factor.txt": "0\n", "answer.json": answer(2)}


def climb(top: Path) -> Project:
    project = Project.make(top, MEASURED_FILES, {"guard": [{"query": "size", "max_increase": "10%"}]})
    project.set_moves(answer(3), answer(4))
    assert [record["outcome"] for record in project.climb("iterate", "-n", "2")] == ["baseline", "kept", "kept"]
    return project


@pytest.fixture
def climbed(made_once: Projects, tmp_path: Path) -> Project:
    """A climb from 20 to 40 that is measured once."""
    project = made_once(climb, tmp_path / "repository")
    home("seen").unlink(missing_ok=True)
    return project


def measured(project: Project, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    ended = project.run("promote", "--measure", "--json", *arguments)
    assert ended.exit_code == exit_code, ended
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def ends(found: dict[str, Any]) -> tuple[float, float]:
    """The medians of base and result."""
    settled = found["measured"]["compared"]["settled"]
    return settled["before"], settled["after"]


def test_pairs_in_turn_settle_it_and_nothing_is_recorded(climbed: Project) -> None:
    before, records = climbed.users(), climbed.records()
    found = measured(climbed)
    settled = found["measured"]["compared"]["settled"]
    assert (ends(found), settled["pairs"], settled["in_percent"]) == ((20, 40), 2, True)
    assert settled["difference"] == pytest.approx(1.0)
    order = [line.partition('"score": ')[2][0] for line in home("seen").read_text().splitlines()]
    assert order == ["2", "4", "4", "2"]
    ended = climbed.run("promote", "--measure")
    assert "measured on this base: 20 → 40, the result against the base: 100% better" in ended.stdout
    assert "5 pairs" in ended.stderr
    assert (climbed.users(), climbed.records()) == (before, records)


def test_it_is_the_new_base_that_counts_under_the_pinned_verifier(climbed: Project) -> None:
    climbed.write({"factor.txt": "5\n", "hidden/judge.sh": "echo 99 > $GOALSEEK_RUN_DIR/metrics.json\n"})
    climbed.commit("another factor, another judge")
    found = measured(climbed, "--onto", "main", "--branch", "better")
    assert ends(found) == (25, 45)
    assert climbed.git("rev-parse", "better") == found["commit"]
    assert climbed.git("show", "better:hidden/judge.sh").startswith("echo 99")
    climbed.git("rm", "--quiet", "factor.txt")
    climbed.write({"factor.txt/x": "now a folder\n"})
    climbed.commit("broken")
    patch = climbed.top.parent / "home.patch"
    ended = climbed.run("promote", "--measure", "--onto", "main", "--branch", "worse", "--patch", str(patch))
    assert ended.exit_code == 1 and "the base has no number" in ended.stderr
    assert "worse" not in climbed.git("for-each-ref") and not patch.exists()


def test_a_result_that_is_worse_there_or_breaks_a_guard_is_a_finding(climbed: Project) -> None:
    for factor, is_worse, broken in (
        ("lower", True, []),
        ("heavier", False, ["size is 40, up from 20 by more than 10%"]),
        ("down", True, ["size is 40, up from 20 by more than 10%"]),
    ):
        climbed.write({"factor.txt": f"{factor}\n"})
        climbed.commit(factor)
        found = measured(climbed, "--onto", "main", exit_code=1)
        worst = found["measured"]["compared"]["settled"]["interval"][1]
        assert (worst < 0, found["measured"]["broken"]) == (is_worse, broken)
    assert ends(found) == (98, 96)
    assert "2% worse (exactly)" in climbed.run("promote", "--measure", "--onto", "main").stdout


def test_while_a_climb_is_at_work_nothing_is_measured_or_made(climbed: Project) -> None:
    lock = os.open(climbed.top / ".git/goalseek/demo/lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert climbed.run("promote", "--measure", "--branch", "better").exit_code == 4
        assert "better" not in climbed.git("for-each-ref")
        climbed.check("promote", "--branch", "better")
    finally:
        os.close(lock)


@pytest.mark.slow
def test_setup_runs_on_the_new_base_and_read_only_files_stay_pinned(make_project: Projects) -> None:
    judge = JUDGE.replace("cat factor.txt", 'echo "$(cat build/factor)$(cat data.txt)"')
    files = {**MEASURED_FILES, "hidden/judge.sh": judge, "data.txt": "7\n", "notes.txt": "\n"}
    scope = {"writable": ["answer.json", "notes.txt"], "hidden": ["hidden/**"], "read_only": ["data.txt"]}
    setup = {"run": "mkdir -p build && cp factor.txt build/factor", "gives": ["build"]}
    project = make_project(files=files, manifest={"scope": scope, "setup": setup})
    project.set_moves(answer(3))
    project.climb("iterate", "-n", "1")
    project.write({"factor.txt": "5\n", "data.txt": "8\n", "notes.txt": "mine\n"})
    project.commit("another factor")
    assert ends(measured(project, "--onto", "main")) == (257, 357)
    assert ends(measured(project)) == (207, 307)
