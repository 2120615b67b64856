"""Other checkouts of the repository hold its hidden files too: no program sees them, wherever they lie."""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from project import Project, home
from skips import levels

import goalseek
from goalseek.git.location import locate, other_folders
from goalseek.project.opening import open_project

LEVELS = pytest.mark.parametrize("mode", levels("landlock", "bubblewrap"))
SECRET = "the hidden judge of this test"


def set_spy(project: Project, mode: str, paths: list[Path], folder: Path, **scope: list[str]) -> None:
    """Makes the agent one that reads these paths; it is shown ``folder``."""
    script = home("agent.sh")
    reads = "".join(f"cat '{path}'\n" for path in paths)
    better = "echo '{\"score\": '$GOALSEEK_ITERATION'2}' > answer.json"
    script.write_text(f"{reads}\n{better}; echo a title; cat '{folder}/open'\n")
    provider = {"name": "command", "command": ["sh", str(script)]}
    sandbox = {"mode": mode, "read": [str(folder)]}
    scopes = {"writable": ["answer.json"], "hidden": ["hidden/**"], **scope}
    project.set_manifest({"sandbox": sandbox, "provider": provider, "scope": scopes})
    project.commit("spied on")


def spied(project: Project, mode: str, paths: list[Path], folder: Path, **scope: list[str]) -> str:
    """What such an agent printed."""
    set_spy(project, mode, paths, folder, **scope)
    ended = project.run("iterate", "-n", "1")
    assert ended.exit_code == 0, ended
    return (project.run_folder(1) / "provider_output.md").read_text()


@pytest.fixture
def shown(project: Project, tmp_path: Path) -> Path:
    """A folder that every program sees, as it does /opt."""
    folder = tmp_path / "shown"
    folder.mkdir()
    (folder / "open").write_text("seen by all\n")
    judge = f"# {SECRET}\n" + (project.top / "hidden/judge.sh").read_text()
    project.write({"hidden/judge.sh": judge})
    project.commit("a judge that is known again")
    return folder


@LEVELS
@pytest.mark.slow
def test_no_program_sees_another_checkout(project: Project, shown: Path, mode: str) -> None:
    """A locked one, a moved one, one whose ``.git`` is gone, and the store that objects are borrowed from."""
    for name in ("locked", "moving", "gone", "nested"):
        project.git("worktree", "add", "-q", "-b", name, str(shown / name))
    project.git("worktree", "lock", str(shown / "locked"))
    project.git("worktree", "move", str(shown / "moving"), str(shown / "moved"))
    (shown / "gone/.git").unlink()
    inner = shown / "nested/inner"
    project.git("worktree", "add", "-q", "-b", "inner", str(inner))
    places = [shown / name for name in ("locked", "moved", "gone", "nested")]
    assert set(other_folders(locate(project.folder))) == {*places, inner}
    files = [place / "hidden/judge.sh" for place in (*places, inner)]
    assert all(SECRET in path.read_text() for path in files)
    printed = spied(project, mode, files, shown)
    assert SECRET not in printed and "seen by all" in printed
    other = Project(inner, inner)
    shutil.rmtree(project.top / ".git/goalseek")
    project.git("update-ref", "-d", "refs/goalseek/demo/ledger")
    project.git("update-ref", "-d", "refs/goalseek/demo/tip")
    project.git("branch", "-qD", "goalseek/demo")
    printed = spied(other, mode, [*files[:-1], project.top / "hidden/judge.sh"], shown)
    assert SECRET not in printed and "seen by all" in printed


@LEVELS
@pytest.mark.slow
def test_of_another_checkout_what_is_shared_by_name_is_seen(project: Project, shown: Path, mode: str) -> None:
    """As large data often are: in the main checkout alone, and linked to."""
    tree = shown / "linked"
    (project.top / ".gitignore").write_text("data\n")
    project.commit("data are ignored")
    (project.top / "data").mkdir()
    (project.top / "data/large").write_text("large data\n")
    project.git("worktree", "add", "-q", "-b", "linked", str(tree))
    (tree / "data").symlink_to(project.top / "data")
    paths = [Path("data/large"), project.top / "hidden/judge.sh"]
    printed = spied(Project(tree, tree), mode, paths, shown, share=["data"])
    assert "large data" in printed and SECRET not in printed


def test_a_worktree_that_nobody_can_look_into_is_no_error(project: Project) -> None:
    before = other_folders(locate(project.top))
    note = project.top / ".git" / "worktrees" / "gone"
    note.mkdir(parents=True)
    (note / "gitdir").write_text(f"/{'x' * 300}/.git\n")  # as for EACCES, which root never meets
    assert other_folders(locate(project.top)) == before


def test_a_main_checkout_that_lies_elsewhere_and_borrowed_objects_are_known(project: Project, tmp_path: Path) -> None:
    clone, tree, linked = tmp_path / "clone", tmp_path / "tree", tmp_path / "linked"
    subprocess.run(["git", "clone", "-q", "--shared", str(project.top), str(clone)], check=True, timeout=120)
    tree.mkdir()
    there = Project(clone, clone)
    there.git("worktree", "add", "-q", "-b", "linked", str(linked))
    there.git("config", "core.worktree", "../../tree")
    assert set(other_folders(locate(linked))) == {clone, tree, project.top / ".git/objects"}


@LEVELS
@pytest.mark.slow
def test_a_checkout_that_is_added_while_the_climb_goes_on_is_not_seen_either(
    project: Project, shown: Path, mode: str
) -> None:
    added = shown / "added"
    set_spy(project, mode, [added / "hidden/judge.sh"], shown)
    for record in goalseek.iterate(goalseek.load(project.manifest), iterations=2):
        if record.iteration == 1:
            project.git("worktree", "add", "-q", "-b", "added", str(added))
    assert json.loads((project.run_folder(2) / "result.json").read_text())["iteration"] == 2
    assert SECRET not in (project.run_folder(2) / "provider_output.md").read_text()


def test_a_checkout_that_is_added_is_hidden_in_each_slot_from_its_next_iteration_on(
    project: Project, tmp_path: Path
) -> None:
    with open_project(goalseek.load(project.manifest)) as opened, contextlib.closing(opened.add_lane("slot-0")) as lane:
        opened.enter(lane)
        assert not opened.confines.elsewhere
        project.git("worktree", "add", "-q", "-b", "added", str(tmp_path / "added"))
        opened.enter(lane)
        assert opened.confines.elsewhere == (tmp_path / "added",)
