"""Each fixture climbs as its own words say, through real commits and reverts, and leaves its user alone."""

import math
import random
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fixture_projects import FixtureProject
from killing import chain
from skips import levels

pytestmark = pytest.mark.slow
KEPT, SIMPLER = ("kept", "better"), ("kept", "simpler")
WORSE, TIE, GUARD = ("reverted", "worse"), ("reverted", "tie"), ("reverted", "guard")
FAILED = ("reverted", "verify_failed")
OUT_OF_SCOPE = ("skipped", "out_of_scope")


def test_digits_climbs_by_its_script(tmp_path: Path) -> None:
    project = FixtureProject(tmp_path / "digits", "digits")
    records = climbed(project, "experiment.py", "-n", "13", "--provider", "scripted")
    assert outcomes(records) == [
        *(KEPT, WORSE, KEPT, WORSE, KEPT, KEPT, KEPT),
        *(FAILED, KEPT, TIE, KEPT, KEPT, SIMPLER),
    ]
    assert values(records)[1] == pytest.approx(0.745, abs=1e-9)
    assert values(records)[13] == pytest.approx(0.955, abs=1e-9)
    assert values(records)[0] < values(records)[1]
    assert "accuracy" in project.run("show", "best").stdout


def test_digits_climbs_by_turning_its_marked_constants(tmp_path: Path) -> None:
    project = FixtureProject(tmp_path / "digits", "digits")
    records = climbed(project, "experiment.py", "-n", "6")
    assert {record["provider"] for record in records[1:]} == {"tune"}
    assert best(records) > values(records)[0]
    tried = [record for record in records[1:] if record["changed_files"]]
    assert tried
    assert all(record["changed_files"] == ["experiment.py"] for record in tried)


def test_sort_speed_keeps_only_what_is_correct_and_fast(tmp_path: Path) -> None:
    project = FixtureProject(tmp_path / "sort-speed", "sort-speed")
    records = climbed(project, "sorting.py", "-n", "8")
    found = dict(enumerate(outcomes(records), start=1))
    assert {number: found[number] for number in (1, 3, 7)} == dict.fromkeys((1, 3, 7), FAILED)
    assert {number: found[number] for number in (5, 6)} == dict.fromkeys((5, 6), WORSE)
    assert values(records)[0] >= 2 * best(records)


def test_bundle_size_shrinks_the_page_and_nothing_else(tmp_path: Path) -> None:
    project = FixtureProject(tmp_path / "bundle-size", "bundle-size")
    records = climbed(project, "src/style.css", "-n", "12")
    assert outcomes(records) == [
        *(KEPT, FAILED, KEPT, GUARD, KEPT, TIE, SIMPLER),
        *(OUT_OF_SCOPE, WORSE, KEPT, FAILED, KEPT),
    ]
    assert (values(records)[0], values(records)[12]) == (2182, 1192)
    assert "build.py" in records[8]["why"]


def test_prompt_climbs_by_text_alone(tmp_path: Path) -> None:
    project = FixtureProject(tmp_path / "prompt", "prompt")
    records = climbed(project, "prompt.txt", "-n", "10")
    assert outcomes(records) == [KEPT, TIE, KEPT, WORSE, KEPT, SIMPLER, KEPT, WORSE, GUARD, KEPT]
    assert best(records) > values(records)[0]


@pytest.mark.parametrize("level", levels("none", "bubblewrap"))
def test_hostile_changes_nothing_but_the_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    project = FixtureProject(tmp_path / "hostile", "hostile")
    project.manifest.write_text(f'{project.manifest.read_text()}\n[sandbox]\nmode = "{level}"\n')
    project.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    project.start_commit = project.git("rev-parse", "HEAD")
    planted = tmp_path / "planted"
    monkeypatch.setenv("HOSTILE_MARKER", str(planted))
    expected = tomllib.loads((project.top / "expected.toml").read_text())["iteration"]
    records = climbed(project, "src/player.json", "-n", str(len(expected)))
    told = {row["number"]: (row["does"], row["outcome"], row["reason"]) for row in expected}
    found = {
        record["iteration"]: (told[record["iteration"]][0], record["outcome"], record["reason"])
        for record in records[1:]
    }
    assert found == told
    assert not planted.exists(), planted.read_text()
    assert records[4]["why"].count("thoughts.md") == 1
    assert records[5]["dropped_files"] == ["thoughts.md", "tools/helper.py"]
    assert (values(records)[0], best(records)) == (0, 42)
    assert not [note for record in records for note in record["notes"] if note.startswith("waited ")]
    poison = next(row["number"] for row in expected if row["does"] == "poison_git")
    assert "goalseek's git reads no configuration" in records[poison]["hypothesis_summary"]


def test_noisy_is_what_the_ovens_are_worth_times_the_luck_of_the_seeds(tmp_path: Path) -> None:
    project = FixtureProject(tmp_path / "noisy", "noisy")
    records = climbed(project, "experiment.py", "-n", "12")
    worth = {1: 10.0, 2: 13.0, 3: 16.9}
    seeds = []
    for record in records:
        assert record["changed_files"] in ([], ["experiment.py"], ["oven.py"])
        oven = int(project.git("show", f"{record['commit_hash']}:oven.py").rpartition(" = ")[2])
        for run in record["runs"]:
            seeds.append(run["seed"])
            if run["of"] == "candidate":
                luck = math.exp(random.Random(str(run["seed"])).gauss(0.0, 0.1))
                assert run["value"] == pytest.approx(worth[oven] * luck, rel=1e-12)
    assert len(set(seeds)) == len(seeds) >= 13
    assert [record["changed_files"] for record in records].count(["oven.py"]) == 2


def climbed(project: FixtureProject, writable: str, *arguments: str) -> list[dict[str, Any]]:
    """The records of a climb beside a user's unfinished work, once all was checked that holds for every fixture."""
    project.disturb(writable)
    before = project.users()
    project.check("iterate", *arguments)
    assert project.users() == before
    records = project.iterations()
    assert [record["iteration"] for record in records] == list(range(len(records)))
    assert len(records) == int(arguments[1]) + 1
    assert (records[0]["outcome"], records[0]["commit_hash"]) == ("baseline", project.start_commit)
    commits = project.git("rev-list", "--reverse", "--first-parent", f"goalseek/{project.name}").splitlines()
    assert commits == chain(project)
    project.check("audit")
    return records


def outcomes(records: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Outcome and reason of every iteration but the baseline."""
    return [(record["outcome"], record["reason"]) for record in records[1:]]


def values(records: Sequence[dict[str, Any]]) -> list[Any]:
    """The metric of every iteration, the baseline first; None where nothing was measured."""
    return [record["metric"]["value"] for record in records]


def best(records: Sequence[dict[str, Any]]) -> Any:
    """The value that was kept last."""
    return [record["metric"]["value"] for record in records if record["outcome"] in ("baseline", "kept")][-1]
