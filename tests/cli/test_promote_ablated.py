"""``promote --ablate``: kept changes that do not earn their lines stay behind, where nothing is lost without them."""

from pathlib import Path
from typing import Any

import pytest
from project import Project, Projects, home, living, until
from taking_back import SCOPE, part, parts

# The larger of a and b, and the larger of c and d: one change of each kind takes the place of another.
JUDGE = """\
echo "$(cat parts/*.txt | tr '\\n' ' ')" >> "$HOME/measured"
if [ -e "$HOME/hold" ] && [ $(wc -l < "$HOME/measured") -eq 3 ]; then touch "$HOME/held"; sleep 30; fi
larger() { cat parts/$1.txt parts/$2.txt | sort -n | tail -1; }
echo "{\\"score\\": $(($(larger a b) + $(larger c d)))}" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
FILES = {"hidden/judge.sh": JUDGE, **{f"parts/{name}.txt": "1\n" for name in "abcd"}}
BOTH = {"title": "b and c", "files": {"parts/b.txt": "5\n", "parts/c.txt": "2\n"}}
MOVES = part("a", 5, "a alone"), BOTH, part("d", 9, "d at last")


def three(top: Path) -> Project:
    """1 and 2 both raise the first number, which takes one of them; 3 takes the place of the rest of 2."""
    project = Project.make(top, FILES, SCOPE)
    project.set_moves(*MOVES)
    assert [record["metric"]["value"] for record in project.climb("iterate", "-n", "3")] == [2, 6, 7, 14]
    return project


@pytest.fixture
def climbed(made_once: Projects, tmp_path: Path) -> Project:
    project = made_once(three, tmp_path / "repository")
    home("measured").write_text("")
    return project


def runs() -> list[str]:
    """What was measured, in order, since this was asked for before."""
    lines = home("measured").read_text().split(" \n")[:-1]
    home("measured").write_text("")
    return lines


def test_the_preview_says_what_it_would_cost_and_measures_nothing(climbed: Project) -> None:
    before = climbed.records()
    ended = climbed.run("promote", "--ablate")
    assert "3 commits" in ended.stdout and "goalseek promote --branch NAME --ablate" in ended.stdout
    assert "the best without each of 3 changes, then without all that have no effect: 5 runs, about" in ended.stderr
    assert (climbed.records(), runs()) == (before, [])


def test_what_does_not_earn_its_lines_is_named_and_left_out_where_nothing_is_lost_without_it(climbed: Project) -> None:
    before = climbed.users()
    shown = climbed.check("promote", "--ablate", "--branch", "home").splitlines()
    assert shown[:3] == [
        "iteration 1, a alone, has no measurable effect: with it no difference, 1 pair",
        "iteration 2, b and c, has no measurable effect: with it no difference, 1 pair",
        "iteration 3, d at last, stays: with it 100% better, 1 pair",
    ]
    first, second = shown[3].split("; ")
    assert first == "without 1, 2: 28.6% worse, 1 pair, so iteration 2 stays"
    assert second == "without 1, measured afresh against the best: no difference, 1 pair, so nothing is lost"
    assert runs() == ["1 5 2 9", "5 5 2 9", "5 1 1 9", "5 5 2 1", "1 1 1 9"], "each tree once"
    assert [climbed.git("show", f"home:parts/{name}.txt") for name in "abcd"] == ["1", "5", "2", "9"]
    made = {*climbed.users()["refs"].split("\n")} - {*before["refs"].split("\n")}
    assert made == {f"refs/heads/home {climbed.git('rev-parse', 'home')}"}
    answer: dict[str, Any] = climbed.ask("promote", "--ablate", "--patch", "home.patch")
    assert runs() == [], "what was measured is recorded"
    assert answer["ablation"]["left_out"] == [1] and [one["iterations"] for one in answer["commits"]] == [[2], [3]]
    climbed.check("audit")
    assert parts(climbed, "refs/goalseek/demo/tip") == ["5", "5", "2"], "the climb stays as it is"


def test_a_patch_that_cannot_be_written_is_refused_before_anything_is_measured(climbed: Project) -> None:
    ended = climbed.run("promote", "--ablate", "--patch", "gone/home.patch")
    assert (ended.exit_code, runs()) == (2, []) and "--patch gone/home.patch: No such file" in ended.stderr
    climbed.write({"old.patch": "old\n"})
    climbed.check("promote", "--ablate", "--without", "1,2,3", "--patch", "old.patch")
    assert (climbed.folder / "old.patch").read_text() == "old\n", "there was nothing to write"


def test_a_killed_ablation_goes_on_with_the_runs_that_are_missing(climbed: Project) -> None:
    home("hold").touch()
    climbed.kill_when(home("held"), "promote", "--ablate", "--branch", "home")
    until(lambda: not any("judge.sh" in line for line in living(home()).values()))
    home("hold").unlink()
    assert "home" not in climbed.git("for-each-ref")
    climbed.check("promote", "--ablate", "--branch", "home")
    assert runs() == ["1 5 2 9", "5 5 2 9", "5 1 1 9", "5 1 1 9", "5 5 2 1", "1 1 1 9"], "the killed one again"
    assert climbed.git("show", "home:parts/a.txt") == "1"


def test_changes_that_others_stand_on_stay_and_so_does_one_without_which_there_is_no_number(climbed: Project) -> None:
    climbed.write({"hidden/judge.sh": "grep -q 5 parts/a.txt || grep -qx 1 parts/d.txt || exit 4\n" + JUDGE})
    climbed.commit("a judge that needs a")
    climbed.check("baseline")
    climbed.set_moves(*MOVES, part("d", 10, "d again"))
    climbed.check("iterate")
    shown = climbed.check("promote", "--ablate", "--branch", "home")
    assert "iteration 1, a alone, stays: without it there is no number: judge ended with 4" in shown
    assert (
        "iteration 3, d at last, stays: iteration 5, d again, depends on a change that is left out, in parts/d.txt"
        in shown
    )
    assert "without 2, measured afresh" in shown
    assert [climbed.git("show", f"home:parts/{name}.txt") for name in "abcd"] == ["5", "1", "1", "10"]


@pytest.mark.parametrize(
    ("options", "told"),
    [(("--pairs", "3"), "--pairs goes with --ablate"), (("--ablate", "--pairs", "0"), "--pairs 0: at least 1")],
)
def test_wrong_numbers_of_pairs_are_refused(climbed: Project, options: tuple[str, ...], told: str) -> None:
    assert told in climbed.fail(2, "promote", *options)
