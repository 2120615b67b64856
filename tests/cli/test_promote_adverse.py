"""``goalseek promote`` against what goes wrong: forged records, names in the way, bases, half-done merges."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, answer
from promoting import PAGE, all_refs, objects, subjects, tree

from goalseek.git.location import locate
from goalseek.git.repository import Repository
from goalseek.ledger.promote import load_kept_chain, unmeasured_files

XV = PAGE.replace("line 15 of the page", "line XV")


def numbers(project: Project, *arguments: str) -> list[list[int]]:
    """The iterations of each commit that a preview tells."""
    told = json.loads(project.run("promote", "--json", *arguments).stdout)
    return [commit["iterations"] for commit in told["commits"]]


def test_what_somebody_wrote_into_the_results_does_not_get_home(climbed: Project) -> None:
    results = climbed.top / ".goalseek/demo/logs/results.jsonl"
    best, other = climbed.iterations()[5], climbed.iterations()[4]
    text = results.read_text().replace(best["tree_hash"], other["tree_hash"])
    results.write_text(text.replace(best["commit_hash"], other["commit_hash"]).replace("Spell fifteen", "Forged"))
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    assert tree(climbed, "better") == tree(climbed, best["commit_hash"])
    assert subjects(climbed, "main..better") == ["Spell three", "Tidy up", "Spell fifteen"]


def test_a_result_that_is_not_the_best_on_the_code_it_was_measured_on_is_a_bug(climbed: Project) -> None:
    repository = Repository(locate(climbed.top), "demo")
    try:
        chain = load_kept_chain(repository, lambda path: path.startswith("src/") or path == "answer.json")
        trees = [chain.start, *(change.after for change in chain.changes)]
        best = climbed.iterations()[5]["tree_hash"]
        assert (trees[-1], chain.end, chain.base) == (best, best, climbed.git("rev-parse", "main"))
        assert unmeasured_files(repository.objects, chain, chain.start, best, lambda path: True) == ()
        with pytest.raises(RuntimeError, match=r"not those of the best commit: answer\.json, src/page\.txt"):
            unmeasured_files(repository.objects, chain, chain.start, trees[-2], lambda path: True)
    finally:
        repository.close()


def test_a_record_in_git_whose_tree_is_not_its_commits_is_refused(climbed: Project) -> None:
    ledger = "refs/goalseek/demo/ledger"
    best, other = climbed.iterations()[5], climbed.iterations()[4]
    head = next(
        commit
        for commit in climbed.git("rev-list", "--first-parent", ledger).splitlines()
        if best["seal"] in climbed.git("log", "-1", "--format=%B", commit)
    )
    message = climbed.git("log", "-1", "--format=%B", head).rstrip("\n").replace(best["tree_hash"], other["tree_hash"])
    forged = climbed.git("commit-tree", f"{head}^{{tree}}", "-p", f"{head}^1", stdin=message.encode())
    climbed.git("update-ref", ledger, forged)
    refs = all_refs(climbed)
    ended = climbed.run("promote", "--branch", "better")
    assert (ended.exit_code, all_refs(climbed)) == (3, refs)
    assert best["commit_hash"] in ended.stderr and "goalseek audit" in ended.stderr


def test_a_kept_commit_that_git_lost_is_named_with_the_way_to_fetch_it(climbed: Project) -> None:
    lost = climbed.iterations()[3]["commit_hash"]
    (climbed.top / ".git/objects" / lost[:2] / lost[2:]).unlink()
    ended = climbed.run("promote")
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert f"git does not have the object {lost} any more" in ended.stderr and "git fetch CLONE" in ended.stderr


def test_without_the_ledger_it_says_where_to_fetch_it(climbed: Project) -> None:
    climbed.git("update-ref", "-d", "refs/goalseek/demo/ledger")
    ended = climbed.run("promote", "--branch", "better")
    assert ended.exit_code == 3
    assert "git fetch CLONE 'refs/goalseek/demo/*:refs/goalseek/demo/*'" in ended.stderr


def test_after_a_squashed_merge_only_what_is_new_goes_home(climbed: Project) -> None:
    climbed.run("promote", "--branch", "better")
    climbed.git("merge", "--quiet", "--squash", "better")
    climbed.write({"other.txt": "moved on\n"})
    climbed.commit("squashed")
    ended = climbed.run("promote", "--onto", "main", "--branch", "again")
    assert (ended.exit_code, "the base has it all" in ended.stderr) == (0, True)
    assert "again" not in all_refs(climbed)
    assert climbed.climb("iterate", "-n", "1")[-1]["outcome"] == "kept"
    assert numbers(climbed, "--onto", "main") == [[6]]
    assert numbers(climbed) == [[1], [3], [5], [6]]


def test_a_change_that_was_taken_back_later_goes_home_as_two(make_project: Callable[..., Project]) -> None:
    project = make_project(manifest={"metric": {"direction": "maximize", "query": "length(keys(@))", "noise": "none"}})
    moves = ('{"b": 2, "c": 3, "d": 1}\n', '{"b": 3, "c": 1, "d": 1, "e": 1}\n')
    project.set_moves(*moves)
    project.climb("iterate", "-n", "2")
    assert numbers(project) == [[1], [2]]
    project.git("checkout", "--quiet", project.iterations()[1]["commit_hash"], "--", "answer.json")
    project.commit("the first by hand")
    assert numbers(project, "--onto", "main") == [[2]]


def test_a_squash_is_one_commit_of_many_or_none_where_they_come_to_nothing(
    make_project: Callable[..., Project],
) -> None:
    def page(*good: int, more: str = "") -> str:
        return "".join(f"line {number} {'good' if number in good else 'bad'}\n" for number in range(20)) + more

    judge = 'echo "{\\"score\\": $(grep -c good page.txt)}" > "$GOALSEEK_RUN_DIR/metrics.json"\n'
    project = make_project(
        files={"page.txt": page(0), "hidden/judge.sh": judge},
        manifest={"scope": {"writable": ["page.txt"], "hidden": ["hidden/**"]}},
    )
    project.set_moves({"files": {"page.txt": page(0, 3)}}, {"files": {"page.txt": page(0, 13, 17)}})
    project.climb("iterate", "-n", "2")
    assert (numbers(project), numbers(project, "--squash")) == ([[1], [2]], [[1, 2]])
    project.write({"page.txt": page(0, 13, 17, more="the user's\n").replace("line 8 bad", "line eight")})
    project.commit("the end of it by hand, and more")
    assert (numbers(project, "--onto", "main"), numbers(project, "--onto", "main", "--squash")) == ([[1], [2]], [])
    project.git("reset", "--quiet", "--hard", project.iterations()[1]["commit_hash"])
    assert numbers(project, "--onto", "main", "--squash") == [[2]]
    told = json.loads(project.run("promote", "--onto", "main", "--squash", "--json").stdout)["commits"]
    assert told[0]["message"].startswith("move 2\n\n")


@pytest.mark.slow
def test_a_declined_keep_does_not_go_home(make_project: Callable[..., Project]) -> None:
    project = make_project(manifest={"approve": {"before": "kept"}})
    project.set_moves(answer(2), answer(3))
    for number, word in ((1, "approve"), (2, "decline")):
        assert project.run("iterate", "--no-wait").exit_code == 5
        assert project.run(word, str(number)).exit_code == 0
        project.climb("iterate", "--no-wait")
    assert [record["outcome"] for record in project.iterations()] == ["baseline", "kept", "reverted"]
    assert numbers(project) == [[1]]


def test_a_name_that_is_taken_or_cannot_be_a_branchs_is_refused(climbed: Project) -> None:
    climbed.git("switch", "--quiet", "--create", "side")
    climbed.git("switch", "--quiet", "main")
    climbed.git("update-ref", "-d", "refs/heads/goalseek/demo")
    climbed.git("symbolic-ref", "refs/heads/link", "refs/heads/target")
    before, refs = climbed.users(), all_refs(climbed)
    for name in ("side", "main", "side/below", "", "@{-1}", "goalseek", "goalseek/demo", "goalseek/other", "HEAD"):
        ended = climbed.run("promote", "--branch", name)
        assert (ended.exit_code, repr(name) in ended.stderr) == (2, True), ended
    for name in ("two words", "-x", "a..b", "ends.lock"):
        ended = climbed.run("promote", f"--branch={name}")
        assert (ended.exit_code, "name for a branch" in ended.stderr) == (2, True), ended
    assert climbed.run("promote", "--branch", "link").exit_code == 2
    assert (climbed.users(), all_refs(climbed)) == (before, refs)


def test_a_base_that_is_no_commit_is_refused(climbed: Project) -> None:
    climbed.git("tag", "a-tree", "HEAD^{tree}")
    climbed.git("symbolic-ref", "refs/heads/unborn", "refs/heads/nothing")
    for base in ("", "nowhere", "^main", "main..main", "a-tree", "unborn"):
        ended = climbed.run("promote", "--branch", "better", "--onto", base)
        assert (ended.exit_code, ended.stdout) == (2, "")
        assert f"--onto {base}: there is no such commit" in ended.stderr


def test_a_base_may_be_a_tag_a_hash_or_a_branch_of_a_remote(climbed: Project) -> None:
    climbed.git("tag", "--annotate", "--message", "one", "v1")
    climbed.git("update-ref", "refs/remotes/origin/main", "main")
    head = climbed.git("rev-parse", "main")
    for base in ("v1", head, "origin/main", "HEAD"):
        assert json.loads(climbed.run("promote", "--json", "--onto", base).stdout)["base"] == head


def test_an_unrelated_history_takes_what_applies_there(climbed: Project) -> None:
    manifest, files = climbed.manifest.read_text(), tree(climbed, "main")
    climbed.git("switch", "--quiet", "--orphan", "unrelated")
    climbed.manifest.write_text(manifest)
    climbed.commit("another start")
    ended = climbed.run("promote", "--onto", "unrelated", "--branch", "better")
    assert ended.exit_code == 1
    assert "answer.json (modify/delete)" in ended.stderr and "better" not in all_refs(climbed)
    climbed.git("checkout", "--quiet", "main", "--", ".")
    climbed.commit("the files")
    assert tree(climbed, "unrelated") == files
    assert climbed.run("promote", "--onto", "unrelated", "--branch", "better").exit_code == 0
    assert climbed.git("rev-list", "--count", "better") == "5"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda p: p.write({"src/picture.bin/x": "x\n"}), "3 (Tidy up)|src/picture.bin (file/directory)"),
        (
            lambda p: (p.top / "src/page.txt").unlink() or (p.top / "src/page.txt").symlink_to("old.txt"),
            "1 (Spell three)|src/page.txt (distinct modes)",
        ),
        (lambda p: p.git("mv", "src/old.txt", "src/new.txt"), "3 (Tidy up)|src/new.txt (rename/delete)"),
        (lambda p: p.git("mv", "src", "lib"), "3 (Tidy up)|lib/picture.bin (directory rename suggested)"),
        (lambda p: p.git("rm", "--quiet", "src/tool.sh"), "3 (Tidy up)|src/tool.sh (modify/delete)"),
        (
            lambda p: shutil.rmtree(p.top / "src") or p.write({"src": "a file\n"}),
            "1 (Spell three)|src (file/directory)",
        ),
        (lambda p: p.write({"src/page.txt": XV}), "5 (Spell fifteen)|src/page.txt (contents)"),
        (lambda p: p.write({"src/old.txt": "older\n"}), "3 (Tidy up)|src/old.txt (modify/delete)"),
        (lambda p: p.write({"src/picture.bin": b"\0other"}), "3 (Tidy up)|src/picture.bin"),
        (lambda p: p.git("rm", "--quiet", "src/page.txt"), "1 (Spell three)|src/page.txt (modify/delete)"),
        (lambda p: p.write({"answer.json": "{}\n"}), "1 (Spell three)|answer.json (contents)"),
    ],
    ids="folder link renamed folder_renamed mode_deleted file edited edited_deleted binary deleted_edited text".split(),
)
def test_a_conflict_names_the_change_and_the_files_and_nothing_is_written(
    climbed: Project, change: Callable[[Project], object], told: str
) -> None:
    change(climbed)
    climbed.commit("meanwhile")
    before, refs, stored = climbed.users(), all_refs(climbed), objects(climbed)
    for target in ([], ["--branch", "better", "--patch", "../home.patch"]):
        ended = climbed.run("promote", "--onto", "main", *target)
        assert (ended.exit_code, ended.stdout) == (1, "")
        assert not [part for part in f"iteration {told}".split("|") if part not in ended.stderr], ended.stderr
        assert "~" not in ended.stderr and ("answer.json" in told or "answer.json" not in ended.stderr)
    assert (climbed.users(), all_refs(climbed), objects(climbed)) == (before, refs, stored)
    assert not (climbed.folder / "../home.patch").exists()


def test_a_mode_and_a_content_go_together_and_are_told_as_never_measured(climbed: Project) -> None:
    climbed.write({"src/tool.sh": "echo another tool\n"})
    climbed.commit("meanwhile")
    assert climbed.run("promote", "--onto", "main", "--branch", "better").exit_code == 0
    mode, _, blob, _ = climbed.git("ls-tree", "better", "src/tool.sh").split()
    assert (mode, blob) == ("100755", climbed.git("rev-parse", "main:src/tool.sh"))
    assert json.loads(climbed.run("promote", "--onto", "main", "--json").stdout)["unlike_best"] == ["src/tool.sh"]


def test_a_merge_or_a_rebase_that_is_half_done_stays_so(climbed: Project) -> None:
    climbed.git("switch", "--quiet", "--create", "side")
    climbed.write({"other.txt": "one\n"})
    climbed.commit("one")
    climbed.git("switch", "--quiet", "main")
    climbed.write({"other.txt": "two\n"})
    climbed.commit("two")
    for number, command in enumerate((("merge", "side"), ("rebase", "side"))):
        assert subprocess.run(["git", *command], cwd=climbed.top, capture_output=True, timeout=120).returncode == 1
        status, before = climbed.git("status"), climbed.users()
        assert climbed.run("promote", "--onto", "main", "--branch", f"better{number}").exit_code == 0
        assert climbed.run("promote", "--branch", "main").exit_code == 2
        assert climbed.git("status") == status
        assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}
        climbed.git(command[0], "--abort")


def test_with_a_candidate_in_the_air_only_what_was_kept_goes_home(project: Project) -> None:
    project.set_moves(answer(2), answer(3, more='"hang": 1,\n'))
    project.climb()
    best = project.iterations()[-1]["commit_hash"]
    project.kill_when(project.run_folder(2) / "changes.diff", "iterate")
    assert project.run("promote", "--branch", "better").exit_code == 0
    assert tree(project, "better") == tree(project, best)


def test_after_a_baseline_of_merged_code_an_unborn_branch_is_no_hindrance(climbed: Project) -> None:
    climbed.run("promote", "--branch", "better")
    climbed.git("merge", "--quiet", "--ff-only", "better")
    assert climbed.run("baseline").exit_code == 0
    manifest = climbed.manifest.read_text()
    climbed.git("switch", "--quiet", "--orphan", "unborn")
    climbed.manifest.write_text(manifest)
    ended = climbed.run("promote")
    assert ended.exit_code == 0, ended.stderr


def test_a_shallow_clone_that_fetched_the_records_promotes(climbed: Project, tmp_path: Path) -> None:
    climbed.write({"src/page.txt": PAGE.replace("line 9 of the page", "line nine")})
    climbed.commit("meanwhile")
    place = tmp_path / "shallow"
    climbed.git("clone", "--quiet", "--depth=1", f"file://{climbed.top}", str(place))
    clone = Project(place, place)
    clone.git("fetch", "--quiet", "origin", "refs/goalseek/*:refs/goalseek/*")
    clone.manifest.write_text(climbed.manifest.read_text())
    assert clone.run("audit", "--rebuild").exit_code == 0
    ended = clone.run("promote", "--onto", "main", "--branch", "better", "--patch", str(tmp_path / "home.patch"))
    assert ended.exit_code == 0, ended.stderr
    clone.git("switch", "--quiet", "--create", "mailed")
    clone.git("am", "--quiet", "--keep", "--keep-cr", str(tmp_path / "home.patch"))
    assert tree(clone, "mailed") == tree(clone, "better")
