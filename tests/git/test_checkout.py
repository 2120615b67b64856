"""The user's checkout, index, stash, HEAD and branches are byte for byte as before, whatever the climb does."""

from pathlib import Path

from project import FILES, Project, Projects, answer

SETTINGS = {
    "core.autocrlf": "true",
    "core.fsmonitor": "touch planted",
    "commit.gpgSign": "true",
    "core.quotePath": "true",
    "diff.noprefix": "true",
    "core.ignoreCase": "true",
}


def make_dirty(project: Project) -> None:
    """Another branch, a stash, a staged new file, a dirty writable file, an untracked file, a hook, and settings."""
    project.git("branch", "elsewhere")
    project.write({"other.txt": "to be stashed\n"})
    project.git("stash", "--quiet")
    project.write({"staged.txt": "staged\n", "untracked.txt": "untracked\n", "answer.json": answer(77)})
    project.git("add", "staged.txt")
    hook = project.top / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hook-ran\n")
    hook.chmod(0o755)
    for name, value in SETTINGS.items():
        project.git("config", name, value)


def test_a_climb_beside_a_dirty_tree_touches_nothing_of_it_and_no_setting_changes_what_is_measured(
    project: Project,
) -> None:
    make_dirty(project)
    before = project.users()
    project.set_moves(answer(2), answer(0.5), answer(3), {"files": {"other.txt": "x\n"}})
    records = project.climb("iterate", "-n", "4")
    assert records[0]["metric"]["value"] == 1, "the baseline is HEAD, not the dirty file"
    assert records[3]["metric"]["value"] == 3
    assert project.users() == before
    assert (project.trees() / "workspace" / "other.txt").read_bytes() == FILES["other.txt"].encode()
    assert not (project.top / "planted").exists() and not (project.top / "hook-ran").exists()
    project.git("config", "--unset", "core.fsmonitor")
    assert project.git("status", "--porcelain").splitlines() == [" M answer.json", "A  staged.txt", "?? untracked.txt"]


def test_a_linked_worktree_with_a_detached_head_is_allowed(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "side"))
    linked = Project(tmp_path / "side", tmp_path / "side")
    linked.script = project.script
    project.set_moves(answer(2))
    before = (project.users(), linked.users())
    assert linked.climb()[1]["outcome"] == "kept"
    assert (project.users(), linked.users()) == before
    assert project.git("rev-parse", "goalseek/demo^{tree}") != project.git("rev-parse", "main^{tree}")
    assert (project.top / ".git" / "goalseek" / "demo").is_dir()
    assert not project.run_folder(0).exists() and linked.run_folder(0).exists()


def test_a_monorepos_subfolder_is_a_project_of_its_own(make_project: Projects) -> None:
    project = make_project(below="services/one")
    (project.top / "answer.json").write_text("not this one\n")
    (project.top / "shared.txt").write_text("shared\n")
    project.commit()
    project.set_moves({"files": {"answer.json": answer(2), "../../shared.txt": "mine\n"}})
    assert project.run("iterate").exit_code == 3, "a move may not leave the folder"
    project.set_moves(answer(2))
    records = project.climb()
    assert records[1]["changed_files"] == ["services/one/answer.json"]
    inner = project.folder / "deeper" / "still"
    inner.mkdir(parents=True)
    assert project.run("-C", str(inner), "iterate").exit_code == 0, "found from any folder below"
    assert project.git("diff", "--name-only", "main", "goalseek/demo") == "services/one/answer.json"
    assert not (project.top / ".goalseek").exists() and (project.folder / ".goalseek").is_dir()


def test_a_manifest_outside_the_repository_speaks_of_the_repositorys_root(project: Project, tmp_path: Path) -> None:
    project.write({"program.md": "climb this\n", "data/big.txt": "data\n", ".gitignore": "data/\n"})
    outside = Project(project.top, tmp_path / "control")
    outside.script = project.script
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["data"]}
    outside.set_manifest({"project": {"name": "demo", "repo": str(project.top)}, "scope": scope})
    project.manifest.unlink()
    project.commit()
    before = project.users()
    project.set_moves(answer(2))
    assert outside.climb()[1]["outcome"] == "kept"
    assert project.users() == before
    assert outside.run_folder(1).is_dir() and not (project.top / ".goalseek").exists()
    assert "climb this" in (outside.run_folder(1) / "prompt.md").read_text()
