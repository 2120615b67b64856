"""What only looks is quick: ``status``, ``log`` and ``show`` import little, and start few programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import Project, answer

SLOW = {"pydantic", "jinja2", "rich", "jmespath", "optuna", "socket", "statistics", "ctypes", "csv", "secrets"}
OF_THE_LOOP = {
    f"goalseek.{name}"
    for name in "project.project loop.loop git.repository git.objects workspace.checkout sandbox.policy manifest.validation phase_values statistics.sequential_test".split()
}


@pytest.mark.parametrize(
    ("command", "programs"),
    [("status", 3), ("log", 0), ("log --last 2", 0), ("log --kept --since 1", 0), ("show", 1), ("show best", 1)],
)
def test_a_look_imports_little_and_starts_few_programs(
    project: Project, tmp_path: Path, command: str, programs: int
) -> None:
    project.set_moves(answer(2), answer(1.5))
    project.climb("iterate", "-n", "2")
    started, folder = tmp_path / "started", tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\necho "$@" >> {started}\nexec {shutil.which("git")} "$@"\n')
    (folder / "git").chmod(0o755)
    loaded = modules_loaded(project, *command.split(), path=f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert not {name for name in loaded if name in SLOW | OF_THE_LOOP}
    assert len(started.read_text().splitlines() if started.exists() else []) == programs


def test_pydantic_checks_a_changed_manifest_and_is_not_loaded_for_another(project: Project) -> None:
    project.set_moves(answer(2), answer(1.5))
    project.climb("iterate", "-n", "1")
    for command in ("status", "iterate -n 1", "doctor"):
        assert "pydantic" not in modules_loaded(project, *command.split())
    manifest = project.folder / "goalseek.toml"
    manifest.write_text(f"{manifest.read_text()}\n# as it is\n")
    assert "pydantic" in modules_loaded(project, "status")
    assert "pydantic" not in modules_loaded(project, "status")


def modules_loaded(project: Project, *arguments: str, path: str = os.environ["PATH"]) -> set[str]:
    """What a command has imported by its end."""
    code = f"import sys\nfrom goalseek.cli.main import run\nrun({[*arguments]!r})\nprint(*sys.modules, file=sys.stderr)"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project.folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert ended.stdout
    return set(ended.stderr.split())
