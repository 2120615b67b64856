"""Cheats: patches that game the metric, tried by ``doctor``, hidden from the agent whatever the globs say."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doctor_cases import MANIFEST, Case, Ended, findings, make_case
from fixture_projects import FixtureProject
from project import FILES, Project, answer

from goalseek.errors import GoalseekError
from goalseek.git.ignore import literal_pattern, matcher
from goalseek.manifest.loading import load

GUARDED = 'echo ran >> "{runs}"; read value < answer.txt; test "$value" -ge 0; echo "score: $value"'


def change(path: str, before: str, after: str) -> str:
    """A patch of a file with one line."""
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -1 +1 @@\n-{before}\n+{after}\n"


def brings(path: str) -> str:
    """A patch that adds a file with one line."""
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1 @@\n+new\n"


def with_cheats(place: Path, metric: str = "", more: str = "", verifier: str = GUARDED, **cheats: str) -> Case:
    """A project whose cheats are committed in ``cheats/``."""
    tables = "".join(f'[[cheat]]\npatch = "cheats/{name}.patch"\n' for name in cheats)
    case = make_case(place, verifier, metric=metric, more=tables + more)
    (case.folder / "cheats").mkdir()
    for name, text in cheats.items():
        (case.folder / f"cheats/{name}.patch").write_text(text)
    case.commit()
    return case


def cheats_of(ended: Ended) -> list[dict[str, Any]]:
    return findings(ended)["cheat"]


def test_each_cheat_is_decided_on_like_a_candidate_and_leaves_no_trace(tmp_path: Path) -> None:
    case = with_cheats(
        tmp_path,
        ", valid = [0, 100]",
        big=change("answer.txt", "5", "999"),
        worse=change("answer.txt", "5", "4"),
        won=change("answer.txt", "5", "6") + brings("cheats/judge.patch.d"),
        stray=brings("sitecustomize.py"),
        hidden=brings("goalseek.other.toml"),
        judge="",
    )
    line = (case.folder / "judge.sh").read_text().rstrip("\n")
    (case.folder / "cheats/judge.patch").write_text(change("judge.sh", line, "echo score: 1000"))
    case.commit()
    ended = case.run("--json", "doctor")
    assert ended.exit_code == 1
    found = {one["patch"]: one for one in cheats_of(ended)}
    assert {name: (one["outcome"], one["reason"], one["value"]) for name, one in found.items()} == {
        "cheats/big.patch": ("reverted", "not_valid", 999),
        "cheats/worse.patch": ("reverted", "worse", 4),
        "cheats/won.patch": ("kept", "better", 6),
        "cheats/stray.patch": ("skipped", "no_change", None),
        "cheats/hidden.patch": ("skipped", "out_of_scope", None),
        "cheats/judge.patch": ("skipped", "out_of_scope", None),
    }
    won = found.pop("cheats/won.patch")
    assert (won["ok"], won["lost"]) == (False, False)
    assert won["text"].startswith("cheats/won.patch WON: kept / better: 6 beats 5 by 1; left out")
    assert "split it" in won["remedy"] and "metric.valid" in won["remedy"]
    assert {(one["lost"], one["ok"], one["remedy"]) for one in found.values()} == {(True, True, "")}
    texts = [one["text"] for one in found.values()]
    assert texts[0].startswith("cheats/big.patch lost: reverted / not_valid: score is 999, outside")
    assert "left out, being outside the scope: sitecustomize.py" in texts[2]
    told = "cheats/hidden.patch lost without being measured: skipped / out_of_scope: goalseek.other.toml lies under"
    assert texts[3].startswith(told)
    assert texts[4].endswith("skipped / out_of_scope: judge.sh is read-only")
    assert "then 3 runs with a cheat each" in ended.stderr and "5 to 7 to go" in ended.stderr
    assert case.count() == 6, "two numbers, one breakage, three cheats with a change in scope"
    assert {record["tree"] for record in case.records()} == {case.git("rev-parse", "HEAD^{tree}")}
    (tree,) = (case.home / "cache/goalseek").glob("*/bench/tree")
    assert (tree / "answer.txt").read_text() == "5\n"
    assert case.git("status", "--porcelain") == ""


SEEDED = """\
echo ran >> "{runs}"; read value fixed < answer.txt; test -z "$fixed" || GOALSEEK_SEED=7
printf 'score: %s.%010d\\n' "$value" "$GOALSEEK_SEED"; test "$value" -ge 0"""


@pytest.mark.slow
@pytest.mark.parametrize("allowed", ["", ", allow_fixed_seed = true"])
def test_a_cheat_that_fixes_the_seed_loses_by_that_once_the_noise_is_known_or_gets_that_remedy(
    tmp_path: Path, allowed: str
) -> None:
    case = with_cheats(
        tmp_path,
        allowed,
        verifier=SEEDED,
        seed=change("answer.txt", "5", "9 fixed"),
        big=change("answer.txt", "5", "9"),
    )
    early, big = cheats_of(case.run("--json", "doctor"))
    assert (early["lost"], early["reason"]) == (False, "better"), "two numbers do not show how often they agree"
    assert "it fixes the seed" in early["remedy"] and "it fixes the seed" not in big["remedy"]
    assert ("take out metric.allow_fixed_seed" in early["remedy"]) == bool(allowed)
    assert case.run("baseline").exit_code == 0
    late, big = cheats_of(case.run("--json", "doctor"))
    assert (late["lost"], late["reason"]) == ((False, "better") if allowed else (True, "seed_fixed"))
    assert "3 runs under different seeds gave the same number" in late["text"] or allowed
    assert (big["lost"], big["reason"]) == (False, "better")


@pytest.mark.slow
def test_the_incumbent_is_what_a_cheat_is_tried_on(tmp_path: Path) -> None:
    case = with_cheats(tmp_path, more='[provider]\nname = "scripted"\n', seven=change("answer.txt", "6", "7"))
    (case.folder / "moves.toml").write_text('[[move]]\ntitle = "six"\nfiles = { "answer.txt" = "6\\n" }\n')
    case.commit()
    (early,) = cheats_of(case.run("--json", "doctor", "--quick"))
    assert early["text"] == "cheats/seven.patch does not apply: answer.txt, hunk 1 of 1, @@ -1 +1 @@"
    assert not early["ok"]
    assert case.run("iterate").exit_code == 0, "the climb does not depend on it"
    (late,) = cheats_of(case.run("--json", "doctor"))
    assert late["text"] == "cheats/seven.patch WON: kept / better: 7 beats 6 by 1"


def test_quick_applies_the_patches_and_measures_none_and_one_that_does_not_apply_is_named_by_its_hunk(
    tmp_path: Path,
) -> None:
    lines = [f"line {number}" for number in range(1, 41)]
    second = "@@ -20,3 +20,3 @@\n line 20\n-line 21, which is not there\n+x\n line 22\n"
    head = "--- a/answer.txt\n+++ b/answer.txt\n"
    two = f"{head}@@ -2,3 +2,3 @@\n line 2\n-line 3\n+--- a/y\n line 4\n{second}"
    moved = "diff --git a/answer.txt b/new.txt\nsimilarity index 50%\nrename from answer.txt\nrename to new.txt\n"
    moved += f"--- a/answer.txt\n+++ b/new.txt\n{second}"
    well = two.replace(", which is not there", "")
    case = with_cheats(tmp_path, two=two, well=well, none="no patch\n", moved=moved, link="")
    (case.folder / "answer.txt").write_text("\n".join(lines) + "\n")
    (case.folder / "seen.patch").write_text(well)
    (case.folder / "cheats/link.patch").unlink()
    (case.folder / "cheats/link.patch").symlink_to("../seen.patch")
    case.commit()
    ended = case.run("--json", "doctor", "--quick")
    assert ended.exit_code == 1
    bad, none, renamed, link, fit = cheats_of(ended)
    assert not link["ok"] and "name the target" in link["text"], "only the link would be hidden"
    assert renamed["text"] == "cheats/moved.patch does not apply: answer.txt, at line 20"
    assert bad["text"] == "cheats/two.patch does not apply: answer.txt, hunk 2 of 2, @@ -20,3 +20,3 @@"
    assert none["text"].startswith("cheats/none.patch does not apply: ")
    assert "git diff" in none["remedy"]
    assert (fit["ok"], fit["text"]) == (True, "applies: cheats/well.patch")
    assert case.count() == 0
    assert case.traces() == []


def test_below_a_folder_the_paths_are_gits_or_the_folders(make_project: Callable[..., Project]) -> None:
    tables = [{"patch": "cheats/top.patch"}, {"patch": "cheats/below.patch"}]
    patches = {
        "cheats/top.patch": change("part/other.txt", "not the candidate's", "x"),
        "cheats/below.patch": change("other.txt", "not the candidate's", "x"),
    }
    project = make_project(files={**FILES, **patches}, manifest={"cheat": tables}, below="part")
    ended = project.run("--json", "doctor", "--quick")
    (found,) = cheats_of(ended)
    assert found["text"] == "applies: cheats/top.patch, cheats/below.patch"


def blobs_below(folder: Path, project: Project) -> set[str]:
    """Every object that a git folder holds."""
    listing = project.git("--git-dir", str(folder), "cat-file", "--batch-all-objects", "--batch-check")
    return {line.split()[0] for line in listing.splitlines()}


@pytest.mark.slow
def test_the_agent_never_gets_them_whatever_the_globs_say_and_no_longer_once_they_are_listed(
    make_project: Callable[..., Project],
) -> None:
    patch = change("other.txt", "not the candidate's", "x")
    scope = {"writable": ["answer.json", "cheats/**"], "hidden": ["hidden/**"]}
    files = {**FILES, "cheats/print.patch": patch, "cheats/seen.txt": "writable\n"}
    project = make_project(files=files, manifest={"scope": scope})
    project.set_moves(answer(2), answer(3), {"files": {"cheats/print.patch": "looked"}})
    project.climb("iterate", "-n", "1")
    workspace = project.trees() / "workspace"
    blob = project.git("hash-object", "cheats/print.patch")
    assert (workspace / "cheats/print.patch").exists()
    project.set_manifest({"scope": scope, "cheat": [{"patch": "./cheats/print.patch"}]})
    records = project.climb("iterate", "-n", "2")
    assert sorted(path.name for path in (workspace / "cheats").iterdir()) == ["seen.txt"]
    assert blob not in blobs_below(workspace / ".git", project)
    assert blob in blobs_below(project.top / ".git", project)
    assert (records[-1]["outcome"], records[-1]["reason"]) == ("skipped", "out_of_scope")
    assert project.run("status", "--json").exit_code == 0


def test_a_pattern_for_one_path_matches_no_other() -> None:
    for path in ("cheats/[ab]*.patch", "a?.patch", "!x", "back\\slash", "plain.patch"):
        matches = matcher((literal_pattern(path),))
        assert matches(path)
        assert not matches(f"below/{path}")
    assert not matcher((literal_pattern("cheats/[ab]*.patch"),))("cheats/a1.patch")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("patch = '/tmp/x.patch'", "cheat[0].patch: '/tmp/x.patch' is absolute"),
        ("patch = '../x.patch'", """cheat[0].patch: '../x.patch' has ".." in it"""),
        ("patch = ''", "cheat[0].patch: '' is empty"),
        ("patch = 'a'\n[[cheat]]\npatch = './a'", "cheat[1].patch: 'a' is listed already"),
        ("", "cheat[0].patch: is required"),
        ("patch = 'a'\nwins = true", "cheat[0].wins: unknown key; known here: patch"),
    ],
)
def test_a_table_that_is_wrong_is_refused_by_its_line(tmp_path: Path, table: str, told: str) -> None:
    path = tmp_path / "goalseek.toml"
    path.write_text(f"{MANIFEST.format(metric='', verify='', more='')}[[cheat]]\n{table}\n")
    with pytest.raises(GoalseekError, match=re.escape(told)):
        load(path)


@pytest.mark.slow
def test_the_cheat_that_comes_with_digits_loses(tmp_path: Path) -> None:
    project = FixtureProject(tmp_path / "digits", "digits")
    ended = project.run("--json", "doctor")
    (found,) = cheats_of(ended)
    assert found["text"].startswith("cheats/plant-metrics.patch lost: reverted / tie: ")
    assert found["value"] < 1
