"""Names and kinds of files that break naive tools: handled, or a rejected candidate; never a crash."""

import os

import pytest
from project import Project, answer
from test_scope_enforcement import better, play

NAMES = ["with space.txt", "ünïcode.txt", "new\nline.txt", 'quote".txt', "tab\t.txt", "-n", "bad\udcff.txt", "*.[x]"]


def test_files_with_odd_names_are_changed_kept_and_quoted_as_git_does(project: Project) -> None:
    project.write({f"odd/{name}": "1\n" for name in NAMES})
    project.commit()
    step = "for name in odd/*; do echo 2 > \"$name\"; done; cp odd/-n 'odd/second -n'; rm odd/*space.txt"
    records = play(project, f"{better(2)}; {step}", writable=["answer.json", "odd/**"], hidden=["hidden/**"])
    assert records[0]["outcome"] == "kept", records[0]
    quoted = records[0]["changed_files"]
    assert len(quoted) == len(NAMES) + 2
    assert {'"odd/new\\nline.txt"', '"odd/bad\\377.txt"', "odd/ünïcode.txt"} <= set(quoted)
    listed = project.git("ls-tree", "-r", "-z", "--name-only", "goalseek/demo").split("\0")
    assert {f"odd/{name}" for name in NAMES[1:]} | {"odd/second -n"} <= set(listed)
    assert "odd/with space.txt" not in listed


def test_hidden_files_with_odd_names_never_reach_the_workspace(project: Project) -> None:
    project.write({f"hidden/{name}": "secret\n" for name in NAMES})
    project.commit()
    project.set_moves(answer(2))
    project.climb()
    present = os.listdir(os.fsencode(project.trees() / "workspace"))
    assert b"hidden" not in present


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("ln -s ../outside src/link", "better"),
        ("ln -s ../../outside src/link", "out_of_scope"),
        ("ln -s /etc/passwd src/link", "out_of_scope"),
        ("mkfifo src/pipe", "out_of_scope"),
        ("rm answer.json; mkfifo answer.json", "out_of_scope"),
        ("mkdir -p src/.GIT; echo x > src/.GIT/config", "out_of_scope"),
        ("echo x > src/git~1", "out_of_scope"),
        ("mkdir src/inner; cd src/inner; git init -q; echo x > file", "out_of_scope"),
        ("echo x > src/module.pyc", "out_of_scope"),
        ("rm -r src; ln -s hidden src", "better"),
        ("mkdir src/deep; chmod 000 src/deep", "better"),
        ("chmod 000 src/old.txt", "better"),
        ("rm -rf .git", "better"),
        ("rm -rf .git; echo x > .git", "better"),
    ],
)
def test_odd_kinds_of_files_are_rejected_or_handled(project: Project, step: str, reason: str) -> None:
    project.write({"src/old.txt": "1\n"})
    project.commit()
    writable = ["answer.json", "src", "src/**"]
    records = play(project, f"{better(2)}; {step}", better(3), writable=writable, hidden=["hidden/**"])
    assert [record["reason"] for record in records] == [reason, "better"], records[0]["why"]


def test_a_poisoned_workspace_repository_runs_nothing(project: Project) -> None:
    planted = "sh -c 'touch $HOME/planted'"
    config = "; ".join(
        f'git config {key} "{planted}"'
        for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "diff.x.textconv", "core.sshCommand")
    )
    hook = "mkdir -p .git/hooks; echo 'touch $HOME/planted' > .git/hooks/post-checkout; chmod +x .git/hooks/*"
    attributes = "echo '* filter=x diff=x' > .git/info/attributes"
    records = play(project, f"{better(2)}; {config}; {hook}; mkdir -p .git/info; {attributes}", better(3))
    assert [record["outcome"] for record in records] == ["kept", "kept"]
    assert not (project.top.parent / "home" / "planted").exists()
    settings = project.git("config", "--local", "--list", folder=project.trees() / "workspace")
    assert "fsmonitor" not in settings and "filter" not in settings


def test_attributes_of_the_user_change_no_byte(project: Project) -> None:
    project.write({".gitattributes": "*.json text eol=crlf\n*.id ident\n", "x.id": "$Id$\n"})
    project.commit()
    project.set_moves(answer(2))
    baseline, kept = project.climb()
    assert (project.trees() / "workspace" / "answer.json").read_bytes() == answer(1).encode()
    assert (project.trees() / "workspace" / "x.id").read_bytes() == b"$Id$\n"
    assert kept["changed_loc"] == 2 and baseline["outcome"] == "baseline"


def test_names_of_head_that_differ_only_in_case_are_two_files(project: Project) -> None:
    project.write({"Answer.json": "other\n"})
    project.commit()
    (record,) = play(project, f"{better(2)}; echo 3 > Answer.json", writable=["*.json"], hidden=["hidden/**"])
    assert record["outcome"] == "kept" and record["changed_files"] == ["Answer.json", "answer.json"]
