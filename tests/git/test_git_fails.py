"""git itself fails, or is killed, at each of its calls in turn; after that the same command ends as if nothing had been.

The failing git is a program of that name, first on PATH: goalseek knows nothing of it.
"""

import itertools
import os
import shutil
from pathlib import Path

import pytest
from killing import assert_same, assert_sound, branch, climbing, told

from goalseek.cli.main import run

ITERATIONS = 3
BLOCKS = 2
WAYS = {"fails": "echo 'fatal: made to fail' >&2; exit 128", "is killed": "kill -9 $$"}


class Git:
    """The program in front of git: counts the calls, and ends in its own way at call ``at``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.real = shutil.which("git")
        folder.mkdir()

    def install(self, way: str = "", at: int = 0) -> None:
        """From now on ``at`` calls are counted; 0 lets all of them through."""
        (self.folder / "count").write_text("")
        program = self.folder / "git"
        lines = (
            "#!/bin/sh",
            f"echo >> '{self.folder}/count'; n=$(wc -l < '{self.folder}/count')",  # two at a time lose no call
            f"if [ $n = {at} ]; then {WAYS.get(way, ':')}; fi",
            f"exec '{self.real}' \"$@\"",
        )
        program.write_text("\n".join(lines) + "\n")
        program.chmod(0o755)

    def calls(self) -> int:
        return len((self.folder / "count").read_text())


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    made = Git(tmp_path / "in front")
    for variable in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
        monkeypatch.setenv(variable, "2026-01-01T00:00:00Z")
    monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}{os.environ['PATH']}")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_at_any_call(tmp_path: Path, git: Git, capsys: pytest.CaptureFixture[str], block: int) -> None:
    climb = ["iterate", "--forever"]
    for name in ("first", "undisturbed"):  # the first one leaves in this process what need not be asked again
        git.install()
        calm = climbing(tmp_path / name, ITERATIONS)
        git.install()
        assert run(["-C", str(calm.folder), *climb]) == 0
    calls, failed = git.calls(), 0
    wanted, trees = told(calm), branch(calm)
    assert calls > 20
    chosen = range(1 + block, calls + 1, BLOCKS)
    for place, way in zip(chosen, itertools.cycle(WAYS), strict=False):
        git.install()
        project = climbing(tmp_path / f"at-{place}", ITERATIONS)
        users = project.users()
        git.install(way, place)
        code = run(["-C", str(project.folder), *climb])
        assert git.calls() >= place, "git was called less often than before"
        failed += code != 0
        git.install()
        assert run(["-C", str(project.folder), *climb]) == 0, (place, capsys.readouterr().err)
        assert told(project) == wanted, place
        assert branch(project) == trees, place
        assert project.users() == users, place
        shutil.rmtree(project.top)
    assert failed >= len(chosen) / 3, "a git that fails was not noticed"


@pytest.mark.slow
def test_again_and_again_within_one_climb(tmp_path: Path, git: Git) -> None:
    calm = climbing(tmp_path / "undisturbed", ITERATIONS)
    calm.climb("iterate", "--forever")
    project, codes = climbing(tmp_path / "failing", ITERATIONS), []
    for place, way in zip(range(5, 40, 5), itertools.cycle(WAYS), strict=False):
        git.install(way, place)
        codes.append(project.run("iterate", "--forever").exit_code)
    git.install()
    project.climb("iterate", "--forever")
    assert sum(map(bool, codes)) >= 3, codes
    assert_same(project, calm)
    assert_sound(project)
