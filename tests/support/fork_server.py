"""Command lines in processes of their own without a start each: a server that has everything loaded forks for each.

What is forked is a real process with its own descriptors, folder and environment; only the interpreter's start, the
imports and what is put together once a process are saved, which are most of what a short command takes, and the wait
for the disk: a process can be killed at any time, but no test cuts the power. A provider that failed is asked again at
once.
"""

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import effects

from goalseek.sandbox.reaper import receive, send

LOADED = ("pydantic", "rich.text", "rich.table", "jmespath", "tomli_w")


class ForkServer:
    """One server; it runs one command line at a time."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), str(theirs.fileno())],
                env={"PATH": os.environ["PATH"], "HOME": "/", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                cwd="/",
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        descriptors: tuple[int, int],
        watch: Sequence[Any] = (),
    ) -> int:
        """Starts goalseek with stdout and stderr; gives the number of its process. ``watch`` is for ``effects``."""
        message = {"arguments": list(arguments), "folder": os.fsdecode(folder), "environment": dict(environment)}
        message["watch"] = list(watch)
        send(self.channel, message, descriptors)
        return int(self._heard()["started"])

    def wait(self, seconds: float) -> int:
        """The exit code of what was started last. Raises TimeoutError after so many seconds."""
        self.channel.settimeout(seconds)
        try:
            return int(self._heard()["ended"])
        finally:
            self.channel.settimeout(None)

    def close(self) -> None:
        self.channel.close()
        self.process.wait(timeout=120)

    def _heard(self) -> dict[str, Any]:
        received = receive(self.channel)
        if received is None:
            raise TimeoutError("the server gave no answer")
        return received[0]


_servers: list[ForkServer] = []


def server() -> ForkServer:
    """The server of this test process, started when it is needed first."""
    if not _servers:
        _servers.append(ForkServer())
    return _servers[0]


def close() -> None:
    while _servers:
        _servers.pop().close()


def _serve(channel: socket.socket) -> None:
    while (received := receive(channel)) is not None:
        message, descriptors = received
        pid = os.fork()
        if pid == 0:
            channel.close()
            _become(message, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        send(channel, {"started": pid})
        _, status = os.waitpid(pid, 0)
        send(channel, {"ended": os.waitstatus_to_exitcode(status)})


def _become(message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """In the new process: the command line, as ``python -m goalseek`` would run it."""
    code = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(message["environment"])
        time.tzset()
        os.chdir(message["folder"])
        for target, source in zip((1, 2), descriptors, strict=True):
            os.dup2(source, target)
            os.close(source)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.argv = ["goalseek", *message["arguments"]]
        from goalseek.cli.main import run

        if message["watch"]:
            log, *place = message["watch"]
            effects.watch(Path(log), *place)
        code = run(list(message["arguments"]))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _put_together() -> None:
    """What checks a manifest, and what reads records."""
    from nights import night

    from goalseek.manifest.validation import type_adapter
    from goalseek.records import parse_record

    type_adapter()
    *_, row = night(3)
    parse_record(json.dumps(row))


if __name__ == "__main__":
    import goalseek
    from goalseek.providers import fallback

    for module in pkgutil.walk_packages(goalseek.__path__, "goalseek."):
        if module.name not in ("goalseek.__main__",):
            importlib.import_module(module.name)
    for name in LOADED:
        importlib.import_module(name)
    _put_together()
    os.fsync = lambda fd: None
    fallback.RETRY_SECONDS = (0.01, 0.01, 0.01)
    gc.freeze()  # a fork whose collector touches nothing of this copies no page
    _serve(socket.socket(fileno=int(sys.argv[1])))
