"""``goalseek revert``: a kept change leaves the tip on a person's word, and what was kept after it stays."""

import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from project import Ended, Project, held_out, home
from taking_back import FILES, MOVES, SCOPE, climb, part, parts, three

from goalseek.ledger.results_file import load_standing
from goalseek.manifest.loading import load

TIP = "refs/goalseek/demo/tip"


@pytest.fixture
def climbed(made_once: Callable[..., Project], tmp_path: Path) -> Project:
    return made_once(three, tmp_path / "repository")


def refused(project: Project, code: int, *arguments: str) -> str:
    """Reverts, which must fail and leave records, refs and the user's files as they are; gives what it says."""
    before = project.users(), project.records(), project.git("for-each-ref")
    ended = project.run("revert", *arguments)
    assert ended.exit_code == code, ended
    assert (project.users(), project.records(), project.git("for-each-ref")) == before
    return ended.stderr


def reverted(project: Project, *arguments: str) -> dict[str, Any]:
    """Reverts, which must work and leave what is the user's; gives the record."""
    before = project.users()
    ended: Ended = project.run("revert", *arguments)
    assert ended.exit_code == 0, ended
    assert project.users() == before
    return project.iterations()[-1]


def name_no_provider(project: Project) -> None:
    tables = tomllib.loads(project.manifest.read_text())
    project.manifest.write_text(tomli_w.dumps({name: table for name, table in tables.items() if name != "provider"}))


def test_the_change_leaves_the_tip_what_came_after_stays_and_the_number_does_not_matter(climbed: Project) -> None:
    records, tip = climbed.iterations(), climbed.git("rev-parse", TIP)
    assert [record["outcome"] for record in records] == ["baseline", "kept", "kept", "reverted", "kept"]
    record = reverted(climbed, "2", "--why", "b is another team's")
    assert (record["outcome"], record["reason"], record["why"]) == ("kept", "taken_back", "b is another team's")
    assert (record["metric"]["value"], record["metric"]["incumbent"], record["metric"]["delta"]) == (8, 10, -2)
    assert (record["metric"]["odds"], record["provider"], record["taken_back"]) == (None, "person", 2)
    assert record["changed_files"] == ["parts/b.txt"] and record["notes"][0].endswith("8 is worse than 10 by 2")
    assert record["parent_commit_hash"] == tip and record["base_commit_hash"] == records[4]["commit_hash"]
    assert parts(climbed, TIP) == parts(climbed, "goalseek/demo") == ["2", "1", "5"]
    assert climbed.git("rev-parse", TIP) == climbed.git("rev-parse", "goalseek/demo") == record["commit_hash"]
    message = climbed.git("log", "-1", "--format=%B", TIP)
    assert message.startswith(f'Revert "b is 3"\n\nThis reverts commit {records[2]["commit_hash"]}.\n\nGoalseek-')
    assert climbed.git("rev-parse", f"{TIP}^") == tip, "one commit on the tip"
    climbed.check("audit")
    assert "iteration 5" in climbed.check("status")
    found = json.loads(climbed.check("status", "--json"))
    assert found["best"]["value"] == 8
    assert found["outcomes"] == {"baseline": 1, "kept": 3, "reverted": 1, "taken_back": 1}


def test_the_climb_goes_on_from_there_and_the_agent_reads_why(climbed: Project) -> None:
    reverted(climbed, "2", "--why", "not ours")
    climbed.set_moves(*MOVES, part("b", 3), part("a", 4))
    again, better = climbed.climb("iterate", "-n", "2")[-2:]
    assert (again["reason"], again["base_commit_hash"]) == ("duplicate", climbed.iterations()[5]["commit_hash"])
    assert (better["outcome"], better["metric"]["incumbent"], better["metric"]["value"]) == ("kept", 8, 10)
    climbed.set_agent(
        'cp "$GOALSEEK_BRIEF" "$HOME/brief.json"; cat > "$HOME/prompt.md"; echo 9 > parts/a.txt; echo nine\n', SCOPE
    )
    climbed.check("iterate")
    brief = json.loads(home("brief.json").read_text())
    history = {row["iteration"]: row for row in brief["history"]}
    assert history[5]["title"] == 'Revert "b is 3"' and history[5]["why"] == "not ours"
    assert history[2]["why"].endswith("; iteration 5 took it back: not ours")
    assert "took it back" not in history[1]["why"]
    prompt = home("prompt.md").read_text()
    assert '- 5: kept/taken_back 8, -2: Revert "b is 3"\n' in prompt
    second = prompt.partition("- 2: kept/better")[2].partition("\n- ")[0]
    assert "; iteration 5 took it back: not ours\n" in f"{second}\n"
    assert (brief["incumbent"], brief["best"], brief["stagnation"]["iterations"]) == (10, 10, 0)


def test_what_is_not_in_the_tip_is_refused_with_what_would_be_right(climbed: Project) -> None:
    assert "there is no iteration 99" in refused(climbed, 2, "99")
    assert "there is no iteration -1" in refused(climbed, 2, "--", "-1")
    assert "goalseek baseline --from" in refused(climbed, 2, "0")
    assert "iteration 3 was not kept" in refused(climbed, 2, "3")
    reverted(climbed, "2")
    assert "taken back already, by iteration 5" in (told := refused(climbed, 2, "2")) and "goalseek revert 5" in told
    climbed.check("baseline")
    assert "promote --without 1" in refused(climbed, 2, "1")


def test_taking_back_a_revert_brings_the_change_back(climbed: Project) -> None:
    first = reverted(climbed, "2")
    assert first["why"] == "a person took iteration 2 back"
    record = reverted(climbed, "5", "--why", "it was needed")
    assert (record["metric"]["value"], parts(climbed, TIP)) == (10, ["2", "3", "5"])
    assert record["hypothesis_summary"] == 'Revert "Revert "b is 3""'
    assert "iteration 5 took iteration 2 back, and is no longer in effect" in refused(climbed, 2, "5")
    assert reverted(climbed, "2")["metric"]["value"] == 8
    assert "no longer in effect" in refused(climbed, 2, "5"), "another has taken it back since"
    climbed.check("audit")


def test_what_is_taken_back_is_no_gain_of_its_proposer_until_it_is_brought_back(climbed: Project) -> None:
    def gain() -> tuple[int, int, float]:
        (proposer,) = json.loads(climbed.check("--json", "status"))["proposers"]
        return proposer["tried"], proposer["kept"], proposer["gain"]

    tried, kept, gained = gain()
    assert (tried, kept) == (4, 3) and gained > 0
    name_no_provider(climbed)
    record = reverted(climbed, "2")
    assert "turn_of" not in record, "nobody is asked, so no provider need be named"
    assert gain()[:2] == (4, 2) and gain()[2] < gained
    reverted(climbed, str(record["iteration"]))
    assert gain() == (tried, kept, pytest.approx(gained))


def test_a_change_that_later_ones_stand_on_stays_and_its_files_are_named(tmp_path: Path) -> None:
    project = climb(tmp_path / "repository", part("a", 2), part("a", 3))
    assert "parts/a.txt (contents)" in refused(project, 1, "1")
    reverted(project, "2")
    assert reverted(project, "1")["metric"]["value"] == 3
    assert parts(project, TIP) == ["1", "1", "1"]
    ended = project.run("promote")
    assert ended.exit_code == 0 and "nothing to promote" in ended.stderr
    assert "nothing was kept" in project.run("settle").stderr
    assert "every change kept since the baseline was taken back" in project.check("status").splitlines()[-1]
    report = project.check("report", "-o", "-")
    assert "every kept change was taken back" in report and "0 kept of 2 tries" in report
    project.set_moves(part("a", 2), part("a", 3), part("c", 0))
    last = project.check("iterate").splitlines()[-1]
    assert last.startswith("score 3, every kept change was taken back · ") and " · 0 kept of 3 · " in last


def test_without_a_number_nothing_lands_and_the_same_command_measures_again(tmp_path: Path) -> None:
    project = climb(tmp_path / "repository", part("a", 4), part("b", 11))
    for measured in (1, 2):
        home("measured").write_text("")
        told = refused(project, 1, "1")
        assert "iteration 1 stays: without it the code has no number: judge ended with 5" in told, measured
        assert home("measured").read_text() == "13\n"
    project.set_moves(part("a", 4), part("b", 11), part("c", 2))
    record = project.climb("iterate")[-1]
    assert (record["iteration"], record["outcome"], record["metric"]["value"]) == (3, "kept", 17)
    assert "earlier invocation" not in "".join(record["notes"])
    assert reverted(project, "1")["metric"]["value"] == 14


def test_what_the_scope_refuses_is_not_taken_back(climbed: Project) -> None:
    climbed.set_manifest({"scope": {"writable": ["parts/a.txt", "parts/c.txt"], "hidden": ["hidden/**"]}})
    assert "parts/b.txt is no longer writable" in refused(climbed, 1, "2")
    assert reverted(climbed, "1")["metric"]["value"] == 9


def test_the_whole_screening_sees_what_the_revert_brings_back(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "repository", {**FILES, "parts/d.txt": "1\n", "parts/e.log": "1\n"}, SCOPE)
    project.write({".gitignore": "*.log\n"})
    project.commit()
    first, second = "rm parts/d.txt; echo 5 > parts/a.txt", "echo 1 > parts/D.txt; echo 5 > parts/b.txt"
    third = "rm parts/e.log; echo 5 > parts/c.txt"
    script = f"case $GOALSEEK_ITERATION in 1) {first};; 2) {second};; 3) {third};; esac; echo title\n"
    project.set_agent(script, SCOPE)
    assert [record["outcome"] for record in project.climb("iterate", "-n", "3")] == ["baseline", *["kept"] * 3]
    assert "parts/d.txt differs from parts/D.txt only by case" in refused(project, 1, "1")
    assert "parts/e.log is left out" in refused(project, 1, "3")
    assert project.climb("iterate")[-1]["reason"] == "no_change", "the workspace is as it was"


@pytest.mark.slow
def test_under_noise_it_is_no_test_in_alpha_and_the_result_is_settled_and_looked_at_anew(tmp_path: Path) -> None:
    metric = {"direction": "maximize", "query": "score", "noise": "always", "settle": 2}
    final = 'echo "{\\"score\\": $(cat parts/*.txt | wc -l)}" > "$GOALSEEK_RUN_DIR/metrics.json"'
    tables = {"metric": metric, **held_out(final, sees="candidate"), "limits": {"iterations": 2}}
    project = climb(tmp_path / "repository", part("a", 2), part("b", 3), **tables)
    project.check("iterate")  # at its limit the run settles, and looks at the holdout
    before = load_standing(load(project.manifest))
    assert before.settled and {look.of for look in before.holdout} == {"baseline", "best"}
    record = reverted(project, "1")
    after = load_standing(load(project.manifest))
    assert (after.noise.tested, after.noise.kept) == (before.noise.tested, before.noise.kept) == (2, 2)
    assert (after.settled, after.keeps, after.taken_back, after.spend.iterations) == (None, 1, {1: 3}, 2)
    assert after.best and after.best == after.incumbent and after.best.commit == record["commit_hash"]
    record = reverted(project, "3")
    again = load_standing(load(project.manifest))
    assert record["metric"]["delta"] > 0 and (again.noise.tested, again.keeps) == (2, 2), "it is no test either"
    project.check("iterate")
    looks = [look for look in load_standing(load(project.manifest)).holdout if look.of == "best"]
    assert [look.commit_hash for look in looks] == [record["commit_hash"]]
    assert load_standing(load(project.manifest)).settled


@pytest.mark.slow
@pytest.mark.parametrize("option", [(), ("--provider", "scripted")])
def test_an_iteration_that_is_paid_for_is_finished_first(climbed: Project, option: tuple[str, ...]) -> None:
    climbed.set_moves(*MOVES, part("a", 4))
    if option:
        shutil.copy(climbed.script, climbed.folder / "moves.toml")
        name_no_provider(climbed)
    for _ in range(2):
        climbed.check("step", *option)
    for _ in range(3):
        told = refused(climbed, 2, "2")
        assert "iteration 5 is not finished" in told and "goalseek iterate finishes it; then goalseek revert 2" in told
        climbed.check("step", *option)
    told = f"{' '.join(('goalseek iterate', *option))} finishes it; then goalseek baseline"
    assert told in climbed.run("baseline").stderr
    climbed.check("iterate", *option)
    assert reverted(climbed, "2")["iteration"] == 6
