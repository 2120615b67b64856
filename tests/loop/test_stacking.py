"""Near misses tried together: git merges them, nobody is asked, and all else is as for any other candidate."""

from __future__ import annotations

from typing import Any

import pytest
from project import Project, Projects, home

NAMES = "abcdef"
JUDGE = """\
echo "$GOALSEEK_ITERATION" >> "$HOME/journal"
total=10
for name in a b c d e f; do total=$((total + $(cat $name.txt))); done
if [ "$(cat a.txt) $(cat b.txt)" = "-1 -1" ]; then total=$((total + ${together:-7})); fi
printf '{"score": %s}\\n' "$total" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
MANIFEST: dict[str, Any] = {
    "scope": {"writable": ["*.txt"], "hidden": ["hidden/**"]},
    "search": {"stack": "always"},
}


def move(title: str, **files: object) -> dict[str, Any]:
    return {"title": title, "files": {f"{name}.txt": f"{value}\n" for name, value in files.items()}}


C, A, D, B = (move(f"try {name}", **{name: value}) for name, value in (("c", -2), ("a", -1), ("d", -3), ("b", -1)))


@pytest.fixture
def stacking(make_project: Projects) -> Project:
    """A project in which four moves are worse each, and the second and the fourth are better together."""
    project = make_project(files={**{f"{name}.txt": "0\n" for name in NAMES}, "hidden/judge.sh": JUDGE})
    project.set_manifest(MANIFEST)
    project.set_moves(C, A, D, B, move("try e", e=1))
    return project


def outcomes(records: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(record["outcome"], record["reason"], record["provider"]) for record in records]


WORSE = ("reverted", "worse", "scripted")


def test_two_halves_that_pay_only_together_are_kept_together_and_nobody_is_asked(stacking: Project) -> None:
    records = stacking.climb("iterate", "-n", "6")[1:]
    assert outcomes(records) == [WORSE] * 4 + [("kept", "better", "stack"), ("kept", "better", "scripted")]
    together = records[4]
    assert together["stacked"] == [2, 4] and "not_stacked" not in together
    assert together["hypothesis_summary"] == "2 and 4 together: try a; try b"
    assert together["changed_files"] == ["a.txt", "b.txt"] == together["planned_files"]
    assert together["usage"]["input_tokens"] == 0 and together["model"] == "" and together["changed_loc"] == 4
    assert all("stacked" not in record for record in records[:4])
    assert records[5]["hypothesis_summary"] == "try e", "the script goes on where it was"
    folder = stacking.run_folder(5)
    assert not (folder / "prompt.md").exists() and not (folder / "prompts").exists()
    assert "* 2, try a: 9 is worse than 10 by 1" in stacking.check("show", "5", "--plan")
    assert "-0\n+-1" in stacking.check("show", "5", "--diff")
    trailers = stacking.git("log", "-1", "--format=%B", together["commit_hash"])
    assert "Goalseek-Provider: stack" in trailers and trailers.startswith("2 and 4 together: try a; try b\n")
    assert stacking.git("show", "goalseek/demo:a.txt", "goalseek/demo:b.txt", "goalseek/demo:e.txt") == "-1\n-1\n1"
    stacking.check("audit")
    before = stacking.results.read_bytes()
    stacking.results.unlink()
    stacking.check("audit", "--rebuild")
    assert stacking.results.read_bytes() == before


def test_where_the_metric_never_moved_or_the_manifest_says_none_only_proposals_are_tried(stacking: Project) -> None:
    for search in ({}, {"stack": "none"}):
        stacking.set_manifest({**MANIFEST, "search": search})
        records = stacking.climb("iterate", "-n", "1" if search else "4")
        assert not any("stacked" in record for record in records)
    assert outcomes(records)[1:] == [WORSE] * 4 + [("kept", "better", "scripted")]


def test_a_set_that_did_not_help_is_reverted_counted_and_not_tried_again(stacking: Project) -> None:
    stacking.write({"hidden/judge.sh": JUDGE.replace("together:-7", "together:-0")})
    stacking.commit()
    stacking.set_moves(C, A, D, B, *(move(f"again {value}", f=-value) for value in range(4, 9)))
    stacking.set_manifest({**MANIFEST, "limits": {"iterations": 10, "stagnation_stop": 10}})
    ended = stacking.run("iterate", "-n", "20")
    assert ended.exit_code == 5 and "10 iterations" in ended.stdout + ended.stderr, ended
    records = stacking.iterations()[1:]
    assert [record["stacked"] for record in records if "stacked" in record] == [[2, 4], [1, 2]]
    assert [record["iteration"] for record in records if "stacked" in record] == [5, 10]
    assert outcomes(records)[4] == ("reverted", "worse", "stack")
    assert records[4]["rollback_commit_hash"] and stacking.git("show", "goalseek/demo:a.txt") == "0"


def test_what_does_not_merge_or_was_measured_is_no_iteration_and_is_not_asked_for_again(stacking: Project) -> None:
    clash = move("try a and f", a=-2, f=1)
    stacking.set_moves(clash, A, B, move("try both", a=-1, b=-1, f=-9), C, move("try e", e=-9), D)
    records = stacking.climb("iterate", "-n", "5")[1:]
    assert outcomes(records)[4][2] == "stack"
    assert records[4]["not_stacked"] == [[1, 2]] and records[4]["stacked"] == [1, 3]
    assert "not_stacked" not in records[3]
    stacking.set_moves(A, B, move("try both", a=-1, b=-1), C, D, D)
    stacking.write({"hidden/judge.sh": JUDGE.replace("together:-7", "together:-0")})
    stacking.commit()
    stacking.check("baseline")
    later = stacking.climb("iterate", "-n", "5")[-5:]
    assert later[4]["not_stacked"] == [[7, 8], [7, 9]], "both make the tree that the ninth measured"
    assert later[4]["stacked"] == [7, 10]


def test_the_whole_screening_judges_what_was_merged(stacking: Project) -> None:
    stacking.climb("iterate", "-n", "4")
    scope = {**MANIFEST["scope"], "writable": ["[ac-f].txt"]}
    stacking.set_manifest({**MANIFEST, "scope": scope})
    refused, following = stacking.climb("iterate", "-n", "2")[-2:]
    assert (refused["outcome"], refused["reason"], refused["stacked"]) == ("skipped", "out_of_scope", [2, 4])
    assert "b.txt is not the candidate's to edit" in refused["why"] and refused["commit_hash"] is None
    assert outcomes([following]) == [("kept", "better", "scripted")]
    assert stacking.git("show", "goalseek/demo:b.txt") == "0"


def test_a_merge_follows_a_rename_and_a_credential_in_it_is_refused(stacking: Project) -> None:
    lines = "".join(f"line {number}\n" for number in range(30))
    stacking.write({"a.txt": "0\n", "notes.txt": lines})
    stacking.commit()
    rename = "\n".join(
        [
            "diff --git a/notes.txt b/moved.txt",
            "similarity index 100%",
            "rename from notes.txt",
            "rename to moved.txt",
            "",
        ]
    )
    patch = stacking.script.parent / "rename.patch"
    patch.write_text(rename)
    token = "k" * 24
    edited = {"title": "edit", "files": {"notes.txt": lines.replace("line 29", token), "b.txt": "-1\n"}}
    moved = {"title": "move", "patch": str(patch), "files": {"a.txt": "-1\n"}}
    stacking.set_moves(C, edited, D, moved)
    stacking.climb("iterate", "-n", "4")
    agent = {"set": {"SOME_TOKEN": token}}
    stacking.set_manifest({**MANIFEST, "env": {"agent": agent}})
    copied = stacking.climb("iterate", "-n", "1")[-1]
    assert copied["reason"] == "out_of_scope" and "moved.txt holds a credential" in copied["why"]
    assert copied["stacked"] == [2, 4] and copied["changed_files"] == []


def test_a_candidate_that_a_person_declined_is_never_put_together_with_another(stacking: Project) -> None:
    stacking.set_manifest({**MANIFEST, "approve": {"before": "kept"}})
    stacking.climb("iterate", "-n", "4")
    ended = stacking.run("iterate", "-n", "1")
    assert ended.exit_code == 5 and "2 and 4 together: try a; try b" in ended.stderr
    stacking.check("decline", "5")
    declined = stacking.climb("iterate", "-n", "1")[-1]
    assert (declined["reason"], declined["stacked"]) == ("declined", [2, 4])
    stacking.set_moves(C, A, D, B, *(move(f"again {value}", f=-value) for value in range(4, 9)))
    assert stacking.climb("iterate", "-n", "5")[-1]["stacked"] == [1, 2]


STORED = ("context", "plan", "change", "candidate", "evidence", "verdict", "record")


def test_step_goes_phase_by_phase_and_what_was_begun_is_finished(stacking: Project) -> None:
    stacking.climb("iterate", "-n", "4")
    for name in STORED[:-1]:
        stacking.step_until((stacking.run_folder(5) / f"{name}.json").exists)
    stacking.set_manifest({**MANIFEST, "search": {"stack": "none"}})
    record = stacking.climb("iterate", "-n", "1")[-1]
    assert record["stacked"] == [2, 4] and record["outcome"] == "kept"


AGENT = """\
echo "called $GOALSEEK_ITERATION" >> "$HOME/calls"
case $GOALSEEK_ITERATION in 1) echo -2 > c.txt;; 2) echo -1 > a.txt;; 3) echo -3 > d.txt;; 4) echo -1 > b.txt;; esac
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED)
def test_killed_after_any_step_it_goes_on_with_the_same_set_and_asks_nobody(stacking: Project, name: str) -> None:
    stacking.set_agent(AGENT, {**MANIFEST, "limits": {"iterations": 5}})
    stacking.climb("iterate", "-n", "4")
    stacking.kill_when(stacking.run_folder(5) / f"{name}.json", "iterate", "-n", "1")
    records = stacking.climb("iterate", "-n", "9")[1:]
    assert len(records) == 5
    assert (records[4]["outcome"], records[4]["stacked"], records[4]["metric"]["value"]) == ("kept", [2, 4], 15)
    assert home("calls").read_text().split("\n")[:-1] == [f"called {number}" for number in range(1, 5)]
    runs = home("journal").read_text().split("\n")[:-1].count("5")
    assert runs == 1 or (name in ("context", "plan", "change", "candidate") and runs == 2)
    assert stacking.git("rev-parse", "goalseek/demo") == records[4]["commit_hash"]
    stacking.check("audit")
