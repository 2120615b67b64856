"""Names and kinds of files that break naive tools: handled, or a rejected candidate; never a crash."""

import os
import shlex
import sys
from pathlib import Path

import pytest
from project import Project, answer, home
from shell_agent import better, play

from goalseek.disk import add_own
from goalseek.git.objects import Entry
from goalseek.workspace.checkout import Changes, Checkout
from goalseek.workspace.screening import MAX_FILES

NAMES = ["with space.txt", "ünïcode.txt", "new\nline.txt", 'quote".txt', "tab\t.txt", "-n", "bad\udcff.txt", "*.[x]"]


@pytest.mark.elsewhere
def test_files_with_odd_names_are_changed_kept_and_quoted_as_git_does(project: Project) -> None:
    project.write({f"odd/{name}": "1\n" for name in NAMES} | {f"hidden/{name}": "secret\n" for name in NAMES})
    attributes = {".gitattributes": "*.json text eol=crlf\n*.id ident\n", "x.id": "$Id$\n"}
    project.write({**attributes, "Answer.json": "other\n"})
    project.commit()
    step = "for name in odd/*; do echo 2 > \"$name\"; done; cp odd/-n 'odd/second -n'; rm odd/*space.txt"
    scope = {"writable": ["*.json", "odd/**"], "hidden": ["hidden/**"]}
    records = play(project, better(2), f"{better(3)}; {step}", f"{better(4)}; echo 3 > Answer.json", **scope)
    assert [record["outcome"] for record in records] == ["kept"] * 3, records
    workspace = project.trees() / "workspace"
    assert records[0]["changed_loc"] == 2, "attributes of the user change no byte"
    assert (workspace / "answer.json").read_bytes() == answer(3).encode()
    assert (workspace / "x.id").read_bytes() == b"$Id$\n"
    quoted = records[1]["changed_files"]
    assert len(quoted) == len(NAMES) + 2
    assert {'"odd/new\\nline.txt"', '"odd/bad\\377.txt"', "odd/ünïcode.txt"} <= set(quoted)
    assert records[2]["changed_files"] == ["Answer.json", "answer.json"]
    listed = project.git("ls-tree", "-r", "-z", "--name-only", "goalseek/demo").split("\0")
    assert {f"odd/{name}" for name in NAMES[1:]} | {"odd/second -n"} <= set(listed)
    assert "odd/with space.txt" not in listed
    assert b"hidden" not in os.listdir(os.fsencode(workspace))


@pytest.mark.slow
def test_a_climb_lies_below_a_folder_whose_name_is_no_utf_8(project: Project) -> None:
    folder = project.top.parent / "bad\udcff"
    folder.mkdir()
    top = project.top.rename(folder / "repository")
    project = Project(top, top)
    project.set_moves(answer(2), answer(3))
    assert "✗ isolation" in project.run("doctor", "--quick").stdout
    project.climb()
    assert project.run("-m", str(project.manifest), "iterate").exit_code == 0
    assert [record["outcome"] for record in project.iterations()] == ["baseline", "kept", "kept"]
    remembered = project.run_folder(0).parents[1] / "logs" / "manifest.json"
    written = remembered.stat().st_mtime_ns
    for looks in (("status",), ("log",), ("show", "1"), ("promote",), ("audit",)):
        assert project.run(*looks).exit_code == 0
    assert remembered.stat().st_mtime_ns == written


PLANTED = "sh -c 'touch $HOME/planted'"
POISON = "; ".join(
    (
        *(
            f'git config {key} "{PLANTED}"'
            for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "diff.x.textconv", "core.sshCommand")
        ),
        "mkdir -p .git/hooks .git/info; echo 'touch $HOME/planted' > .git/hooks/post-checkout; chmod +x .git/hooks/*",
        "echo '* filter=x diff=x' > .git/info/attributes",
    )
)
ODD_KINDS = (
    ("ln -s old.txt src/link", "better"),
    ("ln -s ../outside src/away", "out_of_scope"),
    ("mkfifo src/pipe", "out_of_scope"),
    ("rm answer.json; mkfifo answer.json", "out_of_scope"),
    ("mkdir src/inner; cd src/inner; git init -q; echo x > file", "out_of_scope"),
    ("mkdir src/deep; chmod 000 src/deep", "better"),
    ("chmod 000 src/old.txt", "better"),
    ("rm -rf .git", "better"),
    ("rm -rf .git; echo x > .git", "better"),
    (POISON, "better"),
    ("git config --local --list > $HOME/settings; git status; ls .git/hooks .git/info/attributes", "better"),
    ("cd ..; mv workspace elsewhere; ln -s {top} workspace", "interrupted"),
    ("rm -r src; ln -s hidden src", "out_of_scope"),
    ("true", "better"),
)


def test_odd_kinds_of_files_and_a_poisoned_workspace_are_rejected_or_handled(project: Project) -> None:
    project.write({"src/old.txt": "1\n", "new.txt": "the user's\n"})
    project.commit()
    before = project.users()
    steps = [f"{better(number)}; {step}" for number, (step, _) in enumerate(ODD_KINDS, start=2)]
    scope = {"writable": ["answer.json", "src", "src/**"], "hidden": ["hidden/**"]}
    records = play(project, *(step.replace("{top}", str(project.top)) for step in steps), **scope)
    assert [(step, record["reason"]) for (step, _), record in zip(ODD_KINDS, records, strict=True)] == [*ODD_KINDS]
    assert not home("planted").exists()
    settings = home("settings").read_text()
    assert "user.name=goalseek" in settings and "fsmonitor" not in settings and "filter" not in settings
    after = project.users()
    assert {path for path in before if after.get(path) != before[path]} == {"goalseek.toml"}


DIG = 'import os; os.chdir("{}"); [(os.mkdir("d" * 20), os.chdir("d" * 20)) for _ in range({})]; open("x", "w")'


@pytest.mark.slow
def test_a_folder_deeper_than_any_path_is_named_and_removed(project: Project) -> None:
    project.write({"src/old.txt": "1\n"})
    project.commit()
    places = {
        "src": (1200, "out_of_scope"),
        ".": (300, "better"),
        ".git": (1200, "better"),
        "__pycache__": (300, "better"),
    }
    python = shlex.quote(sys.executable)
    digs = [f"mkdir -p {where}; {python} -c '{DIG.format(where, levels)}'" for where, (levels, _) in places.items()]
    steps = [f"{dig}; {better(number)}" for number, dig in enumerate(digs, start=2)]
    records = play(project, *steps, better(9), writable=["answer.json", "src/**"], hidden=["hidden/**"])
    assert [record["reason"] for record in records] == [*(reason for _, reason in places.values()), "better"]
    assert list((project.trees() / "workspace").rglob("d" * 20)) == []


def test_a_new_folder_in_a_very_deep_one_of_the_tree_is_its_files(tmp_path: Path) -> None:
    add_own(tmp_path)
    tree = Checkout(tmp_path / "tree", tmp_path / "state", lambda path, entry: b"")
    deep = "d/" * 220
    tree.build({f"{deep}old": Entry("100644", "0")}, "label")
    (tmp_path / "tree" / deep / "new").mkdir()
    (tmp_path / "tree" / deep / "new" / "file").touch()
    assert tree.changes() == Changes(added=(f"{deep}new/file",), folders=(f"{deep}new",))
    tree.clean()
    assert tree.changes() == Changes()


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
