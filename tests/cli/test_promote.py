"""``goalseek promote``: the kept changes go home as the user's own commits, and nothing of theirs is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from project import Project, answer
from promoting import PAGE, all_refs, subjects, tree

FILES_OF_THE_CLIMB = ["answer.json", "src/old.txt", "src/page.txt", "src/picture.bin", "src/tool.sh"]


def test_without_a_target_it_previews_says_how_to_make_it_and_writes_nothing(climbed: Project) -> None:
    before, refs = climbed.users(), all_refs(climbed)
    ended = climbed.run("promote")
    assert ended.exit_code == 0
    for expected in ("3 commits", "Spell three", "Tidy up", "Spell fifteen", "src/picture.bin", "preview"):
        assert expected in ended.stdout
    assert "step back" not in ended.stdout
    assert (climbed.users(), all_refs(climbed)) == (before, refs)
    shown = climbed.run("promote", "--onto", "main", "--squash").stdout
    assert shown.endswith("make them with: goalseek promote --branch NAME --onto main --squash\n"), shown
    told = json.loads(climbed.run("promote", "--json").stdout)
    assert [commit["iterations"] for commit in told["commits"]] == [[1], [3], [5]]
    assert told["commits"][1]["files"] == ["answer.json", "src/old.txt", "src/picture.bin", "src/tool.sh"]
    assert (told["branch"], told["commit"], told["base"]) == (None, None, climbed.git("rev-parse", "main"))


def test_a_branch_has_the_kept_changes_alone_in_order_each_with_what_it_gained(climbed: Project) -> None:
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    assert subjects(climbed, "main..better") == ["Spell three", "Tidy up", "Spell fifteen"]
    assert climbed.git("rev-list", "--min-parents=2", "main..better") == ""
    assert climbed.git("merge-base", "main", "better") == climbed.git("rev-parse", "main")
    best = climbed.iterations()[5]["commit_hash"]
    assert tree(climbed, "better") == tree(climbed, best)
    assert climbed.git("diff", "--name-status", "better~2", "better~1").splitlines() == [
        "M\tanswer.json",
        "D\tsrc/old.txt",
        "A\tsrc/picture.bin",
        "M\tsrc/tool.sh",
    ]
    assert climbed.git("diff", "--name-only", "better~1", "better").splitlines() == ["answer.json", "src/page.txt"]
    message = climbed.git("log", "-1", "--format=%B", "better~1")
    assert message.rstrip().split("\n\n") == ["Tidy up", climbed.iterations()[3]["why"], "score: 3 (was 2)"]


def test_the_checkout_is_untouched_however_dirty_it_is(climbed: Project) -> None:
    climbed.write({"notes.txt": "edited\n"})
    climbed.git("stash", "push", "--quiet")
    climbed.write({"answer.json": "edited\n", "untracked.txt": "new\n", "staged.txt": "staged\n"})
    climbed.git("add", "staged.txt")
    before = climbed.users()
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    after = climbed.users()
    refs = after["refs"].splitlines()
    assert [ref for ref in refs if ref not in before["refs"].splitlines()] == [
        f"refs/heads/better {climbed.git('rev-parse', 'better')}"
    ]
    assert {**after, "refs": ""} == {**before, "refs": ""}


def test_the_commits_are_by_the_user(climbed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_"))]:
        monkeypatch.delenv(name)
    climbed.git("config", "user.name", "Zoë Configured")
    climbed.git("config", "user.email", "zoe@example.com")
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    people = climbed.git("log", "--format=%an <%ae> %cn <%ce>", "main..better").splitlines()
    assert people == ["Zoë Configured <zoe@example.com> Zoë Configured <zoe@example.com>"] * 3


def test_without_an_identity_git_is_asked_and_no_branch_is_made(
    climbed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_"))]:
        monkeypatch.delenv(name)
    climbed.git("config", "user.useConfigOnly", "true")
    refs = all_refs(climbed)
    ended = climbed.run("promote", "--branch", "better")
    assert ended.exit_code == 3
    assert "user.name" in ended.stderr
    assert all_refs(climbed) == refs


def test_the_commits_are_signed_where_the_user_signs(climbed: Project, tmp_path: Path) -> None:
    signer = tmp_path / "signer"
    signer.write_text(
        '#!/bin/sh\ncat > /dev/null\necho "[GNUPG:] SIG_CREATED " >&2\n'
        'printf -- "-----BEGIN PGP SIGNATURE-----\\nsigned\\n-----END PGP SIGNATURE-----\\n"\n'
    )
    signer.chmod(0o755)
    climbed.git("config", "gpg.program", str(signer))
    climbed.git("config", "commit.gpgSign", "true")
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    for commit in climbed.git("rev-list", "main..better").splitlines():
        assert "\ngpgsig -----BEGIN PGP SIGNATURE-----\n signed\n" in climbed.git("cat-file", "commit", commit)


def test_squash_makes_one_commit_with_the_same_tree_and_tells_what_was_gained_in_all(climbed: Project) -> None:
    (told,) = json.loads(climbed.run("promote", "--squash", "--json").stdout)["commits"]
    assert (told["iterations"], told["files"]) == ([1, 3, 5], FILES_OF_THE_CLIMB)
    assert told["message"].endswith("* Spell three\n* Tidy up\n* Spell fifteen\n\nscore: 4 (was 1)\n")
    assert climbed.run("promote", "--branch", "better", "--squash").exit_code == 0
    assert len(subjects(climbed, "main..better")) == 1
    assert climbed.git("log", "-1", "--format=%B", "better").rstrip() == told["message"].rstrip()
    assert tree(climbed, "better") == tree(climbed, climbed.iterations()[5]["commit_hash"])


def test_a_patch_is_a_mailbox_that_gives_the_same_commits_on_the_base(climbed: Project, tmp_path: Path) -> None:
    patch, refs = tmp_path / "home.patch", all_refs(climbed)
    assert climbed.run("promote", "--patch", str(patch)).exit_code == 0
    assert all_refs(climbed) == refs
    climbed.git("switch", "--quiet", "--create", "mailed")
    climbed.git("am", "--quiet", str(patch))
    assert subjects(climbed, "main..mailed") == ["Spell three", "Tidy up", "Spell fifteen"]
    assert "score: 3 (was 2)" in climbed.git("log", "-1", "--format=%B", "mailed~1")
    assert tree(climbed, "mailed") == tree(climbed, climbed.iterations()[5]["commit_hash"])


def test_onto_a_base_that_moved_on_it_says_what_was_never_measured_and_leaves_the_rest(climbed: Project) -> None:
    assert json.loads(climbed.run("promote", "--json").stdout)["unlike_best"] == []
    assert "this is the best commit" in climbed.run("promote").stdout
    climbed.git("rm", "--quiet", "notes.txt")
    climbed.git("mv", "other.txt", "moved.txt")
    page = PAGE.replace("line 9 of the page", "line nine")
    climbed.write({"src/page.txt": page, "hidden/judge.sh": "# another ruler\n", "new/deep/file": "new\n"})
    moved = climbed.commit("meanwhile")
    assert json.loads(climbed.run("promote", "--onto", "main", "--json").stdout)["unlike_best"] == ["src/page.txt"]
    assert "src/page.txt as well" in climbed.run("promote", "--onto", "main").stdout
    before = climbed.users()
    assert climbed.run("promote", "--branch", "better", "--onto", "main").exit_code == 0
    assert climbed.git("merge-base", "main", "better") == moved
    assert subjects(climbed, "main..better") == ["Spell three", "Tidy up", "Spell fifteen"]
    lines = climbed.git("show", "better:src/page.txt").splitlines()
    assert (lines[2], lines[8], lines[14]) == ("line three", "line nine", "line fifteen")
    assert climbed.git("diff", "--name-only", "main", "better").splitlines() == FILES_OF_THE_CLIMB
    best = climbed.iterations()[5]["commit_hash"]
    assert climbed.git("diff", "--name-only", best, "better", "--", "answer.json", "src") == "src/page.txt"
    assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}


def test_onto_a_base_where_a_touched_file_has_another_name(climbed: Project) -> None:
    climbed.git("mv", "src/page.txt", "src/sheet.txt")
    climbed.commit("rename")
    assert climbed.run("promote", "--branch", "better", "--onto", "main").exit_code == 0
    lines = climbed.git("show", "better:src/sheet.txt").splitlines()
    assert (lines[2], lines[14]) == ("line three", "line fifteen")
    assert "src/page.txt" not in tree(climbed, "better")


def test_what_the_base_has_already_is_left_out(climbed: Project) -> None:
    climbed.git("checkout", "--quiet", climbed.iterations()[1]["commit_hash"], "--", "answer.json", "src/page.txt")
    climbed.commit("taken by hand")
    told = json.loads(climbed.run("promote", "--onto", "main", "--json").stdout)
    assert [commit["iterations"] for commit in told["commits"]] == [[3], [5]]


def test_a_patch_that_cannot_be_written_makes_no_branch(climbed: Project) -> None:
    refs = all_refs(climbed)
    ended = climbed.run("promote", "--branch", "better", "--patch", "no/such/folder/home.patch")
    assert ended.exit_code == 2
    assert "no/such/folder/home.patch" in ended.stderr
    assert all_refs(climbed) == refs


def test_after_a_second_baseline_the_keeps_of_both_rulers_go_onto_the_head_that_it_took(climbed: Project) -> None:
    climbed.write({"other.txt": "the ruler changed\n"})
    head = climbed.commit("a new ruler")
    assert climbed.run("baseline").exit_code == 0
    climbed.climb("iterate", "-n", "1")
    assert climbed.iterations()[-1]["outcome"] == "kept"
    told = json.loads(climbed.run("promote", "--json").stdout)
    assert [commit["iterations"] for commit in told["commits"]] == [[1], [3], [5], [7]]
    assert (told["base"], told["unlike_best"]) == (head, [])
    (whole,) = json.loads(climbed.run("promote", "--json", "--squash").stdout)["commits"]
    assert whole["message"].endswith("* Further\n\nscore: 7 (was 4)\n"), "numbers of two rulers are never compared"
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    assert subjects(climbed, "main..better") == ["Spell three", "Tidy up", "Spell fifteen", "Further"]
    assert tree(climbed, "better") == tree(climbed, climbed.iterations()[-1]["commit_hash"])


def test_after_a_baseline_from_other_code_only_what_came_after_goes_home(climbed: Project) -> None:
    climbed.write({"src/page.txt": "another page\n"})
    head = climbed.commit("other code")
    assert climbed.run("baseline", "--from", "main").exit_code == 0
    climbed.climb("iterate", "-n", "1")
    told = json.loads(climbed.run("promote", "--json").stdout)
    assert ([commit["iterations"] for commit in told["commits"]], told["base"]) == ([[7]], head)
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    assert tree(climbed, "better") == tree(climbed, climbed.iterations()[-1]["commit_hash"])


def test_a_second_round_of_climb_and_promote_brings_no_revert_home(climbed: Project) -> None:
    climbed.run("promote", "--branch", "better")
    climbed.git("merge", "--quiet", "--ff-only", "better")
    assert climbed.run("baseline").exit_code == 0
    climbed.climb("iterate", "-n", "1")
    assert climbed.run("promote", "--branch", "again").exit_code == 0
    assert subjects(climbed, "again") == ["start", "Spell three", "Tidy up", "Spell fifteen", "Further"]


def test_a_climb_that_kept_nothing_has_nothing_to_promote(project: Project) -> None:
    project.set_moves(answer(0))
    project.climb()
    ended = project.run("promote", "--branch", "better")
    assert "nothing was kept" in ended.stderr and ended.stdout == ""
    assert "better" not in all_refs(project)
    assert project.run("promote", "--patch", "-").stdout == "", "a mailbox without a message"


def test_before_the_first_baseline_it_says_what_to_do(project: Project) -> None:
    ended = project.run("promote", "--branch", "better")
    assert ended.exit_code == 2
    assert "goalseek iterate" in ended.stderr
    assert project.traces() == []
