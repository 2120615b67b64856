"""``goalseek promote`` under the user's own settings: filters, templates, identities, signatures, hooks, patch files."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project
from promoting import all_refs, climb, hook, subjects, tree


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's temporary folders are."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def without_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_"))]:
        monkeypatch.delenv(name)


def test_filters_of_the_users_are_not_asked_and_hooks_see_what_was_measured(climbed: Project, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    hook(climbed, "pre-commit", f'git add --update; cat src/page.txt > "{seen}"')
    for name, value in (("required", "true"), ("smudge", "false"), ("clean", "cat")):
        climbed.git("config", f"filter.locked.{name}", value)
    climbed.git("config", "core.autocrlf", "true")
    (climbed.top / ".git/info/attributes").write_text("*.txt filter=locked text eol=crlf ident\n")
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    best = climbed.iterations()[5]["commit_hash"]
    assert tree(climbed, "better") == tree(climbed, best)
    assert seen.read_text() == climbed.git("cat-file", "blob", f"{best}:src/page.txt") + "\n"


def test_settings_that_shape_commits_and_patches_change_neither(climbed: Project, tmp_path: Path) -> None:
    for name, value in (
        *(("commit.template", "/no/such"), ("core.commentChar", "S"), ("commit.verbose", "true")),
        *(("core.fileMode", "false"), ("core.symlinks", "false"), ("core.splitIndex", "true"), ("index.version", "4")),
        *(("core.editor", "false"), ("format.signOff", "true"), ("format.coverLetter", "true")),
        *(("format.attach", "true"), ("diff.noprefix", "true"), ("diff.external", "false"), ("index.sparse", "true")),
    ):
        climbed.git("config", name, value)
    climbed.git("sparse-checkout", "set", "--cone", "hidden")
    best, patch = tree(climbed, climbed.iterations()[5]["commit_hash"]), tmp_path / "home.patch"
    assert climbed.run("promote", "--branch", "better", "--patch", str(patch)).exit_code == 0
    assert tree(climbed, "better") == best
    assert subjects(climbed, "main..better") == ["Spell three", "Tidy up", "Spell fifteen"]
    climbed.git("clone", "--quiet", ".", str(tmp_path / "clone"))
    climbed.git("am", "--quiet", "--keep", "--keep-cr", str(patch), folder=tmp_path / "clone")
    assert climbed.git("ls-tree", "-r", "HEAD", folder=tmp_path / "clone") == best


def test_who_the_user_is_in_this_place_or_worktree_alone_holds(
    climbed: Project, monkeypatch: pytest.MonkeyPatch, isolated: Path
) -> None:
    without_identity(monkeypatch)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    (isolated / "work").write_text("[user]\n\tname = At Work\n\temail = me@work.example\n")
    (isolated / ".gitconfig").write_text(f'[includeIf "gitdir:{climbed.top}/"]\n\tpath = work\n')
    assert climbed.run("promote", "--branch", "at-work").exit_code == 0
    assert climbed.git("log", "-1", "--format=%an <%ae>", "at-work") == "At Work <me@work.example>"
    climbed.git("config", "extensions.worktreeConfig", "true")
    for name, value in (("user.name", "Here Alone"), ("user.email", "here@example.com"), ("core.worktree", "..")):
        climbed.git("config", "--worktree", name, value)
    climbed.git("config", "user.name", "Elsewhere")
    before = climbed.users()
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    assert climbed.git("log", "-1", "--format=%an <%ae>", "better") == "Here Alone <here@example.com>"
    assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}


def test_the_way_out_fits_the_cause(climbed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    climbed.git("config", "commit.gpgSign", "true")
    climbed.git("config", "gpg.program", "/no/such/program")
    ended = climbed.run("promote", "--branch", "better")
    assert (ended.exit_code, "better" in all_refs(climbed)) == (3, False)
    assert "/no/such/program" in ended.stderr and "commit.gpgSign=false am" in ended.stderr
    assert "user.name" not in ended.stderr
    without_identity(monkeypatch)
    climbed.git("config", "user.useConfigOnly", "true")
    for target in (["--branch", "better"], ["--patch", "-"]):
        told = climbed.run("promote", *target).stderr
        assert "user.name and user.email" in told and "gpgSign" not in told


def test_a_patch_on_standard_output_is_a_mailbox_and_leaves_the_rest_to_the_other(climbed: Project) -> None:
    ended = climbed.run("promote", "--patch", "-", "--branch", "better")
    assert (ended.exit_code, ended.stdout[:5]) == (0, "From ")
    assert "better" not in ended.stdout and "branch better is at" in ended.stderr
    for told in ("--json", "--query=base"):
        refused = climbed.run("promote", "--patch", "-", told)
        assert (refused.exit_code, refused.stdout) == (2, "")
    climbed.git("am", "--quiet", stdin=ended.stdout.encode())
    assert tree(climbed, "HEAD") == tree(climbed, "better")


def test_a_patch_takes_the_place_of_a_file_when_all_went_well_only(climbed: Project, tmp_path: Path) -> None:
    patch = tmp_path / "home.patch"
    patch.write_text("mine\n")
    hook(climbed, "pre-commit", "exit 1")
    assert climbed.run("promote", "--branch", "better", "--patch", str(patch)).exit_code == 3
    assert patch.read_text() == "mine\n"
    assert climbed.run("promote", "--patch", "").exit_code == 2
    assert climbed.run("promote", "--patch", str(patch)).exit_code == 0
    assert [path.name for path in tmp_path.iterdir() if "patch" in path.name] == ["home.patch"]
    climbed.git("update-index", "--refresh", "-q")
    climbed.git("apply", "--index", str(patch))
    assert climbed.git("write-tree") == climbed.iterations()[5]["tree_hash"]


def test_killed_in_a_hook_it_leaves_no_branch_and_the_next_clears_up(
    climbed: Project, tmp_path: Path, scratch: Path
) -> None:
    there, patch = tmp_path / "there", tmp_path / "home.patch"
    hook(climbed, "commit-msg", f'touch "{there}"; while test -e "{there}"; do sleep 0.02; done')
    before, refs = climbed.users(), all_refs(climbed)
    climbed.kill_when(there, "promote", "--branch", "better", "--patch", str(patch))
    assert (all_refs(climbed), patch.exists()) == (refs, False)
    assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}
    assert list(scratch.iterdir())
    there.unlink()
    (climbed.top / ".git/hooks/commit-msg").unlink()
    assert climbed.run("promote").exit_code == 0
    assert not list(scratch.iterdir())
    assert not list((climbed.top / ".git/goalseek/demo").glob("promote-*"))
    assert climbed.run("promote", "--branch", "better").exit_code == 0


def test_run_by_a_hook_or_an_alias_of_git_it_works_on_this_repository(
    climbed: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    assert not (tmp_path / "elsewhere").exists()
    assert (climbed.top / ".git/refs/heads/better").exists()


def test_a_hook_that_switches_to_a_branch_of_its_own_is_followed(climbed: Project) -> None:
    hook(climbed, "post-commit", "git switch --quiet --force-create scratch")
    before = climbed.users()
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    assert tree(climbed, "better") == tree(climbed, climbed.iterations()[5]["commit_hash"])
    assert subjects(climbed, "main..better") == ["Spell three", "Tidy up", "Spell fifteen"]
    assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}


def test_a_repository_in_a_folder_with_an_odd_name(tmp_path: Path, made_once: Callable[..., Project]) -> None:
    project = made_once(climb, tmp_path / "od\"d: dir 'ü")
    patch = tmp_path / "a b'.patch"
    ended = project.run("promote", "--branch", "better", "--patch", str(patch))
    assert ended.exit_code == 0, ended.stderr
    assert tree(project, "better") == tree(project, project.iterations()[5]["commit_hash"])
    assert f"git am --keep --keep-cr {shlex.quote(str(patch))} takes it" in ended.stdout
    broken = made_once(climb, tmp_path / "two\nlines")
    ended = broken.run("promote")
    assert ended.exit_code == 3 and "has a line break" in ended.stderr


def test_interrupted_in_a_hook_it_makes_no_branch_and_clears_up(
    climbed: Project, tmp_path: Path, scratch: Path
) -> None:
    there = tmp_path / "there"
    hook(climbed, "pre-commit", f'touch "{there}"; while test -e "{there}"; do sleep 0.02; done')
    before, refs = climbed.users(), all_refs(climbed)
    process = climbed.start_until(there, "promote", "--branch", "better")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    there.unlink()
    assert (process.returncode, all_refs(climbed), list(scratch.iterdir())) == (130, refs, [])
    assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}
