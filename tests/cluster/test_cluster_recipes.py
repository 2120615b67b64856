"""The recipes of the page ``cluster``, run as printed as far as one machine can: ssh, a cluster, containers, SLURM."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import (
    LOOPBACK,
    PAGE,
    Sshd,
    cluster_rows,
    environment,
    free_port,
    is_open,
    left_on_workers,
    make_certificates,
)
from pages import block_with, blocks_in
from project import Project, answer, home, until
from recipes import put_on_path

pytestmark = [pytest.mark.slow, pytest.mark.needs("openssl")]
VENV = f"""\
{sys.executable} -m venv --without-pip "$3"
echo {sysconfig.get_path("purelib")} > "$3/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/all.pth"
printf '#!/bin/sh\\necho "$@" > ~/installed\\n' > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""
"""A ``python3 -m venv`` whose environment has everything that is installed here, and whose pip takes notes."""
DOCKER = """\
while [ "$1" != IMAGE ]; do shift; done
shift
for word; do
    set -- "$@" "$(printf %s "$word" | sed "s|^/dask/|$HOME/dask/|")"
    shift
done
exec "$@"
"""
"""Runs the command of a container as a plain process."""
SBATCH = """\
case "$1" in -*) shift;; esac
sh -c "$(cat "$1")" >> ~/slurm.log 2>&1 &  # a job has a copy of its script, which goes as soon as this has answered
echo "Submitted batch job $!"
"""


class Place:
    """What the page runs, on a scheduler's port of this machine's; all ends with it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.log = home("dask.log")
        self.processes: list[subprocess.Popen[bytes]] = []

    def text(self, text: str) -> str:
        return text.replace("//SCHEDULER", f"//{LOOPBACK}").replace("8786", str(self.port))

    def start(self, words: str) -> None:
        """The one block of shell that has these words."""
        self.run("sh", "-c", self.text(block_with(PAGE.read_text(), "sh", words)))

    def run(self, *command: str) -> None:
        with self.log.open("ab") as log:
            started = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(), start_new_session=True
            )
        self.processes.append(started)

    def start_scheduler(self) -> None:
        self.start("dask scheduler")
        until(lambda: is_open(self.port))

    def parallel(self, **more: str) -> dict[str, Any]:
        """The page's table for a cluster that is there."""
        table: dict[str, Any] = tomllib.loads(self.text(block_with(PAGE.read_text(), "toml", "[parallel.tls]")))
        return {**table["parallel"], **more}


@pytest.fixture
def place(isolated: Path) -> Iterator[Place]:
    made = Place()
    yield made
    for process in reversed(made.processes):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def climb(project: Project, parallel: dict[str, Any], workers: int = 1) -> list[str]:
    """Climbs one step; gives the lines of the workers, of which so many were there."""
    project.set_moves(answer(2), answer(3))
    project.set_manifest({"parallel": parallel})
    project.commit()
    good, *notes = cluster_rows(project)
    lines: list[str] = good["text"].split("; ")
    assert len(lines) == workers and all(line.endswith(": idle") for line in lines), good
    assert any("whoever runs the cluster can read them" in row["text"] for row in notes)
    assert [row["outcome"] for row in project.climb()] == ["baseline", "kept"]
    assert all(run["host"] for row in project.iterations() for run in row["runs"])
    assert left_on_workers() == []
    return lines


@pytest.mark.needs("sshd")
def test_ssh_with_the_environment_that_the_page_makes_there(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = re.findall(r"^\$ (ssh gpu1 .+)$", PAGE.read_text(), re.MULTILINE)
    (table,) = (tomllib.loads(body) for body in blocks_in(PAGE.read_text(), "toml") if "ssh:" in body)
    put_on_path("python3", VENV)
    sshd = Sshd("gpu1", "gpu2")
    monkeypatch.setenv("PATH", environment()["PATH"])
    try:
        for host in ("gpu1", "gpu2"):
            subprocess.run(["sh", "-c", line.replace("gpu1", host)], check=True, capture_output=True, timeout=60)
        assert home("installed").read_text() == "install goalseek[cluster]\n"
        put_on_path("python3", f'exec {sys.executable} "$@"')
        assert climb(project, {**table["parallel"], "agents": 1}, workers=2) == ["gpu1: idle", "gpu2: idle"]
    finally:
        sshd.close()


def test_a_cluster_of_your_own(project: Project, place: Place) -> None:
    make_certificates()
    place.start_scheduler()
    place.start("dask worker tls://SCHEDULER:8786 $tls")
    until(lambda: place.log.read_text().count("Registered to"))
    (name,) = climb(project, place.parallel())
    assert name == f"{subprocess.check_output(['hostname'], text=True, timeout=10).strip()}: idle"
    assert all(path.stat().st_mode & 0o077 == 0 for path in home("dask").glob("*.pem"))


def test_a_container(project: Project, place: Place) -> None:
    make_certificates()
    put_on_path("docker", DOCKER)
    place.start_scheduler()
    place.start("docker run")
    until(lambda: place.log.read_text().count("Registered to"))
    climb(project, place.parallel())


def test_slurm_with_srun(project: Project, place: Place) -> None:
    make_certificates()
    put_on_path("srun", 'for n in 1 2; do "$@" & done; wait')
    place.start_scheduler()
    until(home("dask", "scheduler.json").exists)
    place.start("srun dask worker")
    until(lambda: place.log.read_text().count("Registered to") == 2)
    climb(project, place.parallel(cluster="file:~/dask/scheduler.json"), workers=2)


@pytest.mark.needs("dask_jobqueue")
def test_slurm_with_dask_jobqueue(project: Project, place: Place) -> None:
    make_certificates()
    put_on_path("sbatch", SBATCH)
    put_on_path("scancel", 'kill "$@"')
    program = block_with(PAGE.read_text(), "python", "SLURMCluster")
    place.run(sys.executable, "-c", place.text(program).replace("jobs=8", "jobs=2"))
    until(lambda: "slurm.log" in {path.name for path in home().iterdir()})
    until(lambda: home("slurm.log").read_text().count("Registered to") == 2)
    (address,) = {*re.findall(r"Registered to: +(\S+)", home("slurm.log").read_text())}
    climb(project, place.parallel(cluster=address), workers=2)
