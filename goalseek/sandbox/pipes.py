"""The pipes of a running program, and what is kept of its output: head and tail in memory, a log on disk."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from goalseek.sandbox import reaper

LOST = -9  # exit code of a program whose end nobody saw, because the reaper itself was killed


Waiting = Callable[[], contextlib.AbstractContextManager[object]]
"""What is entered while this thread waits for a program: other threads may work meanwhile."""


class RunningProgram(Struct):
    """A running program: the channel to its reaper, which reports its end, and our ends of its pipes.

    ``began`` and ``ended`` are the reaper's, in seconds of ``time.monotonic``; ``ended`` is None if nobody saw the end.
    """

    channel: socket.socket
    stdin: int
    stdout: int
    stderr: int
    began: float
    ended: float | None = None
    exit_code: int | None = None
    cpu_seconds: float = 0.0

    def receive(self) -> None:
        """Waits for the reaper's next message; the program is lost if there will be none."""
        received = reaper.receive(self.channel)
        if received is None:
            self.exit_code = LOST
        else:
            self.handle_message(received[0])

    def handle_message(self, message: dict[str, Any]) -> None:
        """Takes note of the reaper's messages that the program, and what it left, have ended; ignores others."""
        if "exited" in message:
            self.exit_code, self.ended = message["exited"], message["at"]
        elif "ended" in message:
            self.cpu_seconds = message["cpu"]


class Streams:
    """Serves the three pipes of a program, so that none blocks the other two, and the channel that reports its end."""

    def __init__(
        self,
        child: RunningProgram,
        stdin: bytes,
        kept: Mapping[str, HeadAndTail],
        on_output: Callable[[bytes], object],
        waiting: Waiting = contextlib.nullcontext,
    ) -> None:
        self._waiting = waiting
        self.child = child
        self.unsent = memoryview(stdin)
        self.kept = kept
        self.on_output = on_output
        self.selector = selectors.DefaultSelector()

    def __enter__(self) -> Streams:
        for name in ("stdin", "stdout", "stderr"):
            descriptor: int = getattr(self.child, name)
            os.set_blocking(descriptor, False)
            self.selector.register(descriptor, selectors.EVENT_WRITE if name == "stdin" else selectors.EVENT_READ, name)
        self.selector.register(self.child.channel, selectors.EVENT_READ, "channel")
        return self

    def __exit__(self, *_: object) -> None:
        for key in self._pipes():
            self._close(key)
        self.selector.close()

    def wait(self, seconds: float) -> int:
        """Waits so long for data at most, and moves it; gives the number of pipes that were ready."""
        with self._waiting():
            ready = self.selector.select(seconds if seconds > 0 else 0)
        for key, _ in ready:
            if key.data == "stdin":
                self._send(key)
            elif key.data == "channel":
                self.child.receive()
            else:
                self._receive(key)
        return len(ready)

    def drain(self) -> None:
        """Reads the rest of the output once nobody writes any more."""
        with contextlib.suppress(KeyError):
            self.selector.unregister(self.child.channel)
        while any(key.data != "stdin" for key in self._pipes()) and self.wait(0):
            pass

    def _pipes(self) -> list[selectors.SelectorKey]:
        return [key for key in self.selector.get_map().values() if key.data != "channel"]

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
        self.on_output(chunk)

    def _close(self, key: selectors.SelectorKey) -> None:
        self.selector.unregister(key.fd)
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
