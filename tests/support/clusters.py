"""Clusters of a test: an sshd of its own on loopback, Dask's own programs with TLS, and what workers leave behind."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pages import GUIDE, block_with
from project import Project, home, until
from recipes import put_on_path

import goalseek

LOOPBACK = "127.0.0.1"
PAGE = GUIDE / "cluster.md"
SSHD = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile {folder}/sshd.pid
SetEnv {variables}
"""
SSH_CONFIG = """\
Host {hosts}
    HostName 127.0.0.1
    Port {port}
    IdentityFile {folder}/user
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known
"""


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def environment(**more: str) -> dict[str, str]:
    """This one, with this goalseek, the programs beside this Python, and those of ``put_on_path`` before all."""
    folders = (home(".local", "bin"), Path(sys.executable).parent, os.environ["PATH"])
    sources = (str(Path(goalseek.__file__).parents[1]), os.environ.get("PYTHONPATH", ""))
    paths = {"PATH": os.pathsep.join(map(str, folders)), "PYTHONPATH": os.pathsep.join(filter(None, sources))}
    return {**os.environ, **paths, **more}


class Sshd:
    """An sshd on loopback, with keys, settings and a port of its own, which ``ssh HOST`` of this home's PATH reaches.

    Who logs in has this test's home, and so is known by it.
    """

    def __init__(self, *hosts: str, **variables: str) -> None:
        self.folder = home("sshd")
        self.folder.mkdir()
        self.port = free_port()
        for name in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(command, check=True, timeout=60)
        kind, key, *_ = (self.folder / "host.pub").read_text().split()
        (self.folder / "known").write_text(f"[{LOOPBACK}]:{self.port} {kind} {key}\n")
        names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PATH", "PYTHONPATH")
        given = {name: environment()[name] for name in names} | variables
        values = " ".join(f'"{name}={value}"' for name, value in given.items())
        places = {"folder": self.folder, "port": self.port}
        (self.folder / "sshd_config").write_text(SSHD.format(variables=values, **places))
        (self.folder / "config").write_text(SSH_CONFIG.format(hosts=" ".join(hosts), **places))
        # OpenSSH reads the settings of the account's home, whatever HOME is.
        put_on_path("ssh", f'exec /usr/bin/ssh -F {shlex.quote(str(self.folder / "config"))} "$@"')
        self.start()

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        command = ["/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / "sshd_config")]
        self._log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(command, stderr=self._log, start_new_session=True)
        until(lambda: self.process.poll() is not None or is_open(self.port))
        assert self.process.poll() is None, (self.folder / "log").read_text()

    def close(self) -> None:
        """No new login; those that are there stay."""
        self.process.terminate()
        self.process.wait(60)
        self._log.close()


class Joined:
    """A scheduler and workers started as the page says, with its certificates, in ``~/dask``; close it."""

    def __init__(self) -> None:
        self.folder = make_certificates()
        self.port = free_port()
        self.log = self.folder / "log"
        self.processes = dict[str, subprocess.Popen[bytes]]()
        self.start_scheduler()

    @property
    def address(self) -> str:
        return f"tls://{LOOPBACK}:{self.port}"

    @property
    def options(self) -> list[str]:
        return [word for name, path in self._files("ca-file").items() for word in (f"--tls-{name}", str(path))]

    def _files(self, ca: str) -> dict[str, Path]:
        return {ca: self.folder / "cert.pem", "cert": self.folder / "cert.pem", "key": self.folder / "key.pem"}

    @property
    def parallel(self) -> dict[str, Any]:
        """The manifest's table."""
        return {"cluster": self.address, "tls": {name: str(path) for name, path in self._files("ca").items()}}

    def start_scheduler(self) -> None:
        options = ["--protocol", "tls", "--host", LOOPBACK, "--port", str(self.port), "--no-dashboard"]
        self.start("scheduler", "scheduler", *options, "--scheduler-file", str(self.folder / "scheduler.json"))
        until(lambda: is_open(self.port) or self.processes["scheduler"].poll() is not None)
        assert self.processes["scheduler"].poll() is None, self.log.read_text()

    def start_worker(self, name: str, before: Sequence[str] = (), **variables: str) -> subprocess.Popen[bytes]:
        """``before`` is a program that starts it; ``variables`` are of its environment."""
        options = [self.address, "--name", name, "--nthreads", "1", "--host", LOOPBACK, "--no-dashboard", "--no-nanny"]
        return self.start(name, "worker", *options, before=before, **variables)

    def start(
        self, name: str, role: str, *options: str, before: Sequence[str] = (), **variables: str
    ) -> subprocess.Popen[bytes]:
        command = [*before, sys.executable, "-m", "dask", role, *self.options, *options]
        with self.log.open("ab") as log:
            started = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=environment(**variables)
            )
        self.processes[name] = started
        return started

    def close(self) -> None:
        scheduler = self.processes.pop("scheduler")
        end_processes(self.processes.values())  # a worker without a scheduler takes half a minute to end
        end_processes([scheduler])


def make_certificates() -> Path:
    """By the page's own lines, in ``~/dask``."""
    lines = block_with(PAGE.read_text(), "sh", "openssl req")
    subprocess.run(["sh", "-e", "-c", lines], cwd=home(), check=True, capture_output=True, timeout=60)
    return home("dask")


def end_processes(processes: Any, seconds: float = 30.0) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(seconds)


def is_open(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 5).close()
    except OSError:
        return False
    return True


def left_on_workers(seconds: float = 30.0) -> list[str]:
    """What is left of drivers in the folders of this home's workers, once they had so long to remove it."""
    deadline = time.monotonic() + seconds
    while (left := [str(path) for path in workers_folder().rglob("*")]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def workers_folder() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"], "goalseek", "cluster")


def cluster_rows(project: Project) -> list[dict[str, Any]]:
    """What doctor says of the cluster."""
    rows = map(json.loads, project.run("--json", "doctor", "--quick").stdout.splitlines())
    return [row for row in rows if row["name"] == "cluster"]
