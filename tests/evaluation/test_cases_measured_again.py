"""A metric of cases measured again: by ``audit --rerun``, ``noise``, ``compare``, ``settle`` and ``promote``."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from case_projects import WOBBLING, asked, cases_project, part, right, spoil, unpacked
from project import Project, home

from goalseek.statistics.cases import CaseState, order_of
from goalseek.statistics.intervals import standard_errors

pytestmark = pytest.mark.slow
ALL = range(16)
MOVES = (part("a", *ALL, score=0.25), part("b", 0, 1, score=-1), part("c", *ALL, score=0.5), part("d", *ALL, score=-1))


def make(top: Path) -> Project:
    """A climb after a kept change, one that was dropped or is a near miss, a kept one, and one that was dropped."""
    project = cases_project(top, *MOVES)
    project.check("iterate", "-n", "4")
    return project


@pytest.fixture
def climbed(made_once: Callable[..., Project], tmp_path: Path) -> Project:
    return made_once(make, tmp_path / "repository")


def test_a_candidate_that_ran_on_a_part_is_measured_again_on_that_part(climbed: Project) -> None:
    records = climbed.iterations()
    for number in range(5):
        home("asked").unlink(missing_ok=True)
        last = records[number]["runs"][-1]
        found = climbed.ask("audit", "--rerun", str(number))
        (score,) = found["found"]["numbers"]
        assert (found["found"]["how"], score["recorded"], score["again"]) == ("equal", last["value"], last["value"])
        assert score["name"] == f"accuracy of {len(unpacked(last))} cases"
        order = order_of(16, records[number]["runs"][0]["seed"])
        names = [records[0]["case_ids"][case] for case in order if case in unpacked(last)]
        assert asked(number) == [(last["seed"], names)]
    assert "accuracy of " in climbed.check("audit", "--rerun", "4")
    spoil("rows[0]['score'] = 9\n")
    ended = climbed.run("audit", "--rerun", "4")
    assert ended.exit_code == 1 and "NOT the same" in ended.stdout


def test_noise_counts_runs_on_all_cases_alone(climbed: Project) -> None:
    found = climbed.ask("noise", "-n", "3")
    value = climbed.iterations()[3]["metric"]["value"]
    assert [run["value"] for run in found["runs"]] == [value] * 3
    measured = [record for record in climbed.records() if record["kind"] == "measurement"]
    assert {len(unpacked(record)) for record in measured} == {16}
    assert climbed.climb("iterate", "-n", "1")[-1]["reason"] == "provider_failed"
    climbed.check("audit")


def test_runs_of_one_mean_are_not_the_same_if_their_cases_differ(tmp_path: Path) -> None:
    spoil("rows[int(seed) % len(rows)]['score'] += 1\n")
    project = cases_project(tmp_path / "repository", part("a", *ALL))
    project.check("iterate", "-n", "1")
    printed = project.check("compare", "HEAD", "goalseek/demo")
    assert "(deterministic)" not in printed and "5 pairs" in printed


def test_compare_measures_a_verifier_that_is_not_pinned_on_its_own_cases(climbed: Project) -> None:
    climbed.write({"hidden/ids.json": '["other", "q0"]'})
    climbed.commit("other cases")
    climbed.write({"answer.json": '{"other": 1}'})
    climbed.commit("an answer to another case")
    home("asked").unlink(missing_ok=True)
    printed = climbed.check("compare", "HEAD~1", "HEAD")
    assert "HEAD against HEAD~1: 0.5 better" in printed
    assert {ids for _, ids in asked(5)} == {None}, "it is asked for all that it has"


@pytest.mark.parametrize("noise", ["", WOBBLING], ids=["deterministic", "noisy"])
def test_a_change_without_an_effect_does_not_earn_its_place(tmp_path: Path, noise: str) -> None:
    """No score is above 1, and the second change alone reaches that."""
    spoil('for row in rows:\n    row["score"] = min(row["score"], 1)\n' + noise)
    project = cases_project(tmp_path / "repository", part("a", *ALL, score=0.5), part("b", *ALL, score=1))
    assert [record["outcome"] for record in project.climb("iterate", "-n", "2")[1:]] == ["kept"] * 2
    ended = project.run("promote", "--ablate", "--branch", "mine")
    assert ended.exit_code == 0, ended
    assert "iteration 2, part b, stays" in ended.stdout
    assert "iteration 1, part a, has no measurable effect" in ended.stdout or noise
    assert "part a, stays: with it 0.5" not in ended.stdout


def test_without_pairs_of_runs_the_noise_of_the_answers_says_how_sure_a_difference_is() -> None:
    state = CaseState(tuple(map(str, range(100))), squares=8.0, repeats=400)
    sd = math.sqrt(state.noise / len(state.ids))
    assert sd == pytest.approx(0.01)
    pairs = [(0.5, 0.51), (0.5, 0.5)]
    assert standard_errors("maximize", pairs, (), False, sd) == pytest.approx(0.5)
    assert standard_errors("maximize", pairs, (), False, CaseState(("a",)).noise) == math.inf


def test_what_goes_home_is_measured_on_all_cases(climbed: Project) -> None:
    printed = climbed.check("promote", "--measure", "--branch", "mine")
    assert "measured on this base: 0 → 0.75" in printed


def test_settling_measures_all_cases(tmp_path: Path) -> None:
    spoil(WOBBLING)
    metric: dict[str, Any] = {"noise": "always", "settle": 2}
    project = cases_project(tmp_path / "repository", part("a", *ALL), metric=metric)
    records = project.climb("iterate", "-n", "1")
    assert records[-1]["outcome"] == "kept"
    project.check("settle")
    (settled,) = (record for record in project.records() if record["kind"] == "settle")
    assert settled["difference"] > 0.5
    measured = [record for record in project.records() if record["kind"] == "measurement"]
    assert {len(unpacked(record)) for record in measured} == {16}
    project.check("audit")


def test_what_is_left_of_a_gain_leaves_out_what_was_taken_back(tmp_path: Path) -> None:
    project = cases_project(tmp_path / "repository", right(*range(8)), right(*range(16)), metric={"race": "off"})
    project.climb("iterate", "-n", "2")
    project.check("revert", "2")
    printed = project.check("settle")
    (record,) = (record for record in project.records() if record["kind"] == "settle")
    assert (record["cases"], record["difference"], len(record["pairs"])) == (16, 0.5, 1)
    assert record["left"] == pytest.approx(0.5 * (1 - 1 / 8), abs=1e-5)  # T² is 8
    assert "about 0.44 of it is left after the luck of the cases, an estimate" in printed
