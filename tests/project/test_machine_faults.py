"""A file that may not be written, or that nobody may read, is the machine's to mend and no bug."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from project import FILES, Project, Projects, answer

from goalseek import disk
from goalseek.cli import main
from goalseek.doctor import project_checks
from goalseek.errors import BUG, UNFIT, GitFailed
from goalseek.git.objects import ObjectsFailed
from goalseek.loop import invocation
from goalseek.project import activity

REFUSED = "insufficient permission for adding an object to repository database .git/objects"
FILE = "/somewhere/of the user's/0001"
DENIED = PermissionError(errno.EACCES, os.strerror(errno.EACCES), FILE)
SYSTEM_CALL = PermissionError(errno.EPERM, "a system call of ours")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (DENIED, f"{FILE}: Permission denied"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS), os.fsencode(FILE)), f"{FILE}: Read-only file system"),
        (GitFailed(("hash-object",), 128, b"fatal: .git/objects: Permission denied\n"), "fatal: .git/objects"),
        (GitFailed(("hash-object",), 128, b"fatal: something else\n"), None),
        (ObjectsFailed(f"git mktree ended: error: {REFUSED}"), f"git mktree ended: error: {REFUSED}"),
        (SYSTEM_CALL, None),
        (FileNotFoundError(errno.ENOENT, "gone", FILE), None),
    ],
)
def test_which_faults_are_the_machines(fault: Exception, words: str | None) -> None:
    error = disk.machine_error(fault)
    assert (error is None) == (words is None) and (error is None or error.message.startswith(str(words)))


@pytest.mark.parametrize(
    ("fault", "code", "words"), [(DENIED, UNFIT, f"{FILE}: Permission denied"), (SYSTEM_CALL, BUG, "this is a bug")]
)
def test_in_a_climb_it_is_told_and_shown(
    played: Projects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: Exception,
    code: int,
    words: str,
) -> None:
    project = played(answer(2))

    def failing(*_: object) -> None:
        raise fault

    monkeypatch.setattr(invocation, "check_fit", failing)
    assert main.run(["-C", str(project.folder), "iterate"]) == code
    told = capsys.readouterr().err
    assert words in told and ("Traceback" in told) == (code == BUG)
    picture = project.state()
    assert picture["status"] == ("blocked" if code == UNFIT else "failed")


def test_a_full_disk_is_the_reason_that_status_shows(played: Projects, monkeypatch: pytest.MonkeyPatch) -> None:
    project = played(answer(2))

    def refused(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), FILE)

    def written(path: Path, content: str) -> None:
        refused() if path.exists() else path.write_text(content)

    monkeypatch.setattr(invocation, "check_fit", refused)
    monkeypatch.setattr(activity, "write_atomic", written)
    assert main.run(["-C", str(project.folder), "iterate"]) == UNFIT
    monkeypatch.undo()
    shown = project.run("status").stdout
    assert shown.startswith("demo: blocked: the disk is full\n") and "next: make room" in shown


def test_in_another_command_it_is_told_with_the_file(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "mkdir", refused)
    assert main.run(["-C", str(project.folder), "direct", "a smaller step"]) == UNFIT
    told = capsys.readouterr().err
    assert ".goalseek/demo/logs" in told and "Permission denied" in told and "ls -ld" in told


@pytest.mark.parametrize("removed", [".git/goalseek/demo", ".goalseek/demo/logs"])
def test_a_folder_of_its_own_that_somebody_removes_is_named_and_the_same_command_goes_on(
    played: Projects, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], removed: str
) -> None:
    project = played(answer(2), more=(answer(3),))

    def remove(*_: object) -> None:
        shutil.rmtree(project.top / removed)
        raise FileNotFoundError(errno.ENOENT, "gone", FILE)

    monkeypatch.setattr(invocation, "check_fit", remove)
    assert main.run(["-C", str(project.folder), "iterate"]) == UNFIT
    told = capsys.readouterr().err
    assert f"{project.top / removed} was removed while goalseek was at work" in told and "Traceback" not in told
    monkeypatch.undo()
    assert project.climb()[-1]["outcome"] == "kept"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "jobs", "said"),
    [("none", (), "2 copies"), ("auto", (), "3 copies"), ("auto", ("--jobs", "3"), "9 copies"), ("none", None, "")],
)
def test_what_the_copies_of_a_large_tree_need_is_said_before_they_are_made(
    make_project: Projects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    noise: str,
    jobs: tuple[str, ...] | None,
    said: str,
) -> None:
    """A file of a few bytes takes a block; "" where they take less than a GiB."""
    metric = {"direction": "maximize", "query": "score", "noise": noise}
    project = make_project(files={**FILES, "large": "x" * 100_000}, manifest={"metric": metric})
    project.set_moves(answer(2))
    blocks = -(-100_000 // 4096) + len(FILES) + 1  # the manifest's
    if jobs is not None:
        monkeypatch.setattr(project_checks, "LITTLE_FREE", 2 * blocks * 4096)
        monkeypatch.setattr(disk, "LITTLE_FREE", 0)
    assert main.run(["-C", str(project.folder), "iterate", *(jobs or ())]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "copies of the tree" in line]
    assert len(told) == bool(said) and said in "".join(told)
    assert main.run(["-C", str(project.folder), "iterate"]) == 0
    assert "copies" not in capsys.readouterr().err


def test_a_git_directory_that_a_kill_left_half_made_is_made_again(make_project: Projects) -> None:
    project = make_project()
    project.set_moves(answer(2))
    left = project.top / ".git/goalseek/demo/objects.git/config.lock"
    left.parent.mkdir(parents=True)
    left.touch()
    assert project.climb()[-1]["outcome"] == "kept" and not left.exists()
