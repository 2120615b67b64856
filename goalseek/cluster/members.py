"""The scheduler and the workers that a driver starts: here for ``local:``, by the user's ssh for ``ssh:``."""

import contextlib
import json
import os
import random
import shlex
import socket
import sys
import time
from collections.abc import Sequence

from distributed.security import Security

from goalseek import process
from goalseek._version import __version__
from goalseek.cluster.member import LOOPBACK
from goalseek.errors import GoalseekError
from goalseek.manifest.tables import Parallel

_RESTART_SECONDS = 2.0
_SSH_FAILED = 255  # not the exit code of the program there
_PORTS = (10_000, 32_768)
_END_SECONDS = 15.0  # a worker ends its programs first
# Each reaches the other by a port forwarded on its own loopback: no port is open to a network.
_SSH = "ssh -T -o BatchMode=yes -o ExitOnForwardFailure=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3".split()


class Member:
    """A process that is started again once it has ended; it ends with the pipe to it."""

    def __init__(self, name: str, host: str = "", python: str = "") -> None:
        self.name = name
        self.port = _free_port()
        self.ends = 0  # by itself
        self.failure: GoalseekError | None = None  # of its last end
        self._host = host
        self._python = python
        self._process: process.Helper | None = None
        self._began = 0.0

    def keep(self, certificates: dict[str, str], scheduler: "Member") -> None:
        """Starts it if it does not run, at most every two seconds."""
        if self._process and self._process.poll() is None:
            return
        if self._process:
            self.close()
            self.ends += 1
        if time.monotonic() - self._began < _RESTART_SECONDS:
            return
        self._began = time.monotonic()
        command = [self._python or sys.executable, "-m", "goalseek.cluster.member"]
        asked: dict[str, object] = {"name": self.name, **certificates}
        if self is not scheduler:
            asked["scheduler"] = f"tls://{LOOPBACK}:{scheduler.port}"
            self.port = _free_port()  # not that of one that was lost
        if self._host:
            forwards = list[str]()
            for option, name, to in (("-R", "scheduler", scheduler.port), ("-L", "contact", self.port)):
                forwarded = _free_port()  # of its own: the host may be this machine
                forwards += [option, f"{LOOPBACK}:{forwarded}:{LOOPBACK}:{to}"]
                asked[name] = f"tls://{LOOPBACK}:{forwarded}"
            home = "~/" if self._python.startswith("~/") else ""  # the other host's
            python = home + shlex.quote(self._python.removeprefix(home))
            command = [*_SSH, *forwards, "--", self._host, f"exec {python} -m goalseek.cluster.member"]
        asked["port"] = self.port
        self._process = process.start_batch(command, os.environ)
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """It ends by itself then; ``close`` waits for that."""
        if self._process and self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def close(self) -> None:
        self.end()
        if not self._process:
            return
        with self._process as ended:
            assert ended.stderr
            code = process.end(ended, _END_SECONDS)
            printed = ended.stderr.read().decode("utf-8", "replace").strip().splitlines()
        self._process = None
        if code > 0:  # not by a signal: another program may have taken the port
            self.port = _free_port()
        remedy = ""
        if self._host and code == _SSH_FAILED:
            remedy = f"ssh {self._host} true must succeed without a question, and sshd there allow TCP forwarding"
        elif self._host:
            make = f"python3 -m venv ~/goalseek && ~/goalseek/bin/pip install 'goalseek[cluster]=={__version__}'"
            remedy = f'ssh {self._host} "{make}"; and parallel.python = "~/goalseek/bin/python"'
        self.failure = GoalseekError(f"{self.name}: {printed[-1] if printed else f'it ended with {code}'}", remedy)


class Members:
    """All processes of a ``local:`` or ``ssh:`` cluster, with certificates that are thrown away with them."""

    def __init__(self, parallel: Parallel) -> None:
        kind, _, what = parallel.cluster.partition(":")
        hosts: Sequence[str] = [""] * int(what) if kind == "local" else what.split(",")
        names = [
            f"{host or 'local'}{f'-{number}' if hosts.count(host) > 1 else ''}" for number, host in enumerate(hosts)
        ]
        python = "" if kind == "local" else parallel.python
        self.workers = [Member(name, host, python) for name, host in zip(names, hosts, strict=True)]
        self._all = (Member("scheduler"), *self.workers)
        self.security = Security.temporary()

    @property
    def address(self) -> str:
        return f"tls://{LOOPBACK}:{self._all[0].port}"

    @property
    def failure(self) -> GoalseekError | None:
        """Of one that did not start twice, as a port may be taken."""
        return next((one.failure for one in self._all if one.ends > 1), None)

    def keep(self) -> None:
        own = self.security
        certificates = {"ca": own.tls_ca_file, "cert": own.tls_worker_cert, "key": own.tls_worker_key}
        for member in self._all:
            member.keep(certificates, self._all[0])

    def close(self) -> None:
        for member in self._all[::-1]:
            member.end()
        for member in self._all[::-1]:
            member.close()


def _free_port() -> int:
    """Below those that a system gives to connections, which would take it before a program here serves it."""
    while True:
        with contextlib.suppress(OSError), socket.create_server((LOOPBACK, random.randrange(*_PORTS))) as server:
            port: int = server.getsockname()[1]
            return port
