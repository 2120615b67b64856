"""Names and kinds of files that break naive tools: handled, or a rejected candidate; never a crash."""

import os
import shlex
import sys
from pathlib import Path

import pytest
from project import Project, answer
from test_scope_enforcement import better, play

from goalseek.workspace.screening import MAX_BYTES, MAX_FILES, ChangeSize

NAMES = ["with space.txt", "ünïcode.txt", "new\nline.txt", 'quote".txt', "tab\t.txt", "-n", "bad\udcff.txt", "*.[x]"]


def test_files_with_odd_names_are_changed_kept_and_quoted_as_git_does(project: Project) -> None:
    project.write({f"odd/{name}": "1\n" for name in NAMES} | {f"hidden/{name}": "secret\n" for name in NAMES})
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
    assert b"hidden" not in os.listdir(os.fsencode(project.trees() / "workspace"))


@pytest.mark.slow
def test_a_climb_lies_below_a_folder_whose_name_is_no_utf_8(project: Project) -> None:
    project.set_moves(answer(2), answer(3))
    folder = project.top.parent / "bad\udcff"
    folder.mkdir()
    top = project.top.rename(folder / "repository")
    project = Project(top, top)
    assert project.run("doctor", "--quick").exit_code == 0
    project.climb()
    assert project.run("-m", str(project.manifest), "iterate").exit_code == 0
    assert [record["outcome"] for record in project.iterations()] == ["baseline", "kept", "kept"]
    remembered = project.run_folder(0).parents[1] / "logs" / "manifest.json"
    written = remembered.stat().st_mtime_ns
    for looks in (("status",), ("log",), ("show", "1"), ("promote",), ("audit",)):
        assert project.run(*looks).exit_code == 0
    assert remembered.stat().st_mtime_ns == written


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


DIG = 'import os; os.chdir("{}"); [(os.mkdir("d" * 20), os.chdir("d" * 20)) for _ in range({})]; open("x", "w")'


@pytest.mark.parametrize(
    ("where", "levels", "reason"),
    [("src", 1200, "out_of_scope"), (".", 300, "better"), (".git", 1200, "better"), ("__pycache__", 300, "better")],
)
@pytest.mark.slow
def test_a_folder_deeper_than_any_path_is_named_and_removed(
    project: Project, where: str, levels: int, reason: str
) -> None:
    project.write({"src/old.txt": "1\n"})
    project.commit()
    dug = f"mkdir -p {where}; {shlex.quote(sys.executable)} -c '{DIG.format(where, levels)}'"
    first, second = play(
        project, f"{dug}; {better(2)}", better(3), writable=["answer.json", "src/**"], hidden=["hidden/**"]
    )
    assert (first["reason"], second["reason"]) == (reason, "better")
    assert list((project.trees() / "workspace").rglob("d" * 20)) == []


def test_a_workspace_that_became_a_link_to_the_checkout_loses_its_iteration_and_nothing_of_the_users(
    project: Project,
) -> None:
    project.write({"new.txt": "the user's\n"})
    before = project.users()
    records = play(project, f"{better(2)}; cd ..; mv workspace elsewhere; ln -s {project.top} workspace", better(3))
    assert [record["reason"] for record in records] == ["interrupted", "better"]
    after = project.users()
    assert {path: after[path] for path in before if path != "goalseek.toml"} == {
        path: before[path] for path in before if path != "goalseek.toml"
    }


@pytest.mark.slow
def test_a_flood_of_bytes_or_files_is_refused_before_it_is_read(project: Project) -> None:
    project.write({"src/old.txt": "1\n"})
    project.commit()
    scopes = {"writable": ["answer.json", "src/**"], "hidden": ["hidden/**"]}
    records = play(
        project,
        f"truncate -s 1T src/huge; {better(2)}",
        f"truncate -s 1T other.txt; {better(2)}",
        f"cd src; seq {MAX_FILES + 1} | xargs touch",
        better(3),
        **scopes,
    )
    assert [record["reason"] for record in records] == ["out_of_scope"] * 3 + ["better"]
    assert "larger than 256 MiB" in records[0]["why"] and "more than 20000 files" in records[2]["why"]


def test_a_flood_counts_what_files_say_that_they_hold(tmp_path: Path) -> None:
    (tmp_path / "half").touch()
    os.truncate(tmp_path / "half", MAX_BYTES // 2)
    flood = ChangeSize()
    assert [bool(flood.add(tmp_path / "half")) for _ in range(3)] == [False, False, True]
    (tmp_path / "folder").mkdir()
    many = ChangeSize(files=MAX_FILES)
    assert many.add(tmp_path / "folder") == "the change has more than 20000 files"
