"""A disk that is really full: a small file system for the repository, or for goalseek's own trees, is filled up.

Filled beforehand but for some pages, or by somebody else in the middle of a phase.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from killing import assert_sound, branch, climbing, told
from needs import AS_ROOT
from project import Project

from goalseek.cli.main import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("mount"),
]
ITERATIONS = 14
PAGE = 4096
ROOMS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64)


@pytest.fixture(params=["repository", "cache"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A file system of 64 MiB: where the repository will be, or where goalseek's trees are."""
    place = tmp_path / "disk" if request.param == "repository" else Path(os.environ["XDG_CACHE_HOME"])
    place.mkdir(exist_ok=True)
    options = f"size=64m,mode=0755,uid={os.geteuid()},gid={os.getegid()}"
    subprocess.run([*AS_ROOT, "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True, timeout=120)
    try:
        yield request.param, place
    finally:
        subprocess.run([*AS_ROOT, "umount", "--lazy", str(place)], check=True, timeout=120)


@pytest.fixture
def calm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The same climb, undisturbed."""
    for variable in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
        monkeypatch.setenv(variable, "2026-01-01T00:00:00Z")
    project = climbing(tmp_path / "undisturbed", ITERATIONS)
    project.climb("iterate", "--forever")
    return project


def fill(disk: Path, pages: int) -> Path:
    """Takes all of the disk but so many pages."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(PAGE))
        except OSError:
            file.truncate(max(file.tell() // PAGE - pages, 0) * PAGE)
    return filler


@pytest.fixture
def iterate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Runs ``iterate`` in this process; gives its exit code and what it said.

    It starts on a disk that is nearly full, which it would else refuse: what is wanted is a disk that fills up later.
    """
    monkeypatch.setattr("goalseek.disk.LEAST_FREE", 0)

    def call(project: Project, *arguments: str) -> tuple[int, str]:
        code = run(["-C", str(project.folder), "iterate", *arguments])
        return code, capsys.readouterr().err

    return call


def test_whatever_room_is_left(
    disk: tuple[str, Path], calm: Project, tmp_path: Path, iterate: Callable[..., tuple[int, str]]
) -> None:
    which, place = disk
    top = (place if which == "repository" else tmp_path) / "project"
    project, stopped = climbing(top, ITERATIONS), []
    users = project.users()
    for pages in ROOMS:
        filler = fill(place, pages)
        before = len(project.iterations())
        code, said = iterate(project, "-n", "2")
        filler.unlink()
        assert (code, "the disk is full" in said) in ((0, False), (3, True)), (pages, said)
        assert len(project.iterations()) - before <= 3
        if code:
            stopped.append(pages)
            project.git("fsck", "--strict", "--no-dangling")
        if pages % 4 == 0:
            assert iterate(project, "-n", "1")[0] == 0
    assert stopped[0] == 0 and len(stopped) >= 3
    assert iterate(project, "--forever")[0] == 0
    assert told(project) == told(calm) and branch(project) == branch(calm)
    assert project.users() == users
    assert_sound(project)


@pytest.mark.parametrize("phase", ["apply", "verify"])
def test_filled_by_somebody_in_the_middle_of_a_phase(
    disk: tuple[str, Path], calm: Project, tmp_path: Path, iterate: Callable[..., tuple[int, str]], phase: str
) -> None:
    which, place = disk
    project = climbing((place if which == "repository" else tmp_path) / "project", ITERATIONS)
    assert iterate(project, "-n", "1")[0] == 0
    script = Path(os.environ["HOME"], f"during-{phase}")
    stops = 0
    for _ in range(4):
        before = project.records()
        script.write_text(f"cat /dev/zero > '{place}/filler' 2> '{tmp_path}/said'\n")
        code, said = iterate(project, "-n", "2")
        script.unlink()
        was_filled = (place / "filler").exists()  # not every move comes as far as a measurement
        (place / "filler").unlink(missing_ok=True)
        assert (code, "the disk is full" in said) == ((3, True) if was_filled else (0, False)), said
        assert project.records()[: len(before)] == before
        if was_filled and which == "cache":
            state = json.loads((project.folder / ".goalseek" / "demo" / "logs" / "state.json").read_text())
            assert (state["status"], state["stop_reason"]) == ("blocked", "disk")
        stops += was_filled
        assert iterate(project, "-n", "1")[0] == 0
        project.git("fsck", "--strict", "--no-dangling")
    assert stops >= 2
    assert iterate(project, "--forever")[0] == 0
    assert told(project) == told(calm) and branch(project) == branch(calm)
    assert_sound(project)
