"""What candidate code leaves behind ends neither a run nor in a place of the user's, and is never the judge's number."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from noisy import METRIC
from project import Project, answer

from goalseek.disk import create, remove_if_exists

SHOW = 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"'


def by_shell(make_project: Callable[..., Project], *verify: dict[str, object], **tables: object) -> Project:
    """A project whose candidate is ``answer.sh``, run first by itself; ``verify`` are the commands after that."""
    run = {"name": "run", "run": "sh answer.sh", "sees": "candidate", "outputs": ["**/*.json"]}
    project = make_project(
        "shell",
        files={"answer.sh": candidate(1), "hidden/judge.sh": "cp out/m.json $GOALSEEK_RUN_DIR/metrics.json\n"},
    )
    project.write({".gitignore": "data\n"})
    scope = {"writable": ["answer.sh"], "hidden": ["hidden/**"], "share": ["data"]}
    (project.top / "data").mkdir()
    limits = {"stagnation": "none", "failures": "none"}
    project.set_manifest({"scope": scope, "verify": [run, *verify], "limits": limits, **tables})
    project.commit("by shell")
    return project


def candidate(score: int, also: str = "true") -> str:
    return f"mkdir -p out; echo '{{\"score\": {score}}}' > out/m.json; {also}\n"


def moves(project: Project, *texts: str) -> None:
    project.set_moves(*({"files": {"answer.sh": text}} for text in texts))


JUDGE = {"name": "judge", "run": "sh hidden/judge.sh", "sees": "hidden"}


def test_a_hidden_command_has_a_run_folder_of_its_own_and_no_output_lands_in_a_shared_folder(
    make_project: Callable[..., Project],
) -> None:
    may_be_silent = {**JUDGE, "run": "test -e out/silent.json || sh hidden/judge.sh; ls $GOALSEEK_RUN_DIR"}
    after = {"name": "after", "run": "sh answer.sh", "sees": "candidate"}
    metric = {**METRIC, "noise": "none", "command": "judge"}
    project = by_shell(make_project, may_be_silent, after, metric=metric)
    forging = "echo '{\"score\": 99}' > $GOALSEEK_RUN_DIR/metrics.json; echo 1 > $GOALSEEK_RUN_DIR/left"
    silence = "echo 1 > out/silent.json"
    planting = candidate(5, "rm data; mkdir data; echo 1 > data/planted.json")
    moves(project, candidate(2, forging), candidate(3, f"{forging}; {silence}"), candidate(4, silence), planting)
    kept, none, silent, refused = project.climb("iterate", "-n", "4")[1:]
    assert (kept["outcome"], kept["metric"]["value"]) == ("kept", 2)
    assert (none["reason"], none["metric"]["value"]) == ("no_metric", None)
    assert "a file that candidate code could write does not count as judge's" in none["why"]
    assert silent["reason"] == "no_metric" and "candidate code" not in silent["why"]
    assert (refused["reason"], "data/planted.json would hide a file" in refused["why"]) == ("verify_failed", True)
    assert not any((project.top / "data").iterdir())
    log = (project.run_folder(1) / "verifier.log").read_text()
    assert "left" not in log and "metrics.json\n" in log
    artifacts = project.run_folder(1) / "measurements" / "1"
    assert json.loads((artifacts / "metrics.json").read_text()) == {"score": 2} and (artifacts / "left").exists()


def test_a_candidates_command_may_report_itself_where_the_manifest_names_it(
    make_project: Callable[..., Project],
) -> None:
    metric = {**METRIC, "noise": "none", "command": "run"}
    check = {"name": "check", "run": "grep -q score out/m.json", "sees": "hidden"}
    project = by_shell(make_project, check, metric=metric)
    reporting = "cp out/m.json $GOALSEEK_RUN_DIR/metrics.json"
    project.write({"answer.sh": candidate(1, reporting)})
    project.commit("self-reported")
    moves(project, candidate(2, reporting))
    assert [record["metric"]["value"] for record in project.climb()] == [1, 2]


def test_outputs_of_two_commands_may_differ_in_kind(make_project: Callable[..., Project]) -> None:
    again = {"name": "again", "run": "sh out/more.json", "sees": "candidate", "outputs": ["out/**"]}
    project = by_shell(make_project, again, JUDGE)
    second = "rm out/x.json; mkdir out/x.json; echo 1 > out/x.json/y; rm -r out/z; echo 1 > out/z"
    first = f"echo 1 > out/x.json; mkdir out/z; echo 1 > out/z/a.json; echo '{second}' > out/more.json"
    project.write({"answer.sh": candidate(1, "echo true > out/more.json")})
    project.commit("two commands")
    moves(project, candidate(2, first))
    assert project.climb()[-1]["outcome"] == "kept"


def test_a_metrics_file_of_a_terabyte_is_none(project: Project) -> None:
    judge = f"{SHOW}; if grep -q huge answer.json; then truncate -s 1T $GOALSEEK_RUN_DIR/metrics.json; fi"
    project.set_manifest({"verify": [{"name": "judge", "run": judge, "sees": "both"}]})
    project.commit("huge")
    project.set_moves(answer(9, more='"huge": 1,\n'), answer(2))
    huge, kept = project.climb("iterate", "-n", "2")[1:]
    assert (huge["reason"], "has more than" in huge["why"]) == ("no_metric", True)
    assert kept["outcome"] == "kept"


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("act", ["", "; echo > $GOALSEEK_RUN_DIR", "; ln -s $HOME $GOALSEEK_RUN_DIR"])
def test_candidate_code_may_take_its_run_folder_away(project: Project, act: str, once: bool) -> None:
    build = {"name": "build", "run": f"rm -r $GOALSEEK_RUN_DIR{act}", "once": once}
    metric = {"regex": 'score": ([0-9.]+)', "direction": "maximize"}
    project.set_manifest({"verify": [build, {"name": "run", "run": "cat answer.json"}], "metric": metric})
    project.commit()
    project.set_moves(answer(2))
    assert [record["metric"]["value"] for record in project.climb("iterate", "-n", "1")] == [1, 2]


@pytest.mark.slow
def test_a_deep_folder_is_removed_whatever_is_in_it(own: Path) -> None:
    root, keep = own / "root", own / "keep"
    for place in (root, keep):
        place.mkdir()
    (keep / "mine").write_text("mine")
    (root / "link").symlink_to(keep)
    here = os.open(root, os.O_RDONLY)
    for number in range(1100):  # deeper than Python recurses, and than the longest path
        if number % 50 < 3:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
            os.symlink(keep, "link-too", dir_fd=here)
        os.mkdir("deep", dir_fd=here)
        inner = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.chmod(here, 0o500 if number % 2 else 0o700)
        os.close(here)
        here = inner
    os.close(here)
    try:
        remove_if_exists(root)
        assert not root.exists() and (keep / "mine").read_text() == "mine"
    finally:  # pytest itself stumbles over what is so deep, some runs later
        subprocess.run(["rm", "-rf", root], check=True, timeout=120)


def test_a_new_file_is_put_through_no_link_and_in_the_place_of_anything(own: Path) -> None:
    root, mine = own / "root", own / "elsewhere" / "mine"
    for folder in (mine.parent, root / "folder" / "inner"):
        folder.mkdir(parents=True)
    for file in (mine, root / "file"):
        file.write_text("mine")
    (root / "away").symlink_to(mine.parent)
    (root / "linked").symlink_to(mine)
    for path in ("away/mine", "linked", "file/x", "folder", "new/er/x"):
        with create(root / path, 0o644) as opened:
            opened.write(b"new")
        assert (root / path).read_text() == "new"
    assert mine.read_text() == "mine"
