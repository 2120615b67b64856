"""``goalseek init --template``: a complete example that is safe, that doctor accepts, and that climbs at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from doctor_cases import Case

from goalseek.cli.commands.demo import templates
from goalseek.manifest import loading
from goalseek.manifest.tables import TIME_SOURCES

FOLDER = Path(__file__).parents[2] / "fixtures/templates"
NEEDS = {"cpp": "c++", "hyperfine": "hyperfine"}
RUNNABLE = [pytest.param(name, marks=[pytest.mark.needs(NEEDS[name])] if name in NEEDS else []) for name in templates()]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """An empty folder outside of any repository."""
    case = Case(tmp_path / "empty", tmp_path / "runs")
    case.folder.mkdir()
    return case


def test_these_are_there() -> None:
    assert templates() == ["cpp", "hyperfine", "pytest", "python", "text"]


@pytest.mark.parametrize("name", templates())
def test_no_command_shows_hidden_files_to_code_and_the_number_is_out_of_its_reach(name: str) -> None:
    manifest = loading.load(FOLDER / name / "goalseek.toml").manifest
    assert manifest.scope.hidden
    assert {command.sees for command in manifest.verify} == {"candidate", "hidden"}
    last = manifest.verify[-1]
    assert last.sees == "hidden"
    is_time = manifest.metric.source in TIME_SOURCES
    assert (manifest.metric.command == last.name) != is_time
    timed = next(command for command in manifest.verify if command.name == manifest.metric.command)
    assert not is_time or timed.outputs, "what was timed is checked"


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNABLE)
def test_doctor_accepts_it_and_it_climbs_at_once(case: Case, name: str) -> None:
    ours = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    begun = case.run("init", "--template", name)
    assert begun.exit_code == 0 and "goalseek doctor, then goalseek iterate -n 20" in begun.stdout
    assert case.git("rev-list", "--count", "main") == "1" and case.git("status", "--porcelain") == ""
    examined = case.run("doctor", variables=ours)
    assert examined.exit_code == 0 and "✗" not in examined.stdout, examined.stdout
    climbed = case.run("iterate", "-n", "3", variables=ours)
    assert climbed.exit_code == 0, climbed.stderr
    reasons = [line.split()[2] for line in climbed.stdout.splitlines() if line[:4].strip().isdigit()]
    assert reasons[0] == "measured" and len(reasons) == 4
    assert {"better", "worse", "tie", "within_noise"} >= set(reasons[1:]), climbed.stdout


def test_in_a_repository_the_files_are_left_to_the_user_and_none_is_overwritten(case: Case) -> None:
    case.git("init", "--quiet", "--initial-branch=main")
    begun = case.run("init", "--template", "text")
    assert begun.exit_code == 0 and "git add goalseek.toml hidden rules.txt && git commit" in begun.stdout
    assert case.git("status", "--porcelain").split() == ["??", "goalseek.toml", "??", "hidden/", "??", "rules.txt"]
    (case.folder / "rules.txt").write_text("mine\n")
    (case.folder / "goalseek.toml").unlink()
    refused = case.run("init", "--template", "text")
    assert refused.exit_code == 2 and "hidden is there already" in refused.stderr
    assert (case.folder / "rules.txt").read_text() == "mine\n"
    assert not (case.folder / "goalseek.toml").exists()


def test_an_unknown_name_and_a_flag_that_would_be_ignored_are_refused(case: Case) -> None:
    refused = case.run("init", "--template", "cobol")
    assert refused.exit_code == 2 and "cpp, hyperfine, pytest, python, text" in refused.stderr
    for flag in (("--writable", "a"), ("--yes",), ("-m", "fast"), ("--score", "true")):
        refused = case.run("init", "--template", "text", *flag)
        assert refused.exit_code == 2 and "--template" in refused.stderr, flag
    assert list(case.folder.iterdir()) == []
