"""``goalseek promote`` where it is hard: conflicts of every kind, odd files, hooks, signatures, identities, worktrees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from project import FILES, Project, answer
from promoting import all_refs, hook, objects, subjects, tree


def test_a_preview_and_a_mailbox_leave_no_object_behind(climbed: Project) -> None:
    climbed.write({"other.txt": "moved on\n"})
    climbed.commit("meanwhile")
    refs, stored = all_refs(climbed), objects(climbed)
    for target in ([], ["--onto", "main"], ["--patch", "../home.patch"], ["--squash", "--json"]):
        assert climbed.run("promote", *target).exit_code == 0
    assert (all_refs(climbed), objects(climbed)) == (refs, stored)


ODD = {
    "src/two words.txt": "1\n",
    'src/n\udcff\n\t"ame.txt': "1\n",
    "src/ünï.txt": "1\n",
    "src/-rf": "1\n",
    "src/to-remove.txt": "1\n",
    "src/windows.txt": "one\r\ntwo\r\n",
}
ODD_AGENT = r"""
cd src
printf '{"score": 2,\n"size": 10\n}\n' > ../answer.json
python3 - <<'END'
import os
for name in os.listdir(b"."):
    if os.path.isfile(name) and not os.path.islink(name):
        with open(name, "ab") as file:
            file.write(b"2\n")
END
rm to-remove.txt; ln -s windows.txt link; rm -f was-link; printf 'a file now\n' > was-link
mkdir -p deep/er; printf '\000\377' > deep/er/x.bin; chmod 755 -- -rf; echo "Odd things"
"""


@pytest.fixture
def odd(make_project: Callable[..., Project], tmp_path: Path) -> Project:
    """A climb that kept one change of files with odd names, links, modes and line ends."""
    agent = tmp_path / "agent.sh"
    agent.write_text(ODD_AGENT)
    project = make_project(
        files={**FILES, **ODD, "src/target.txt": "target\n"},
        manifest={
            "scope": {"writable": ["answer.json", "src/**"], "hidden": ["hidden/**"]},
            "provider": {"name": "command", "command": ["sh", str(agent)]},
        },
    )
    (project.top / "src/was-link").symlink_to("target.txt")
    project.commit("a link")
    assert project.climb()[1]["outcome"] == "kept", project.iterations()[1]["why"]
    return project


def test_odd_names_links_modes_and_line_ends_go_home_by_branch_and_by_mail(odd: Project) -> None:
    best = tree(odd, odd.iterations()[1]["commit_hash"])
    assert "120000" in best and "100755" in best
    assert odd.run("promote", "--branch", "better").exit_code == 0
    assert tree(odd, "better") == best
    patch = odd.top.parent / "home.patch"
    assert odd.run("promote", "--patch", str(patch)).exit_code == 0
    odd.git("switch", "--quiet", "--create", "mailed", "main")
    odd.git("am", "--quiet", "--keep-cr", str(patch))
    assert tree(odd, "mailed") == best


def test_hooks_that_git_commit_runs_are_run_with_the_files_before_them(climbed: Project, tmp_path: Path) -> None:
    told = tmp_path / "told"
    hook(climbed, "pre-commit", f'pwd >> "{told}"; git diff --cached --name-only >> "{told}"; test -f src/page.txt')
    hook(climbed, "commit-msg", 'echo "Signed-off-by: A Hook <hook@example.com>" >> "$1"')
    hook(climbed, "post-commit", f'echo post >> "{told}"')
    before = climbed.users()
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    lines = told.read_text().splitlines()
    assert lines.count("post") == 3
    assert lines[1:3] == ["answer.json", "src/page.txt"]
    assert not Path(lines[0]).is_relative_to(climbed.top) and not Path(lines[0]).exists()
    for commit in climbed.git("rev-list", "main..better").splitlines():
        assert "Signed-off-by: A Hook" in climbed.git("log", "-1", "--format=%B", commit)
    assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}
    assert climbed.git("worktree", "list").count("\n") == 0
    assert not list((climbed.top / ".git/goalseek/demo").glob("promote-*"))


def test_a_hook_that_says_no_makes_no_branch(climbed: Project) -> None:
    hook(climbed, "pre-commit", 'echo "no commits on a Saturday" >&2; exit 1')
    before, refs = climbed.users(), all_refs(climbed)
    ended = climbed.run("promote", "--branch", "better")
    assert ended.exit_code == 3
    assert "no commits on a Saturday" in ended.stderr and "iteration 1" in ended.stderr
    assert "--no-verify home.patch" in ended.stderr
    assert (climbed.users(), all_refs(climbed)) == (before, refs)
    assert climbed.run("promote", "--patch", "-").exit_code == 0


def test_a_hook_that_changes_files_is_not_what_was_measured(climbed: Project) -> None:
    hook(climbed, "pre-commit", "echo formatted >> answer.json; git add answer.json")
    refs = all_refs(climbed)
    ended = climbed.run("promote", "--branch", "better")
    assert (ended.exit_code, all_refs(climbed)) == (1, refs)
    assert "answer.json" in ended.stderr and "not what was measured" in ended.stderr


def test_hooks_by_a_relative_path_are_those_of_the_checkout_and_not_the_candidates(climbed: Project) -> None:
    climbed.git("config", "core.hooksPath", "src/hooks")
    climbed.write({"src/hooks/commit-msg": '#!/bin/sh\necho "by the checkout" >> "$1"\n'})
    (climbed.top / "src/hooks/commit-msg").chmod(0o755)
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    assert "by the checkout" in climbed.git("log", "-1", "--format=%B", "better")


def test_branches_checked_out_in_a_linked_worktree_are_refused_and_left_alone(climbed: Project, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    climbed.git("worktree", "add", "--quiet", "-b", "side", str(linked))
    for name in ("side", "main"):
        ended = climbed.run("promote", "--branch", name)
        assert ended.exit_code == 2 and repr(name) in ended.stderr
    status = climbed.git("status", "--porcelain", folder=linked)
    assert climbed.run("promote", "--branch", "better").exit_code == 0
    assert climbed.git("status", "--porcelain", folder=linked) == status == ""
    climbed.git("switch", "--quiet", "--orphan", "unborn", folder=linked)
    refs = all_refs(climbed)
    ended = climbed.run("promote", "--branch", "unborn")
    assert (ended.exit_code, all_refs(climbed)) == (2, refs)
    assert "checked out" in ended.stderr


@pytest.mark.slow
def test_titles_reach_git_and_the_mail_as_they_are(make_project: Callable[..., Project]) -> None:
    titles = [
        "# not a comment",
        "Zürich: größer, 改善",
        "x" * 180,
        "--force",
        "[ui] faster",
        "Re: again",
        "---",
        "diff --git a/x b/x",
    ]
    project = make_project()
    project.set_moves(*({"title": title, "files": {"answer.json": answer(n)}} for n, title in enumerate(titles, 2)))
    project.climb("iterate", "-n", str(len(titles)))
    project.git("config", "i18n.commitEncoding", "ISO-8859-1")
    project.git("config", "commit.cleanup", "strip")
    assert project.run("promote", "--branch", "better").exit_code == 0
    project.git("config", "--unset", "i18n.commitEncoding")
    assert subjects(project, "main..better") == titles
    patch = project.top.parent / "home.patch"
    assert project.run("promote", "--patch", str(patch)).exit_code == 0
    project.git("switch", "--quiet", "--create", "mailed", "main")
    project.git("-c", "commit.cleanup=verbatim", "am", "--quiet", "--keep", str(patch))
    assert subjects(project, "main..mailed") == titles


def test_a_sha256_repository_and_a_project_in_a_subfolder(make_project: Callable[..., Project]) -> None:
    project = make_project(below="packages/one", object_format="sha256")
    project.set_moves(answer(2), answer(3))
    records = project.climb("iterate", "-n", "2")
    (project.top / "elsewhere.txt").write_text("moved on\n")
    project.commit("meanwhile")
    assert project.run("promote", "--onto", "main", "--branch", "better").exit_code == 0
    assert project.git("diff", "--name-only", "main", "better") == "packages/one/answer.json"
    assert project.git("diff", records[-1]["commit_hash"], "better", "--", "packages/one") == ""
