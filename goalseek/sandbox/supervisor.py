"""Supervision of untrusted programs: limits of time and output, and no process left after the end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from goalseek import process
from goalseek.disk import closing
from goalseek.locks import open_lock, try_lock
from goalseek.sandbox import reaper
from goalseek.sandbox.view import Launch

GRACE_SECONDS = reaper.GRACE_SECONDS
PROGRAMS_LOCK = "programs.lock"
CANNOT_START = 126
_KILLED_IN_CAGE = (128 + signal.SIGKILL, 128 + signal.SIGTERM)
LOST = -9  # exit code of a program whose end nobody saw, because the reaper itself was killed
KEPT_BYTES = 4 * 2**20
LEAST_BYTES = 4096

Waiting = Callable[[], contextlib.AbstractContextManager[object]]
"""What is entered while this thread waits for a program: other threads may work meanwhile."""


class RunningProgram(Struct):
    """The reaper's answers: ``began`` and ``ended`` in seconds of ``time.monotonic``, ``failure`` as errno and subject.

    ``ended`` stays None if nobody saw the end; ``killed`` is None until all descendants have ended.
    """

    channel: socket.socket
    token: str
    began: float | None = None
    failure: tuple[int, str] | None = None
    ended: float | None = None
    exit_code: int | None = None
    killed: int | None = None
    cpu_seconds: float = 0.0

    def receive(self) -> None:
        """Ignores messages about earlier programs. Raises ConnectionError if the reaper is gone."""
        received = reaper.receive(self.channel)
        if received is None:
            self.exit_code = LOST if self.exit_code is None else self.exit_code
            raise ConnectionError("the reaper is gone")
        message, _ = received
        if message.pop("token") == self.token:
            for name, value in message.items():
                setattr(self, name, value)


class Streams(contextlib.AbstractContextManager["Streams"]):
    """The pipes of a program, none of which blocks the others; ``theirs`` are the program's ends."""

    def __init__(
        self, stdin: bytes, kept: Mapping[str, HeadAndTail], on_output: Callable[[bytes], object], waiting: Waiting
    ) -> None:
        self._waiting = waiting
        self._unsent = memoryview(stdin)
        self._kept = kept
        self._on_output = on_output
        self._selector = selectors.DefaultSelector()
        (stdin_end, our_stdin), (our_stdout, stdout_end), (our_stderr, stderr_end) = (os.pipe() for _ in range(3))
        self.theirs = (stdin_end, stdout_end, stderr_end)
        for name, descriptor in {"stdin": our_stdin, "stdout": our_stdout, "stderr": our_stderr}.items():
            os.set_blocking(descriptor, False)
            event = selectors.EVENT_WRITE if name == "stdin" else selectors.EVENT_READ
            self._selector.register(descriptor, event, name)

    def __exit__(self, *_: object) -> None:
        for key in [*self._selector.get_map().values()]:
            if isinstance(key.fileobj, int):
                self._close(key)
        self._selector.close()

    def watch(self, program: RunningProgram) -> None:
        self._selector.register(program.channel, selectors.EVENT_READ, program)

    def wait(self, seconds: float) -> int:
        """Gives the number of streams that were ready."""
        with self._waiting():
            ready = self._selector.select(max(seconds, 0))
        for key, _ in ready:
            if isinstance(key.data, RunningProgram):
                with contextlib.suppress(ConnectionError):  # it has an exit code then
                    key.data.receive()
            elif key.data == "stdin":
                self._send(key)
            elif chunk := os.read(key.fd, 65536):
                self._kept[key.data].write(chunk)
                self._on_output(chunk)
            else:
                self._close(key)
        return len(ready)

    def drain(self, program: RunningProgram) -> None:
        """Reads the rest of the output, once nobody writes any more."""
        self._selector.unregister(program.channel)
        while self._selector.get_map() and self.wait(0):
            pass

    def _send(self, key: selectors.SelectorKey) -> None:
        try:
            self._unsent = self._unsent[os.write(key.fd, self._unsent[:65536]) :] if self._unsent else self._unsent
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._close(key)

    def _close(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fd)
        os.close(key.fd)


class HeadAndTail:
    """The first and last bytes of a stream, ``limit`` together, with the number of omitted ones between them."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._omitted = 0

    def write(self, chunk: bytes) -> None:
        room = self._half - len(self._head)
        self._head += chunk[: max(room, 0)]
        self._tail += chunk[max(room, 0) :]
        if len(self._tail) > 2 * self._half:
            self._omitted += len(self._tail) - self._half
            del self._tail[: -self._half]

    def content(self) -> bytes:
        gap = b"\n[... %d bytes left out ...]\n" % self._omitted if self._omitted else b""
        return bytes(self._head) + gap + bytes(self._tail)


def shorten(text: str) -> str:
    if len(text) <= KEPT_BYTES // 4:
        return text
    kept = HeadAndTail()
    kept.write(text.encode("utf-8", "replace"))
    return kept.content().decode("utf-8", "replace")


class LogFile(contextlib.AbstractContextManager["LogFile"]):
    """Appends to a log that can be read while it grows; the end of the block writes the tail of longer output.

    Each writer gets half of the bytes that remain of ``KEPT_BYTES``, but at least ``LEAST_BYTES``.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        share = max((KEPT_BYTES - self._file.tell()) // 2, LEAST_BYTES)
        self._room = share // 2
        self._rest = HeadAndTail(share // 3)  # which may keep half as much again

    def write(self, chunk: bytes) -> None:
        head, rest = chunk[: self._room], chunk[self._room :]
        self._room -= len(head)
        self._file.write(head)
        self._file.flush()
        self._rest.write(rest)

    def __exit__(self, *_: object) -> None:
        self._file.write(self._rest.content())
        self._file.close()


Sink = HeadAndTail | LogFile
"""Where output goes as it comes."""


class ProgramResult(Struct, frozen=True):
    """``seconds`` are wall time, ``cpu_seconds`` user and system time; ``killed`` counts descendants left running."""

    exit_code: int | None
    seconds: float
    timed_out: bool
    killed: int
    stdout: bytes
    stderr: bytes
    cpu_seconds: float = 0.0


def was_killed(result: ProgramResult) -> bool:
    return result.exit_code is not None and (result.exit_code < 0 or result.exit_code in _KILLED_IN_CAGE)


class Supervisor(contextlib.AbstractContextManager["Supervisor"]):
    """Runs programs, one at a time, under a reaper; ``pulse`` is called about twenty times a second meanwhile.

    ``owner`` marks them for ``kill_leftovers``; ``lock`` stays locked until the last one has ended, even after a kill.
    If ``on_terminal``, the reaper stays in this process's session, and programs carry no mark. ``home`` is a
    folder that goes with the last program, also after a kill of this process.
    """

    def __init__(
        self,
        owner: str,
        lock: Path | None = None,
        on_terminal: bool = False,
        waiting: Waiting = contextlib.nullcontext,
        home: Path | None = None,
    ) -> None:
        self.owner = owner
        self._home = home
        self.pulse: Callable[[], None] = lambda: None
        self._waiting = waiting
        self._on_terminal = on_terminal
        self._lock = open_lock(lock) if lock else None
        if self._lock is not None:
            with contextlib.suppress(OSError):  # a file system without locks: the project's lock says so
                try_lock(self._lock)
        self._channel: socket.socket | None = None
        self._reaper: process.Helper | None = None

    def start(self) -> socket.socket:
        """Start the reaper, unless it runs; before a program is there, this saves the wait for it."""
        if self._reaper and self._reaper.poll() is not None:
            self._drop_reaper()
        if self._channel is None:
            ours, theirs = socket.socketpair()
            with theirs:
                inherited = (theirs.fileno(), *([self._lock] if self._lock is not None else []))
                self._reaper = process.start_helper(reaper.__name__, inherited, self._on_terminal)
            self._channel = ours
            if self._home:
                reaper.send(ours, {"do": "remove", "folder": os.fsencode(self._home).decode("latin-1")})
        return self._channel

    def beside(self, waiting: Waiting) -> Supervisor:
        """Another one for the same owner, whose programs run at the same time."""
        other = Supervisor(self.owner, waiting=waiting)
        other._lock = None if self._lock is None else os.dup(self._lock)
        return other

    def close(self) -> None:
        """Ends the reaper, and with it all programs."""
        self._drop_reaper()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        launch: Launch,
        on_output: Callable[[bytes], object] = lambda chunk: None,
        timeout: float | None = None,
        stdin: bytes = b"",
        kept_bytes: int = KEPT_BYTES,
        must_end: Callable[[HeadAndTail], bool] = lambda stdout: False,
    ) -> ProgramResult:
        """Runs a program to its end or limit; then no descendant of it is left running.

        ``timeout`` is in seconds of a clock that stops while the machine sleeps, and limits the program's own time,
        even if this process was stopped and looks late. At the limit, or once ``must_end`` is true, descendants get
        SIGTERM, those inside a cage first, and SIGKILL five seconds later; those left after the program's own end are
        killed at once, so that nothing is written after it. Raises OSError if it cannot be started or restricted.

        ``exit_code`` is None if a limit ended it, and negative for a signal; in a cage that is 128 plus its number.
        ``seconds`` are the reaper's, by a clock that the program cannot reach, from just before the sandbox's or
        shell's start to the program's own end. ``cpu_seconds`` are of sandbox, shell and descendants; for a process
        that nobody waits for, they are sampled ten times a second, if the launch asks for that.
        """
        token = self._new_token()
        kept = {"stdout": HeadAndTail(kept_bytes), "stderr": HeadAndTail(kept_bytes)}
        asked_at = time.monotonic()
        program = None
        is_overdue = is_ended = False
        with Streams(stdin, kept, on_output, self._waiting) as streams:
            try:
                with process.deferring_signals():
                    try:
                        program = self._start(launch, token, streams.theirs)
                    except ConnectionError:  # the first thing the program did was to kill the reaper
                        self._drop_reaper()
                        killed = process.kill_marked(token, GRACE_SECONDS)
                        return ProgramResult(LOST, time.monotonic() - asked_at, False, killed, b"", b"")
                    finally:
                        for descriptor in streams.theirs:
                            os.close(descriptor)
                assert program.began is not None
                streams.watch(program)
                while program.exit_code is None and not (is_overdue or is_ended):
                    remaining = 0.05 if timeout is None else timeout - (time.monotonic() - program.began)
                    is_overdue = remaining <= 0
                    streams.wait(min(remaining, 0.05))  # late or not: it may have ended in time, and nobody looked
                    self.pulse()
                    is_ended = program.exit_code is None and must_end(kept["stdout"])
                checked_at = time.monotonic()
                killed = self._end(program)
                streams.drain(program)
            except BaseException:
                if program:
                    with process.deferring_signals():
                        self._end(program)
                raise
        seconds = (checked_at if program.ended is None else min(program.ended, checked_at)) - program.began
        timed_out = timeout is not None and seconds > timeout
        exit_code = None if timed_out or is_ended else program.exit_code
        printed = (kept["stdout"].content(), kept["stderr"].content())
        return ProgramResult(exit_code, seconds, timed_out, killed, *printed, program.cpu_seconds)

    def run_in_terminal(self, launch: Launch) -> int:
        """Gives the exit code; then no descendant is left. Raises OSError if the program cannot be started."""
        program = self._start(launch, self._new_token(), (0, 1, 2))
        with contextlib.suppress(ConnectionError):  # it is lost then, and has an exit code
            while program.exit_code is None:
                program.receive()
        self._end(program)
        return LOST if program.exit_code is None else program.exit_code

    def _new_token(self) -> str:
        return f"{self.owner}.{os.urandom(16).hex()}"

    def _start(self, launch: Launch, token: str, streams: tuple[int, int, int]) -> RunningProgram:
        """Raises OSError if the program cannot be started, ConnectionError if the reaper is gone."""
        program = RunningProgram(self.start(), token)
        environment = launch.environment if self._on_terminal else {**launch.environment, process.MARK_VARIABLE: token}
        message = {
            "do": "start",
            "cage": launch.is_cage,
            "cpu": launch.watches_cpu,
            "terminal": self._on_terminal,
            "grace": GRACE_SECONDS if self._on_terminal else 0.0,  # for descendants left after its own end
            "restriction": _encode(launch.restriction),
            "arguments": _encode(launch.arguments),
            "folder": os.fsencode(launch.folder).decode("latin-1"),
            "environment": dict(zip(_encode(environment.keys()), _encode(environment.values()), strict=True)),
        }
        self._ask(program, message, "began", streams)
        if program.failure:
            number, subject = program.failure
            raise OSError(number, os.strerror(number), os.fsdecode(subject.encode("latin-1")))
        return program

    def _end(self, program: RunningProgram) -> int:
        """Gives the number of processes that were left."""
        try:
            if program.killed is None:
                self._ask(program, {"do": "end", "grace": GRACE_SECONDS}, "killed")
            return program.killed or 0
        except ConnectionError:
            program.exit_code = LOST if program.exit_code is None else program.exit_code
            self._drop_reaper()
            return process.kill_marked(program.token, GRACE_SECONDS)

    def _ask(
        self, program: RunningProgram, message: dict[str, Any], answer: str, descriptors: tuple[int, ...] = ()
    ) -> None:
        """Waits for the field ``answer``. Raises ConnectionError if the reaper is gone."""
        try:
            reaper.send(program.channel, {**message, "token": program.token}, descriptors)
        except OSError as error:
            raise ConnectionError(str(error)) from None
        while getattr(program, answer) is None:
            with self._waiting():
                program.receive()

    def _drop_reaper(self) -> None:
        if self._channel:
            self._channel.close()
            self._channel = None
        if self._reaper:
            self._reaper.wait()
            self._reaper = None


def launch_in_terminal(launch: Launch) -> int:
    """Gives the exit code as a shell would: 128 plus its number for a signal, 126 if a restricted program cannot start.

    No descendant of a restricted one outlives it or this process. Any other raises FileNotFoundError if missing.
    """
    with process.ignoring_terminal_signals():
        if not launch.restriction:
            code = process.run_in_terminal(launch.arguments, launch.environment, launch.folder)
        else:
            with Supervisor(f"terminal-{os.getpid()}", on_terminal=True) as programs:
                try:
                    code = programs.run_in_terminal(launch)
                except OSError as error:
                    why = f"[Errno {error.errno}] {error.strerror}"
                    print(f"goalseek: cannot start {launch.arguments[0]}: {why}", file=sys.stderr)
                    code = CANNOT_START
    return code if code >= 0 else 128 - code


def kill_leftovers(owner: str, lock: Path) -> bool:
    """Waits for the reaper of a killed process, and kills the rest; gives whether any ran. Hold the project's lock."""
    deadline, had_programs = time.monotonic() + 2 * GRACE_SECONDS, False
    with closing(open_lock(lock)) as descriptor:
        while not try_lock(descriptor) and time.monotonic() < deadline:
            had_programs = True
            time.sleep(0.01)
    process.wait_for_marked(trusted_mark(owner), GRACE_SECONDS)  # a git that ends by itself leaves no lock behind
    process.kill_marked(trusted_mark(owner), GRACE_SECONDS)
    return process.kill_marked(f"{owner}.", GRACE_SECONDS) > 0 or had_programs


def trusted_mark(owner: str) -> str:
    return f"{owner}/trusted"


def _encode(texts: Iterable[str]) -> list[str]:
    """ASCII is the same bytes in every encoding of file names."""
    return [text if text.isascii() else os.fsencode(text).decode("latin-1") for text in texts]
