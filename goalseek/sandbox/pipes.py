"""The pipes of a running program, and what is kept of its output: head and tail in memory, a log on disk."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from goalseek.sandbox import reaper

LOST = -9  # exit code of a program whose end nobody saw, because the reaper itself was killed


Waiting = Callable[[], contextlib.AbstractContextManager[object]]
"""What is entered while this thread waits for a program: other threads may work meanwhile."""


class RunningProgram(Struct):
    """A program that the reaper at the other end of ``channel`` starts and ends, and what that has said of it.

    ``began`` and ``ended`` are in seconds of ``time.monotonic``; ``ended`` is None if nobody saw the end. ``failure``
    are error number and subject if it could not be started. ``killed`` is None until what it left running has ended.
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
        """Waits for the reaper's next message, and ignores one about an earlier program.

        Raises ConnectionError if there will be none; then the program is lost.
        """
        received = reaper.receive(self.channel)
        if received is None:
            self.exit_code = LOST if self.exit_code is None else self.exit_code
            raise ConnectionError("the reaper is gone")
        message, _ = received
        if message.pop("token") == self.token:
            for name, value in message.items():
                setattr(self, name, value)


class Streams(contextlib.AbstractContextManager["Streams"]):
    """The pipes of a program, each served so that none blocks the other two; ``theirs`` are the program's ends."""

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
        """Receives the messages about a program too, from now on."""
        self._selector.register(program.channel, selectors.EVENT_READ, program)

    def wait(self, seconds: float) -> int:
        """Waits so long for data at most, and moves it; gives the number of streams that were ready."""
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
        """Reads the rest of the output once nobody writes any more."""
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


KEPT_BYTES = 4 * 2**20
LEAST_BYTES = 4096


class HeadAndTail:
    """The first and the last bytes of a stream, ``limit`` bytes together, and between them how many are left out."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._omitted = 0

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        room = self._half - len(self._head)
        self._head += chunk[: max(room, 0)]
        self._tail += chunk[max(room, 0) :]
        if len(self._tail) > 2 * self._half:
            self._omitted += len(self._tail) - self._half
            del self._tail[: -self._half]

    def content(self) -> bytes:
        """What was kept."""
        gap = b"\n[... %d bytes left out ...]\n" % self._omitted if self._omitted else b""
        return bytes(self._head) + gap + bytes(self._tail)


def shorten(text: str) -> str:
    """Head and tail of a text that is too long to be stored."""
    if len(text) <= KEPT_BYTES // 4:
        return text
    kept = HeadAndTail()
    kept.write(text.encode("utf-8", "replace"))
    return kept.content().decode("utf-8", "replace")


class LogFile(contextlib.AbstractContextManager["LogFile"]):
    """Appends to a log that can be read while it grows; the file has ``limit`` bytes for all who append to it.

    Each gets half of the remaining bytes, LEAST_BYTES at least; of longer output, head and tail are kept. Closing it
    writes the tail.
    """

    def __init__(self, path: Path, limit: int = KEPT_BYTES) -> None:
        self._file = path.open("ab")
        share = max((limit - self._file.tell()) // 2, LEAST_BYTES)
        self._room = share // 2
        self._rest = HeadAndTail(share // 3)  # which may keep half as much again

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        head, rest = chunk[: self._room], chunk[self._room :]
        self._room -= len(head)
        self._file.write(head)
        self._file.flush()
        if rest:
            self._rest.write(rest)

    def close(self) -> None:
        """Writes what was kept of the rest."""
        self._file.write(self._rest.content())
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


Sink = HeadAndTail | LogFile
"""Where output goes as it comes."""
