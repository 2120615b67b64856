"""What does not go home: what a person took back, and what ``promote --without`` leaves out."""

import csv
from pathlib import Path

import pytest
from project import Project, Projects
from taking_back import climb, part, parts, three

EXPOSED = "candidate code could read the hidden files"


@pytest.fixture
def climbed(made_once: Projects, tmp_path: Path) -> Project:
    return made_once(three, tmp_path / "repository")


def numbers(project: Project, *arguments: str) -> list[list[int]]:
    return [commit["iterations"] for commit in project.ask("promote", *arguments)["commits"]]


@pytest.mark.slow
def test_what_was_taken_back_does_not_go_home_nor_does_its_revert(climbed: Project) -> None:
    climbed.check("revert", "2")
    found = climbed.ask("promote", "--branch", "home")
    assert ([commit["iterations"] for commit in found["commits"]], found["unlike_best"]) == ([[1], [4]], [])
    assert parts(climbed, "home") == ["2", "1", "5"]
    assert "\n\nscore: 8 (was 4); candidate" in found["commits"][-1]["message"], "measured without what was taken back"
    assert "those of the best commit, as it was measured" in climbed.check("promote")
    (whole,) = climbed.ask("promote", "--squash")["commits"]
    assert whole["message"].endswith(f"* a is 2\n* c is 5\n\nscore: 8 (was 3); {EXPOSED}\n")
    climbed.check("revert", "5")
    assert numbers(climbed) == [[1], [2], [4]]
    climbed.check("revert", "1")
    first, last = climbed.ask("promote")["commits"]
    assert "score: some kept changes are left out;" in first["message"] and "score: 9; candidate" in last["message"]
    (whole,) = climbed.ask("promote", "--squash")["commits"]
    assert "score: 9 (was 3); candidate" in whole["message"], "as the first change was not there either"
    climbed.check("revert", "7")
    diff = climbed.run("show", "best", "--diff")
    assert diff.stdout.count("diff --git") == 1 and "show best --diff --all" in diff.stderr
    assert climbed.check("show", "best", "--diff", "--all").count("diff --git") == 3


def test_a_base_that_has_the_change_gets_the_revert(climbed: Project) -> None:
    climbed.check("promote", "--branch", "home")
    climbed.git("merge", "--quiet", "--ff-only", "home")
    climbed.check("revert", "2", "--why", "not ours")
    ended = climbed.run("promote")
    assert "up to iteration 4; the rest: goalseek promote --onto HEAD" in ended.stderr, ended
    found = climbed.ask("promote", "--onto", "HEAD", "--branch", "again")
    assert [commit["iterations"] for commit in found["commits"]] == [[5]]
    assert found["commits"][0]["message"].startswith('Revert "b is 3"\n\nnot ours\n')
    assert parts(climbed, "again") == ["2", "1", "5"]
    for base in ("--onto", "HEAD"), ():
        ended = climbed.run("promote", *base, "--without", "2")
        assert ended.exit_code == 2 and "--without 2: iteration 5 already took it back" in ended.stderr
    assert numbers(climbed, "--onto", "HEAD", "--without", "5") == [], "the user's own code keeps it"


def test_reverts_of_changes_on_the_same_lines_cancel_out(tmp_path: Path) -> None:
    project = climb(tmp_path / "repository", part("a", 2), part("a", 3), part("b", 2))
    project.check("revert", "2")
    assert numbers(project) == [[1], [3]]
    project.check("revert", "1")
    assert numbers(project) == [[3]]


def test_without_leaves_a_change_out_and_says_that_nobody_has_measured_the_rest(climbed: Project) -> None:
    before = climbed.records(), climbed.git("for-each-ref")
    shown = climbed.check("promote", "--without", "2")
    assert "without that, parts/b.txt differ from the best commit, so this result was never measured" in shown
    assert shown.endswith("to make the commits: goalseek promote --branch NAME --without 2\n")
    assert (climbed.records(), climbed.git("for-each-ref")) == before
    found = climbed.ask("promote", "--without", "2", "--branch", "home")
    assert ([commit["iterations"] for commit in found["commits"]], found["without"]) == ([[1], [4]], [2])
    assert parts(climbed, "home") == ["2", "1", "5"]
    assert "score: some kept changes are left out;" in found["commits"][-1]["message"]
    assert numbers(climbed, "--without", "1,2") == numbers(climbed, "--without", "1", "--without", "2") == [[4]]
    (whole,) = climbed.ask("promote", "--without", "1", "--squash")["commits"]
    assert whole["message"].endswith(f"\n\nscore: some kept changes are left out; {EXPOSED}\n")
    assert "no change was kept, or the base has them all" in climbed.run("promote", "--without", "1,2,4").stderr
    climbed.git("merge", "--quiet", "--ff-only", "home")
    assert "the rest: goalseek promote --onto HEAD" in climbed.run("promote").stderr


def test_without_is_measured_on_request(climbed: Project) -> None:
    found = climbed.ask("promote", "--without", "4", "--measure")
    settled = found["measured"]["compared"]["settled"]
    assert (settled["before"], settled["after"]) == (3, 6)


def test_what_cannot_be_left_out_is_refused_by_name(tmp_path: Path) -> None:
    project = climb(tmp_path / "repository", part("a", 2), part("b", 2), part("a", 3))
    said = project.fail(1, "promote", "--without", "1", "--branch", "home")
    assert "iteration 3, a is 3, depends on a change that is left out, in parts/a.txt (contents)" in said
    assert "leave it out too: --without 3" in said and "home" not in project.git("for-each-ref")
    assert numbers(project, "--without", "1,3") == [[2]]
    for wrong, said in (
        ("9", "it is not among the kept changes to promote: 1, 2, 3"),
        ("x", "no iteration's number"),
    ):
        assert said in project.fail(2, "promote", "--without", wrong)


def test_log_show_report_and_export_say_what_was_taken_back_and_audit_checks_the_revert(climbed: Project) -> None:
    climbed.check("revert", "2", "--why", "not ours")
    assert "taken back by iteration 5" not in climbed.check("show", "1")
    assert "  taken back by iteration 5: goalseek show 5\n" in climbed.check("show", "2")
    shown = climbed.check("show", "5")
    assert "iteration 5: kept, taken_back" in shown and "  takes back iteration 2\n" in shown and "not ours" in shown
    log = climbed.check("log", "--reason", "taken_back")
    assert 'not ours; Revert "b is 3"' in log and log.count("\n") == 1
    climbed.check("report", "-o", "page.md")
    page = (climbed.folder / "page.md").read_text()
    assert "2 kept of 4 tries" in page and "taken back by 5: " in page
    climbed.check("report", "-o", "page.html")
    assert (
        '<span class="title"><s>b is 3</s> taken back by iteration 5</span>'
        in (climbed.folder / "page.html").read_text()
    )
    climbed.check("export", "--to", "csv", "table.csv")
    rows = list(csv.DictReader((climbed.folder / "table.csv").read_text().splitlines()))
    assert [(row["reason"], row["taken_back"]) for row in rows[4:]] == [("better", ""), ("taken_back", "2")]
    records = climbed.results.read_bytes()
    climbed.results.unlink()
    climbed.check("audit", "--rebuild")
    assert climbed.results.read_bytes() == records
