"""The only starter of other programs, git included."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from goalseek.capture import HeadAndTail, Sink
from goalseek.descendants import TOKEN, Family, end, ticks_since_boot
from goalseek.interrupts import held_back

GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Answer:
    """How a short program ended, with all that it printed."""

    exit_code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class Finished:
    """How a supervised program ended. ``stdout`` and ``stderr`` are head and tail where there was too much."""

    exit_code: int | None
    seconds: float
    timed_out: bool
    killed: int
    stdout: bytes
    stderr: bytes


def ask(
    arguments: Sequence[str | os.PathLike[str]],
    environment: Mapping[str, str],
    stdin: bytes = b"",
    folder: Path | None = None,
) -> Answer:
    """Runs a short, trusted program to its end. Raises FileNotFoundError where there is no such program."""
    done = subprocess.run(
        list(arguments), input=stdin, capture_output=True, env=dict(environment), cwd=folder, check=False
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def attach(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
    """Runs a program on this terminal, and gives its exit code as a shell would: 128 and the number for a signal."""
    code = subprocess.run(list(arguments), env=dict(environment), cwd=folder, check=False).returncode
    return code if code >= 0 else 128 - code


def converse(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """Starts a trusted program that answers line by line until its input is closed."""
    return _start(arguments, folder, environment)


def supervise(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Sink,
    timeout: float | None = None,
    stdin: bytes = b"",
    on_output: Callable[[bytes], None] | None = None,
    owner: str = "",
) -> Finished:
    """Runs an untrusted program in its own session; at its end, or its limit, nothing of it is left running.

    ``owner`` marks it for ``end_left_over``, should this process be killed before it can end the program itself.
    ``timeout`` is in seconds of wall time. At the limit every descendant gets SIGTERM and, five seconds later,
    SIGKILL. ``exit_code`` is None where the limit ended it, and negative for a signal, as in subprocess. Raises
    OSError where the program cannot be started.
    """
    family = Family(f"{owner}.{uuid.uuid4().hex}", ticks_since_boot())
    kept = {"stdout": HeadAndTail(), "stderr": HeadAndTail()}
    timed_out = False
    try:
        with held_back():
            began = time.monotonic()
            child = _start(arguments, folder, {**environment, TOKEN: family.token})
            family = replace(family, session=child.pid)
        with _Streams(child, stdin, kept, log, on_output) as streams:
            while child.poll() is None:
                left = None if timeout is None else timeout - (time.monotonic() - began)
                if left is not None and left <= 0:
                    timed_out = True
                    break
                streams.wait(0.05 if left is None else min(left, 0.05))
            seconds = time.monotonic() - began
            killed = end(family, GRACE_SECONDS)
            child.wait()
            streams.drain()
    except BaseException:
        with held_back():
            if family.session is not None:
                end(family, GRACE_SECONDS)
                child.wait()
        raise
    exit_code = None if timed_out else child.returncode
    return Finished(exit_code, seconds, timed_out, killed, kept["stdout"].content(), kept["stderr"].content())


def _start(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A program in a session of its own, with three pipes."""
    return subprocess.Popen(
        list(arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
    )


def end_left_over(owner: str) -> int:
    """Ends programs that outlived the process which started them for this owner; gives how many there were."""
    return end(Family(f"{owner}."), GRACE_SECONDS)


class _Streams:
    """The three pipes of a child, none of which may block the other two."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        stdin: bytes,
        kept: Mapping[str, HeadAndTail],
        log: Sink,
        on_output: Callable[[bytes], None] | None,
    ) -> None:
        self.child = child
        self.unsent = memoryview(stdin)
        self.kept = kept
        self.log = log
        self.on_output = on_output
        self.selector = selectors.DefaultSelector()

    def __enter__(self) -> _Streams:
        for name in ("stdin", "stdout", "stderr"):
            pipe: IO[bytes] = getattr(self.child, name)
            os.set_blocking(pipe.fileno(), False)
            self.selector.register(pipe, selectors.EVENT_WRITE if name == "stdin" else selectors.EVENT_READ, name)
        exit_watch = _exit_descriptor(self.child.pid)
        if exit_watch is not None:
            self.selector.register(exit_watch, selectors.EVENT_READ, "exit")
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self.selector.get_map().values()):
            self._close(key)
        self.selector.close()

    def wait(self, seconds: float) -> int:
        """Moves what can be moved; gives the number of pipes that had something."""
        ready = self.selector.select(seconds if seconds > 0 else 0)
        for key, _ in ready:
            if key.data == "stdin":
                self._send(key)
            elif key.data == "exit":
                self._close(key)
            else:
                self._receive(key)
        return len(ready)

    def drain(self) -> None:
        """Takes what is left in the pipes once nobody writes any more."""
        while any(key.data != "stdin" for key in self.selector.get_map().values()) and self.wait(0):
            pass

    def _send(self, key: selectors.SelectorKey) -> None:
        try:
            self.unsent = self.unsent[os.write(key.fd, self.unsent[:65536]) :] if self.unsent else self.unsent
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.unsent = self.unsent[:0]
        if not self.unsent:
            self._close(key)

    def _receive(self, key: selectors.SelectorKey) -> None:
        chunk = os.read(key.fd, 65536)
        if not chunk:
            self._close(key)
            return
        self.kept[key.data].write(chunk)
        self.log.write(chunk)
        if self.on_output:
            self.on_output(chunk)

    def _close(self, key: selectors.SelectorKey) -> None:
        self.selector.unregister(key.fileobj)
        if isinstance(key.fileobj, int):
            os.close(key.fileobj)
            return
        with contextlib.suppress(BrokenPipeError):
            key.fileobj.close()  # type: ignore[attr-defined]


def _exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has such."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
