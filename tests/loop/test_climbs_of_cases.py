"""Climbs with a metric of cases beyond one candidate after the other: several at once, stacks, reverts, tries, guards."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from case_projects import (
    IDS,
    WOBBLING,
    asked,
    assert_runs_are_those_asked,
    cases_project,
    files,
    part,
    right,
    scored,
    spoil,
    tables,
    unpacked,
)
from project import Project, home

ALL = range(16)
PARTS = (
    part("a", *ALL, score=0.25),
    part("b", *ALL, score=0.25),
    part("c", *ALL, score=0.25),
    part("d", *ALL, score=-1),
)
NOISES = {"deterministic": "", "noisy": WOBBLING}


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_several_at_once_are_each_asked_for_their_own_cases(tmp_path: Path, noise: str) -> None:
    spoil("import time; time.sleep(0.05)\n" + noise)
    moves = (*PARTS, part("e", *ALL, score=0.5), *(part(f"f{number}", number) for number in range(6)))
    parallel = {"agents": 2, "benches": 2, "landings": 20}
    more: dict[str, Any] = {"limits": {"stagnation": "none"}, "parallel": parallel}
    project = cases_project(tmp_path / "repository", *moves, **more)
    project.check("iterate", "-n", str(len(moves)), "--jobs", "2")
    records = project.iterations()
    assert {record["benches"] for record in records[1:]} == {2} and len(records) == len(moves) + 1
    assert [record["outcome"] for record in records].count("kept") >= 2
    assert any("moved" in [attempt["reason"] for attempt in record["attempts"]] for record in records)
    paths = {json.loads(line)[-1] for line in home("asked").read_text().splitlines()} - {None}
    assert len(paths) == 2, "a file for each bench"
    assert_runs_are_those_asked(project, has_moves=True)
    for record in records[1:]:
        counts = record["metric"].get("cases")
        assert counts is None or counts["won"] + counts["lost"] + counts["tied"] == counts["run"] <= counts["of"] == 16
    project.check("audit")
    if not noise:
        values = [record["metric"]["value"] for record in records if record["outcome"] in ("baseline", "kept")]
        assert values == sorted(set(values)), "each was kept for what it adds to the tip"


FAR = [part("f", *ALL, score=-number) for number in range(1, 9)]


@pytest.mark.slow
@pytest.mark.parametrize("race", ["auto", "off"])
def test_two_near_misses_are_tried_together_whatever_part_of_the_cases_they_ran_on(tmp_path: Path, race: str) -> None:
    moves = (*FAR[:4], part("a", 0, 1), *FAR[4:6], part("b", 2, 3))
    more: dict[str, Any] = {"metric": {"race": race}, "search": {"stack": "always"}, "limits": {"stagnation": "none"}}
    project = cases_project(tmp_path / "repository", *moves, **more)
    records = project.climb("iterate", "-n", "9")
    assert {record["outcome"] for record in records[1:9]} == {"reverted"}
    assert {records[number]["reason"] for number in (5, 8)} <= {"within_noise", "tie"}
    stack = records[9]
    assert stack["stacked"] == [5, 8]
    if stack["outcome"] == "kept" or race == "off":
        assert stack["metric"]["cases"] == {"won": 4, "lost": 0, "tied": 12, "run": 16, "of": 16, "t": 2.0, "cost": 2.0}
        assert (stack["reason"], stack["metric"]["value"]) == ("better", 0.25)
    project.check("audit")


@pytest.fixture(params=NOISES)
def kept(request: pytest.FixtureRequest, tmp_path: Path, made_once: Any) -> Project:
    """A climb after three kept changes, each in a file of its own, and one that was reverted early."""
    spoil(NOISES[request.param])
    return made_once(make_kept, tmp_path / "repository", request.param)


def make_kept(top: Path, noise: str) -> Project:
    spoil(NOISES[noise])
    project = cases_project(top, *PARTS)
    records = project.climb("iterate", "-n", "4")[1:]
    assert [record["outcome"] for record in records] == ["kept", "kept", "kept", "reverted"]
    return project


@pytest.mark.slow
def test_a_reverted_change_is_measured_on_all_cases_as_its_number_stands(kept: Project) -> None:
    for number, value in ((2, 0.5), (5, 0.75)):
        kept.check("revert", str(number), "--why", "not ours")
        record = kept.iterations()[-1]
        assert (record["outcome"], record["reason"]) == ("kept", "taken_back")
        assert record["metric"]["cases"]["run"] == 16
        assert record["metric"]["value"] == pytest.approx(value, abs=0.1)
        (own,) = (run for run in record["runs"] if run["of"] == "candidate" and len(unpacked(run)) == 16)
        assert record["metric"]["value"] == pytest.approx(own["value"])
        assert re.search(r"against the code with it: .*\d+ won, \d+ lost of 16", " ".join(record["notes"]))
    kept.set_moves(*PARTS, part("e", *ALL))
    assert kept.climb("iterate", "-n", "1")[-1]["metric"]["cases"]["run"] <= 16
    kept.check("audit")


def test_a_try_of_a_checkout_races_as_a_proposal_does(tmp_path: Path) -> None:
    project = cases_project(tmp_path / "repository")
    project.write({"answer.json": right(*range(14))})
    printed = project.check("try", "fourteen", "--why", "because")
    assert "iteration 1 kept: +87.5 points, 14 won, 0 lost of 16" in printed and "accuracy 0.875 against 0" in printed
    project.write({"answer.json": right(*range(4))})
    printed = project.check("try", "four")
    assert re.search(r"iteration 2 reverted: -[\d.]+ points, 0 won, \d lost of \d", printed)
    record = project.ask("wait", "2")
    assert record["metric"]["cases"]["run"] <= 8
    stored = project.iterations()[-1]
    assert record["metric"] == stored["metric"] and all("cases" in run for run in stored["runs"])
    for number in (0, 2):
        told = project.ask("wait", str(number))
        assert "case_ids" not in told and not any("cases" in run for run in told["runs"]), "an agent reads this"


def test_a_guard_that_is_broken_leaves_the_number_that_was_compared(tmp_path: Path) -> None:
    spoil('document["size"] = len(answers)\n')
    guard = [{"query": "size", "max": 14}]
    project = cases_project(tmp_path / "repository", right(*range(16)), right(*range(14)), guard=guard)
    _, broken, kept = project.climb("iterate", "-n", "2")
    assert (broken["reason"], broken["outcome"], kept["outcome"]) == ("guard", "reverted", "kept")
    counts = broken["metric"].get("cases")
    assert broken["metric"]["value"] == (1 if counts else None), "no number of a part of the cases"
    assert kept["metric"]["value"] == 0.875


def test_a_range_of_valid_numbers_is_that_of_all_cases(tmp_path: Path) -> None:
    """An eighth of the cases may have any mean."""
    first = {id: int(id in IDS[:8]) for id in IDS}
    metric = {"valid": [0.3, 0.8]}
    project = Project.make(tmp_path / "repository", files(first=scored(first)), tables(metric))
    project.set_moves(part("a", *ALL, score=0.25), part("b", *ALL, score=0.1))
    baseline, kept, too_good = project.climb("iterate", "-n", "2")
    assert (baseline["metric"]["value"], kept["metric"]["value"], kept["outcome"]) == (0.5, 0.75, "kept")
    assert (too_good["outcome"], too_good["reason"]) == ("reverted", "not_valid")
    assert too_good["metric"]["value"] == pytest.approx(0.85)
    outside = Project.make(tmp_path / "outside", files(), tables(metric))
    ended = outside.run("baseline")
    assert ended.exit_code == 1 and "the baseline has no number: accuracy is 0" in ended.stderr


def test_a_new_baseline_has_a_table_of_its_own_and_a_race_again(tmp_path: Path) -> None:
    project = cases_project(tmp_path / "repository", right(*range(14)))
    project.check("iterate", "-n", "1")
    project.write({"hidden/ids.json": json.dumps([*IDS, *(f"new{number}" for number in range(16))])})
    project.commit("more cases")
    project.set_moves(right(*range(14)), right(*range(15)), right(*range(16)))
    *_, pinned = project.climb("iterate", "-n", "1")
    assert pinned["metric"]["cases"]["of"] == 16
    project.check("baseline")
    *_, baseline, following = project.climb("iterate", "-n", "1")
    assert len(baseline["case_ids"]) == 32 and baseline["metric"]["value"] in (14 / 32, 15 / 32)
    assert following["metric"]["cases"]["of"] == 32
    project.check("audit")


HELD = """\
import json, os, pathlib
assert "GOALSEEK_CASES" not in os.environ
answers = json.loads(pathlib.Path("answer.json").read_text())
rows = [{"id": f"other {number}", "score": answers.get(f"q{number}", 0)} for number in range(16)]
rows[0]["score"] = None
pathlib.Path(os.environ["GOALSEEK_RUN_DIR"], "metrics.json").write_text(json.dumps({"results": rows, "final": 0.25}))
"""


@pytest.mark.parametrize(("holdout", "value"), [({}, 13 / 15), ({"query": "final"}, 0.25)], ids=["cases", "query"])
def test_a_holdout_has_cases_of_its_own_or_a_number(tmp_path: Path, holdout: dict[str, Any], value: float) -> None:
    run = f"{sys.executable} -ISB hidden/held.py"
    plain = tables()
    verify = [*plain["verify"], {"name": "final", "run": run, "sees": "both"}]
    manifest = {**plain, "verify": verify, "holdout": {"command": "final", **holdout}, "limits": {"iterations": 1}}
    project = Project.make(tmp_path / "repository", {**files(), "hidden/held.py": HELD}, manifest)
    project.set_moves(right(*range(14)))
    project.check("iterate")
    looks = [record for record in project.records() if record["kind"] == "holdout" and record["reason"] != "begun"]
    assert [(look["of"], look["reason"]) for look in looks] == [("baseline", "measured"), ("best", "measured")]
    assert looks[1]["value"] == value


def test_it_goes_on_where_it_was_stopped_with_the_runs_that_are_stored(tmp_path: Path) -> None:
    project = cases_project(tmp_path / "repository", right(*range(14)))
    project.check("baseline")
    project.step_until((project.run_folder(1) / "evidence.json").exists)
    runs = asked(1)
    record = project.climb("iterate", "-n", "1")[-1]
    assert record["outcome"] == "kept" and asked(1) == runs and len(record["runs"]) == len(runs) > 1
    assert_runs_are_those_asked(project)


def test_one_case_or_two_are_a_metric_too(tmp_path: Path) -> None:
    for count in (1, 2):
        project = cases_project(tmp_path / f"of-{count}", right(0), ids=IDS[:count])
        baseline, record = project.climb("iterate", "-n", "1")
        assert len(baseline["case_ids"]) == count and record["metric"]["cases"]["of"] == count
        assert record["outcome"] == "reverted", "one case is no evidence, as T is 1"
