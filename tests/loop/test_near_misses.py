"""Near misses tried together: git merges them, nobody is asked, and all else is as for any other candidate."""

import csv
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from project import Project, Projects, home, until

from goalseek.loop.phases.plan import MOST_MERGES
from goalseek.statistics.stacking import CANDIDATES_BEFORE, CANDIDATES_BETWEEN

NAMES = "abcdef"
JUDGE = """\
echo "$GOALSEEK_ITERATION" >> "$HOME/journal"
total=10
for name in a b c d e f; do total=$((total + $(cat $name.txt))); done
if [ "$(cat a.txt) $(cat b.txt)" = "-1 -1" ]; then total=$((total + $(cat "$HOME/bonus" 2>/dev/null || echo 7))); fi
printf '{"score": %s}\\n' "$total" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
FILES = {**{f"{name}.txt": "0\n" for name in NAMES}, "hidden/judge.sh": JUDGE}
MANIFEST: dict[str, Any] = {"scope": {"writable": ["*.txt"], "hidden": ["hidden/**"]}, "search": {"stack": "always"}}


def move(title: str, **files: object) -> dict[str, Any]:
    return {"title": title, "files": {f"{name}.txt": f"{value}\n" for name, value in files.items()}}


FAR = [move(f"far {value}", f=-value) for value in range(91, 91 + CANDIDATES_BEFORE - 4)]
AGAIN = [move(f"again {value}", f=-value) for value in range(80, 90)]
A, B, C, D, E = (move(f"try {name}", **{name: gain}) for name, gain in zip("abcde", (-1, -1, -2, -3, 1), strict=True))
WORSE = ("reverted", "worse", "scripted")


def begin(top: Path, *moves: dict[str, Any]) -> Project:
    """A project that has played the far moves and these; the next stack is due where the last has eight before it."""
    project = Project.make(top, FILES, MANIFEST)
    project.set_moves(*FAR, *moves)
    project.climb("iterate", "-n", str(len(FAR) + len(moves)))
    return project


@pytest.fixture
def stacking(made_once: Projects, tmp_path: Path) -> Project:
    """A project with eight moves that are worse each; the sixth and the eighth are better together: 15, not 10."""
    project = made_once(begin, tmp_path / "repository", C, A, D, B)
    project.set_moves(*FAR, C, A, D, B, E, *AGAIN)
    return project


def outcomes(records: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(record["outcome"], record["reason"], record["provider"]) for record in records]


def test_two_halves_that_pay_only_together_are_kept_together_and_nobody_is_asked(stacking: Project) -> None:
    records = stacking.climb("iterate", "-n", "2")[1:]
    assert outcomes(records) == [WORSE] * 8 + [("kept", "better", "stack"), ("kept", "better", "scripted")]
    assert not any("stacked" in record or "not_stacked" in record for record in records[:8])
    together = records[8]
    assert together["stacked"] == [6, 8] and "not_stacked" not in together
    assert together["hypothesis_summary"] == "6 and 8 together: try a; try b"
    assert together["changed_files"] == ["a.txt", "b.txt"] == together["planned_files"]
    assert together["usage"]["input_tokens"] == 0 and together["model"] == "" and together["changed_loc"] == 4
    assert records[9]["hypothesis_summary"] == "try e", "the script goes on where it was"
    assert not (stacking.run_folder(9) / "prompt.md").exists() and not (stacking.run_folder(9) / "prompts").exists()
    trailers = stacking.git("log", "-1", "--format=%B", together["commit_hash"])
    assert "Goalseek-Provider: stack" in trailers and trailers.startswith("6 and 8 together: try a; try b\n")
    assert stacking.git("show", "goalseek/demo:a.txt", "goalseek/demo:b.txt", "goalseek/demo:e.txt") == "-1\n-1\n1"
    stacking.check("audit")
    before = stacking.results.read_bytes()
    stacking.results.unlink()
    stacking.check("audit", "--rebuild")
    assert stacking.results.read_bytes() == before


def test_of_several_under_way_one_is_a_stack(stacking: Project) -> None:
    home("bonus").write_text("0")
    tries = stacking.climb("iterate", "-n", "4", "--jobs", "3")[9:]
    assert [(record["iteration"], record["stacked"]) for record in tries if "stacked" in record] == [(9, [6, 8])]
    assert sorted(record["hypothesis_summary"] for record in tries if "stacked" not in record)[2] == "try e"
    stacking.check("audit")


def test_where_another_change_lands_meanwhile_it_is_tried_again_on_that(stacking: Project) -> None:
    bonus = home("bonus")
    os.mkfifo(bonus)

    def answer_once_another_has_landed() -> None:
        with bonus.open("w") as first_answer:
            until(lambda: stacking.iterations()[-1]["iteration"] == 10)
            bonus.unlink()
            bonus.write_text("7")
            first_answer.write("7")

    answering = threading.Thread(target=answer_once_another_has_landed)
    answering.start()
    other, together = stacking.climb("iterate", "-n", "2", "--jobs", "2")[9:]
    answering.join()
    assert (other["iteration"], other["outcome"], other["hypothesis_summary"]) == (10, "kept", "try e")
    assert (together["iteration"], together["outcome"], together["stacked"]) == (9, "kept", [6, 8])
    assert together["base_commit_hash"] == other["commit_hash"] and together["metric"]["value"] == 16
    assert [attempt["reason"] for attempt in together["attempts"]] == ["moved"]
    assert stacking.git("show", "goalseek/demo:a.txt", "goalseek/demo:b.txt", "goalseek/demo:e.txt") == "-1\n-1\n1"
    stacking.check("audit")


def test_its_parents_are_drawn_and_exported(stacking: Project) -> None:
    stacking.climb("iterate", "-n", "1")
    page = stacking.check("show")
    assert "  made of    |- 6 worse: 9 is worse than 10 by 1; try a\n" in page
    assert "  made of    `- 8 worse: 9 is worse than 10 by 1; try b\n" in page
    assert "made of" not in stacking.check("show", "8")
    assert "* 6, try a: 9 is worse than 10 by 1" in stacking.check("show", "--plan")
    assert "-0\n+-1" in stacking.check("show", "--diff")
    assert "6 and 8 together: try a; try b" in stacking.check("log", "--last", "1")
    stacking.check("export", "--to", "csv", "climb.csv")
    with (stacking.folder / "climb.csv").open(newline="") as file:
        assert [row["stacked"] for row in csv.DictReader(file)] == [*[""] * 9, "6 8"]


@pytest.mark.parametrize("stack", ["auto", "none"])
def test_without_noise_or_where_the_manifest_says_none_nothing_is_stacked(stacking: Project, stack: str) -> None:
    stacking.set_manifest({**MANIFEST, "search": {"stack": stack}})
    assert outcomes(stacking.climb("iterate", "-n", "1"))[-1] == ("kept", "better", "scripted")


@pytest.mark.slow
def test_a_set_that_did_not_help_is_reverted_counted_and_not_tried_again(stacking: Project) -> None:
    home("bonus").write_text("0")
    stacking.set_moves(*FAR, C, A, D, B, *AGAIN)
    stacking.set_manifest({**MANIFEST, "limits": {"iterations": 20, "stagnation_stop": 9 + CANDIDATES_BETWEEN + 1}})
    ended = stacking.run("iterate", "-n", "20")
    assert ended.exit_code == 5 and "14 iterations" in ended.stderr, ended
    records = stacking.iterations()[1:]
    stacks = {record["iteration"]: record["stacked"] for record in records if "stacked" in record}
    assert stacks == {9: [6, 8], 9 + CANDIDATES_BETWEEN + 1: [5, 6]}
    assert outcomes(records)[8] == ("reverted", "worse", "stack")
    assert records[8]["rollback_commit_hash"] and stacking.git("show", "goalseek/demo:a.txt") == "0"


@pytest.mark.slow
def test_what_does_not_merge_or_was_measured_is_no_iteration(made_once: Projects, tmp_path: Path) -> None:
    home("bonus").write_text("0")
    clash, both = move("try another a", a=-2), move("try both", a=-1, b=-1)
    project = begin(tmp_path / "repository", A, clash, B, both)
    project.set_moves(*FAR, A, clash, B, both, *AGAIN)
    records = project.climb("iterate", "-n", "6")[1:]
    first, second, third, fourth = 5, 6, 7, 8
    stack = records[8]
    assert stack["not_stacked"] == [[first, third], [first, second], [first, fourth]], "known, clash, known"
    assert stack["stacked"] == [second, third]
    later = records[9 + CANDIDATES_BETWEEN]
    assert len(later["not_stacked"]) == MOST_MERGES and outcomes([later]) == [WORSE], "a proposal takes its turn"
    assert not any(tried in stack["not_stacked"] + [stack["stacked"]] for tried in later["not_stacked"])


APPEND = 'echo "$GOALSEEK_ITERATION" >> words.txt; echo "word $GOALSEEK_ITERATION"\n'
COUNT = 'echo "{\\"score\\": -$(wc -l < words.txt).$GOALSEEK_ITERATION}" > "$GOALSEEK_RUN_DIR/metrics.json"\n'


def appending(top: Path, attributes: str) -> Project:
    """A project whose candidates each add a line at the end of one file, and are worse, to the ninth iteration."""
    project = Project.make(top, {"words.txt": "a\n", "hidden/judge.sh": COUNT, ".gitattributes": attributes})
    tables = {**MANIFEST, "scope": {"writable": ["words.txt"], "hidden": ["hidden/**"]}}
    return project.set_agent(APPEND, {**tables, "search": {"stack": "always"}})


def test_stacks_that_never_come_are_said_at_the_end_in_status_and_in_the_report(tmp_path: Path) -> None:
    project = appending(tmp_path / "repository", "*.txt text\n")
    ended = project.run("iterate", "-n", "9")
    text = "5 merges of changes failed: both edit the same lines, for example the end of one file"
    assert len(project.iterations()[-1]["not_stacked"]) == 5
    assert ended.exit_code == 0 and ended.stderr.count(text) == 1
    assert text in project.check("status")
    report = project.check("report", "-o", "-", "--format", "md")
    assert "- stacks that do not merge, or were measured already: 5" in report


@pytest.mark.slow
def test_additions_to_a_list_are_stacked_where_its_attributes_have_gits_own_union(tmp_path: Path) -> None:
    project = appending(tmp_path / "repository", "words.txt merge=union\n")
    stack = project.climb("iterate", "-n", "9")[-1]
    assert stack["provider"] == "stack" and "not_stacked" not in stack
    words = project.git("show", f"{stack['commit_hash']}:words.txt").split()
    assert words == ["a", *map(str, stack["stacked"])]
    assert "came to nothing" not in project.check("status")


def test_the_whole_screening_judges_what_was_merged(stacking: Project) -> None:
    stacking.set_manifest({**MANIFEST, "scope": {**MANIFEST["scope"], "writable": ["[ac-f].txt"]}})
    refused, following = stacking.climb("iterate", "-n", "2")[-2:]
    assert (refused["outcome"], refused["reason"], refused["stacked"]) == ("skipped", "out_of_scope", [6, 8])
    assert "b.txt is outside scope.writable" in refused["why"] and refused["commit_hash"] is None
    assert outcomes([following]) == [("kept", "better", "scripted")]
    assert stacking.git("show", "goalseek/demo:b.txt") == "0"


@pytest.mark.slow
def test_a_merge_follows_a_rename_and_a_credential_in_it_is_refused(tmp_path: Path) -> None:
    lines, token = "".join(f"line {number}\n" for number in range(30)), "k" * 24
    project = Project.make(tmp_path / "repository", {**FILES, "notes.txt": lines}, MANIFEST)
    header = "diff --git a/notes.txt b/moved.txt\nsimilarity index 100%\nrename from notes.txt\nrename to moved.txt\n"
    (tmp_path / "rename.patch").write_text(header)
    moved = {"title": "move", "patch": str(tmp_path / "rename.patch"), "files": {"a.txt": "-1\n"}}
    edited = {"title": "edit", "files": {"notes.txt": lines.replace("line 29", token), "b.txt": "-1\n"}}
    project.set_moves(*FAR, C, moved, D, edited)
    project.climb("iterate", "-n", "8")
    project.set_manifest({**MANIFEST, "env": {"agent": {"set": {"SOME_TOKEN": token}}}})
    refused = project.climb("iterate", "-n", "1")[-1]
    assert refused["stacked"] == [6, 8] and refused["changed_files"] == []
    assert refused["reason"] == "out_of_scope" and "moved.txt holds a credential" in refused["why"]


@pytest.mark.slow
def test_a_person_may_decline_it_and_a_declined_set_is_not_tried_again(stacking: Project) -> None:
    stacking.set_manifest({**MANIFEST, "approve": {"before": "kept"}})
    ended = stacking.run("iterate", "-n", "1")
    assert ended.exit_code == 5 and "6 and 8 together: try a; try b" in ended.stderr
    stacking.check("decline", "9")
    declined = stacking.climb("iterate", "-n", "1")[-1]
    assert (declined["reason"], declined["stacked"]) == ("declined", [6, 8])
    stacking.set_moves(*FAR, C, A, D, B, *AGAIN)
    assert stacking.climb("iterate", "-n", str(CANDIDATES_BETWEEN + 1))[-1]["stacked"] == [5, 6]


@pytest.mark.slow
def test_step_goes_phase_by_phase_and_what_was_begun_is_finished(stacking: Project) -> None:
    for name in ("context", "plan", "change", "candidate", "evidence", "verdict"):
        stacking.step_until((stacking.run_folder(9) / f"{name}.json").exists)
        if name == "plan":
            stacking.set_manifest({**MANIFEST, "search": {"stack": "none"}})
    record = stacking.climb("iterate", "-n", "1")[-1]
    assert record["stacked"] == [6, 8] and record["outcome"] == "kept"


@pytest.mark.slow
def test_one_that_a_new_run_gives_up_is_recorded_as_what_it_was(stacking: Project) -> None:
    stacking.step_until((stacking.run_folder(9) / "candidate.json").exists)
    given_up, following = stacking.climb("iterate", "--new", "-n", "2")[-2:]
    assert (given_up["reason"], given_up["provider"], given_up["stacked"]) == ("interrupted", "stack", [6, 8])
    assert following["hypothesis_summary"] == "try e", "the script goes on where it was"
    stacking.check("audit")


@pytest.mark.slow
def test_a_stack_that_is_begun_is_not_paid_for_so_a_revert_need_not_wait_for_it(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", E, *FAR, C, A, D, B)
    project.step_until((project.run_folder(len(FAR) + 10) / "change.json").exists)
    assert project.run("revert", str(len(FAR) + 1)).exit_code == 0
    assert project.iterations()[-1]["reason"] == "taken_back"


@pytest.mark.slow
def test_a_turn_is_announced_with_its_first_proposal(stacking: Project) -> None:
    home("bonus").write_text("0")
    search = {"stack": "always", "rotate": ["fresh"], "plateau": 8}
    provider = {"name": "scripted", "script": str(stacking.script)}
    stacking.set_manifest({**MANIFEST, "search": search, "provider": provider})
    stack, proposal = stacking.climb("iterate", "-n", "2")[-2:]
    assert stack["stacked"] == [6, 8] and not any("it is the turn" in note for note in stack["notes"])
    assert "it is the turn of scripted fresh: 9 iterations without a kept change" in proposal["notes"][-1]


RECORDED = """\
case $GOALSEEK_ITERATION in
5) echo -2 > c.txt;; 6) echo -1 > a.txt;; 7) echo -3 > d.txt;; 8) echo -1 > b.txt;; 10) echo 1 > e.txt;;
*) echo "-$((80 + GOALSEEK_ITERATION))" > f.txt;;
esac
echo "edit of iteration $GOALSEEK_ITERATION"
"""


@pytest.mark.slow
def test_a_replay_of_such_a_climb_comes_to_the_same(tmp_path: Path) -> None:
    climbs = []
    for name in ("first", "second"):
        project = Project.make(tmp_path / name, FILES, MANIFEST)
        project.set_agent(RECORDED, MANIFEST, record="../recordings")
        if climbs:
            project.set_manifest({**MANIFEST, "provider": {"name": "replay", "record": "../recordings"}})
        climbs.append(project.climb("iterate", "-n", "11")[1:])
    first, second = (
        [(record["outcome"], record.get("stacked"), record["metric"]["value"]) for record in climb] for climb in climbs
    )
    assert first == second and first[8][:2] == ("kept", [6, 8])
    assert not list((tmp_path / "recordings").glob("0009*")), "nobody was asked in the ninth"
    assert len(list((tmp_path / "recordings").iterdir())) == 10


@pytest.mark.slow
def test_only_what_was_measured_on_the_present_tip_is_put_together(stacking: Project) -> None:
    records = stacking.climb("iterate", "-n", "11")[1:]
    assert [record["iteration"] for record in records if record["outcome"] == "kept"] == [9, 10]
    assert not any("not_stacked" in record for record in records[:18])
    tried = [number for stack in records[18]["not_stacked"] for number in stack]
    assert tried and min(tried) > 10, "what was tried on an older tip is not asked for"


CALLS = 'echo "$GOALSEEK_ITERATION $GOALSEEK_PHASE" >> "$HOME/calls"\n'


@pytest.mark.slow
def test_a_stack_that_crashes_has_no_author_to_go_back_to(tmp_path: Path) -> None:
    check = {"name": "check", "run": "! [ $(cat a.txt b.txt | tr -d '\\n') = -1-1 ]", "sees": "candidate"}
    verify = [check, {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"}]
    project = Project.make(tmp_path / "crashing", FILES, MANIFEST)
    project.set_agent(CALLS + RECORDED, {**MANIFEST, "verify": verify}, repair=1)
    crashed = project.climb("iterate", "-n", "9")[-1]
    assert (crashed["reason"], crashed["stacked"], crashed["attempts"]) == ("verify_failed", [6, 8], [])
    assert "9 " not in home("calls").read_text()


@pytest.mark.slow
def test_a_reviewer_is_asked_about_a_stack_and_where_it_wants_changes_the_stack_is_reverted(stacking: Project) -> None:
    word = "printf '<<<GOALSEEK REVIEW %s\\nCHANGES_REQUESTED\\n- no\\nGOALSEEK REVIEW %s>>>\\n'"
    reviewer = stacking.agent.with_name("reviewer.sh")
    reviewer.write_text(f'{CALLS}{word} "$GOALSEEK_NONCE" "$GOALSEEK_NONCE"\n')
    review = {"provider": {"name": "command", "command": ["sh", str(reviewer)]}, "criteria": ["It is short."]}
    stacking.set_agent(CALLS, {**MANIFEST, "review": review}, repair=1)
    record = stacking.climb("iterate", "-n", "1")[-1]
    assert (record["reason"], record["stacked"], record["attempts"]) == ("review_rejected", [6, 8], [])
    assert home("calls").read_text() == "9 review\n"
