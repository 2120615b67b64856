"""What only looks is quick: ``status``, ``log`` and ``show`` import little, and start few programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import Project, Projects, answer

SLOW = set("pydantic jinja2 rich jmespath optuna socket statistics ctypes csv secrets tomllib".split())
OF_THE_LOOP = {
    f"goalseek.{name}"
    for name in "project.activity project.project loop.loop git.repository git.objects workspace.checkout sandbox.policy manifest.validation phase_values statistics.acceptance".split()
}


@pytest.fixture
def climbed(played: Projects) -> Project:
    project = played(answer(2), answer(1.5), more=(answer(3),))
    project.check("status")  # its manifest is checked now
    return project


def test_a_look_imports_little_and_starts_few_programs(climbed: Project, tmp_path: Path) -> None:
    started, folder = tmp_path / "started", tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\necho "$@" >> {started}\nexec {shutil.which("git")} "$@"\n')
    (folder / "git").chmod(0o755)
    for command, programs in {"status": 3, "log --outcome kept --since 1": 0, "show best": 1}.items():
        loaded = modules_loaded(climbed, *command.split(), path=f"{folder}{os.pathsep}{os.environ['PATH']}")
        assert not {name for name in loaded if name in SLOW | OF_THE_LOOP}, command
        assert len(started.read_text().splitlines() if started.exists() else []) == programs, command
        started.unlink(missing_ok=True)


@pytest.mark.slow
def test_pydantic_checks_a_changed_manifest_and_is_not_loaded_for_another(climbed: Project) -> None:
    for command in ("status", "iterate -n 1", "doctor"):
        assert not {"pydantic", "distributed"} & modules_loaded(climbed, *command.split())  # there is no cluster
    climbed.manifest.write_text(f"{climbed.manifest.read_text()}\n# as it is\n")
    assert "pydantic" in modules_loaded(climbed, "status")
    assert "pydantic" not in modules_loaded(climbed, "status")


def modules_loaded(project: Project, *arguments: str, path: str = os.environ["PATH"]) -> set[str]:
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
