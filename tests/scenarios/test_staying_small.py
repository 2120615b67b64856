"""A long climb in one process leaves nothing behind that grows: no descriptor, process, folder, nor loose object."""

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from inside import pack_every
from project import Project, Projects, answer, living

import goalseek

pytestmark = pytest.mark.slow
ITERATIONS, EVERY, KEPT_EVERY = 120, 20, 8


def loose(project: Project) -> set[str]:
    return {path.parent.name + path.name for path in project.top.glob(".git/objects/??/*")}


def loose_in_workspace(project: Project) -> int:
    return sum(1 for _ in project.trees().glob("workspace/.git/objects/??/*"))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_hundred_iterations_leave_nothing_that_grows(
    make_project: Projects, tmp_path: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    pack_every(monkeypatch, EVERY)
    outputs = {"name": "train", "run": "cp answer.json model.bin", "outputs": ["model.bin"]}
    judge = {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"}
    tables = {"log": {"keep_runs": 10}, "limits": {"stagnation": "none"}, "verify": [outputs, judge]}
    project = make_project(manifest=tables)
    project.set_moves(
        *(
            {"files": {"other.txt": f"out of scope {number}\n"}}
            if number % 13 == 0
            else answer(2 + number if number % KEPT_EVERY == 0 else number / 1000)
            for number in range(1, ITERATIONS + 1)
        )
    )
    project.git("gc", "-q")
    project.write({"other.txt": "loose\n"})
    project.commit("loose")
    project.git("hash-object", "-w", "--stdin", stdin=b"nobody reaches this\n")
    project.write({"other.txt": "stashed\n"})
    project.git("stash", "--quiet")
    users, refs = loose(project), project.users()
    known: list[tuple[int, int, int]] = []
    most = 0
    climb = goalseek.iterate(goalseek.load(project.manifest), iterations=ITERATIONS)
    with contextlib.closing(climb):  # type: ignore[type-var]
        for record in climb:
            most = max(most, len(loose(project) - users))
            assert loose_in_workspace(project) < 320
            if record.iteration in (EVERY, ITERATIONS):
                run_folders = len(os.listdir(project.run_folder(0).parent))
                known.append((descriptors(), len(living(isolated)), run_folders))
    first, last = known
    assert last == first and first[2] in (11, 12)
    refused = ITERATIONS // 13
    assert most < 6 * (EVERY + 2) + 2 * refused
    assert users <= loose(project) and project.users() == refs
    assert len(list(project.top.glob(".git/objects/pack/*.pack"))) == 1 + (ITERATIONS + 1) // EVERY
    kept = ITERATIONS - ITERATIONS % KEPT_EVERY
    assert [path.parent.name for path in project.run_folder(0).parent.glob("*/outputs")] == [f"{kept:04d}"]
    assert list(temporary.iterdir()) == []
    assert not list(project.top.glob(".git/goalseek/demo/objects.git/scratch/*"))
    assert not (project.trees() / "scratch").exists()
    checked = project.git("fsck", "--full", "--strict").splitlines()
    assert not [line for line in checked if not line.startswith("dangling ")]
    project.check("audit")
    assert len(project.iterations()) == ITERATIONS + 1


def test_what_setup_gave_for_old_rulers_goes(make_project: Projects) -> None:
    setup = {"run": "mkdir build && echo made > build/made", "gives": ["build"]}
    project = make_project(manifest={"setup": setup})
    project.set_moves(answer(2))
    project.climb()
    for number in range(4):
        judge = (project.folder / "hidden" / "judge.sh").read_text()
        project.write({"hidden/judge.sh": judge + f"# ruler {number}\n"})
        project.commit()
        project.check("baseline")
    assert len(list((project.trees() / "setup").iterdir())) == 3
