"""The agent's tree: no hidden file in it or in its object store at any depth, its history shows what was kept."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from project import Project, Projects, answer, home
from shell_agent import better, play

from goalseek.cli.main import run as command_line
from goalseek.git.objects import Objects
from goalseek.workspace.places import cache_folder


def hidden_blobs(project: Project) -> set[str]:
    """Every blob that any commit of the repository has under a hidden path."""
    commits = project.git("rev-list", "--all", "main").split()
    listings = [project.git("ls-tree", "-r", commit, "hidden", "labels.csv", "moves.toml") for commit in commits]
    return {line.split()[2] for listing in listings for line in listing.splitlines()}


def stored(folder: Path, project: Project) -> str:
    return project.git("cat-file", "--batch-all-objects", "--batch-check", folder=folder)


@pytest.mark.slow
def test_no_hidden_blob_is_in_the_workspaces_store_at_any_depth(project: Project) -> None:
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**", "labels.csv"]}
    project.set_manifest({"scope": scope})
    for number in range(3):
        project.write({"labels.csv": f"label {number}\n", "hidden/deep/more.txt": f"{number}\n"})
        project.commit()
    project.set_moves(*(answer(score) for score in range(2, 9)))
    project.climb("iterate", "-n", "3")
    project.write({"labels.csv": "later\n"})
    project.commit()
    assert project.run("baseline").exit_code == 0
    project.climb("iterate", "-n", "2")
    workspace = project.trees() / "workspace"
    blobs = hidden_blobs(project)
    assert len(blobs) >= 7
    for folder in (workspace, project.trees() / "workspace.git"):
        listed = stored(folder, project)
        assert listed and not [blob for blob in blobs if blob in listed]
    assert not list(workspace.glob("hidden*")) and not (workspace / "labels.csv").exists()
    assert not (workspace / ".git" / "objects" / "info" / "alternates").exists()
    manifest = project.git("rev-parse", "main:goalseek.toml")
    assert manifest not in stored(workspace, project), "the manifest is hidden too"


def test_its_history_shows_what_was_kept_and_its_trees_lie_outside_the_repository(project: Project) -> None:
    project.set_moves(answer(2), answer(0.5), answer(3), answer(0.1))
    project.climb("iterate", "-n", "4")
    workspace = project.trees() / "workspace"
    messages = project.git("log", "--reverse", "--format=%s: %b", folder=workspace).split("\n\n")
    wanted = ["Baseline of demo: score: 1", "move 1: score: 2 (was 1)", "move 3: score: 3 (was 2)"]
    assert [message.strip() for message in messages] == wanted
    assert project.git("log", "--format=%an %ae %cn %ce", "-1", folder=workspace) == " ".join(
        ["goalseek", "goalseek@localhost"] * 2
    )
    assert project.git("status", "--porcelain", folder=workspace) == ""
    assert project.git("show", "HEAD:answer.json", folder=workspace) + "\n" == answer(3)
    project.git("fsck", "--strict", folder=workspace)
    assert not project.trees().is_relative_to(project.top)
    os.environ["XDG_CACHE_HOME"] = str(project.top / "cache")
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "inside the repository" in ended.stderr
    assert not (project.top / "cache").exists()


def test_each_proposal_starts_from_the_incumbent_and_is_told_nothing_hidden(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"hidden/labels-of-the-test-half.csv": "secret words\n"})
    project.commit()
    monkeypatch.setenv("MY_API_KEY", "leaked")
    check = (
        "n=$GOALSEEK_ITERATION; git status --porcelain --ignored > $HOME/status-$n; cat answer.json > $HOME/start-$n"
    )
    mess = "mkdir junk; echo 1 > junk/x; git add -A; git commit -qm mine; git branch mine; rm -rf .git/objects"
    told = 'cp "$GOALSEEK_BRIEF" $HOME/brief; cat > $HOME/prompt; env > $HOME/env; echo $PWD > $HOME/where'
    play(project, f"{check}; {better(2)}; {mess}", f"{check}; {better(0)}", f"{check}; {better(3)}; {told}")
    assert [home(f"status-{number}").read_text() for number in (1, 2, 3)] == [""] * 3
    starts = [home(f"start-{number}").read_text().strip() for number in (1, 2, 3)]
    assert starts == [answer(score).strip() for score in (1, 2, 2)]
    assert "mine" not in project.git("branch", folder=project.trees() / "workspace")
    for text in (home("prompt").read_text(), home("brief").read_text()):
        assert not [word for word in ("hidden", "judge", "labels", *hidden_blobs(project)) if word in text], text
    brief = json.loads(home("brief").read_text())
    assert [(row["iteration"], row["outcome"], row["reason"]) for row in brief["history"]] == [
        (2, "reverted", "worse"),
        (1, "kept", "better"),
        (0, "baseline", "measured"),
    ]
    assert brief["history"][0]["why"] == "0 is worse than 2 by 2"
    assert brief["incumbent"] == 2 and brief["writable"] == ["answer.json"]
    names = {line.split("=")[0] for line in home("env").read_text().splitlines()}
    assert not {"MY_API_KEY", "GOALSEEK_RUN_DIR", "GOALSEEK_SEED", "GIT_DIR", "XDG_CACHE_HOME"} & names
    wanted = "PROJECT_ROOT ITERATION PHASE PROMPT BRIEF NONCE METRIC DIRECTION INCUMBENT USAGE".split()
    assert {f"GOALSEEK_{name}" for name in wanted} <= names
    assert home("where").read_text().strip() == str(project.trees() / "workspace")


def test_a_file_written_by_another_name_in_the_git_folder_is_found(project: Project) -> None:
    by_another_name = "ln notes.txt .git/other; echo planted > .git/other; rm .git/other"
    project.write({"notes.txt": "as it was\n"})
    project.commit()
    records = play(project, better(2), better(3), f"{better(4)}; {by_another_name}", f"cp notes.txt $HOME; {better(5)}")
    assert [record["outcome"] for record in records] == ["kept", "kept", "skipped", "kept"]
    assert "notes.txt" in records[2]["why"] and home("notes.txt").read_text() == "as it was\n"


@pytest.mark.slow
def test_a_same_size_edit_with_the_old_modification_time_is_found(project: Project) -> None:
    step = "touch -r answer.json stamp; printf '%s' '{}' > answer.json; touch -r stamp answer.json; rm stamp".format
    project.write({"answer.json": answer(1).strip("\n")})
    project.commit()
    scores = range(2, 5)
    records = play(project, *(step(answer(score).strip("\n")) for score in scores))
    assert [record["metric"]["value"] for record in records] == list(scores)


def test_where_a_part_of_the_cache_was_removed_the_workspace_is_made_anew(played: Projects) -> None:
    project = played(answer(2), more=(answer(3), answer(4), answer(5)))
    project.climb("iterate", "-n", "1")
    for part, score in (("objects", 3), ("scratch", 4)):
        shutil.rmtree(project.trees() / "workspace.git" / part)
        assert project.climb("iterate", "-n", "1")[-1]["outcome"] == "kept"
        shown = project.git("show", "HEAD:answer.json", folder=project.trees() / "workspace")
        assert shown + "\n" == answer(score)


def test_a_relative_cache_folder_is_ignored_as_the_standard_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert cache_folder() == Path.home() / ".cache" / "goalseek"


@pytest.mark.slow
def test_trees_that_take_long_to_make_are_said_once_each(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.set_moves(answer(2), answer(3))
    fill = Objects.fill
    monkeypatch.setattr("goalseek.project.activity.MOMENT_SECONDS", 0.1)
    monkeypatch.setattr(Objects, "fill", lambda *given: (time.sleep(0.5), fill(*given)))
    said = "a tree of the repository is being made in "
    assert command_line(["-C", str(project.folder), "iterate"]) == 0
    told = capsys.readouterr().err
    assert told.count(said) == 2
    assert all(f"{said}{project.trees() / name}:" in told for name in ("bench/tree", "workspace"))
    assert command_line(["-C", str(project.folder), "iterate"]) == 0
    assert said not in capsys.readouterr().err
