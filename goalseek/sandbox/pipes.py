"""The pipes of a program at work, and the channel on which its end is told."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from goalseek.sandbox import reaper

LOST = -9  # what is said of a program whose end nobody saw, because the reaper itself was killed


@dataclass
class Child:
    """A program at work: the channel on which its end is told, and our ends of its pipes.

    ``began`` and ``ended`` are as the reaper saw them, by ``time.monotonic``; None where nobody saw the end.
    """

    channel: socket.socket
    stdin: int
    stdout: int
    stderr: int
    began: float
    ended: float | None = None
    exit_code: int | None = None

    def hear(self, message: dict[str, Any]) -> None:
        """Takes in what the reaper says by itself: that the program has ended."""
        if "exited" in message:
            self.exit_code, self.ended = message["exited"], message["at"]


class Streams:
    """The three pipes of a program, none of which may block the other two, and the channel that tells its end."""

    def __init__(
        self,
        child: Child,
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
        """Moves what can be moved; gives the number of pipes that had something."""
        ready = self.selector.select(seconds if seconds > 0 else 0)
        for key, _ in ready:
            if key.data == "stdin":
                self._send(key)
            elif key.data == "channel":
                self._hear()
            else:
                self._receive(key)
        return len(ready)

    def drain(self) -> None:
        """Takes what is left in the pipes once nobody writes any more."""
        with contextlib.suppress(KeyError):
            self.selector.unregister(self.child.channel)
        while any(key.data != "stdin" for key in self._pipes()) and self.wait(0):
            pass

    def _pipes(self) -> list[selectors.SelectorKey]:
        return [key for key in self.selector.get_map().values() if key.data != "channel"]

    def _hear(self) -> None:
        received = reaper.receive(self.child.channel)
        if received is None:
            self.child.exit_code = LOST
        else:
            self.child.hear(received[0])

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
        self.selector.unregister(key.fd)
        os.close(key.fd)


KEPT_BYTES = 4 * 2**20
LEAST_BYTES = 4096


class Sink(Protocol):
    """Where output goes as it comes."""

    def write(self, chunk: bytes, /) -> object:
        """Takes the next bytes."""


class HeadAndTail:
    """The first and the last bytes of a stream, ``most`` together, and between them how many are missing."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._half = most // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._lost = 0

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        room = self._half - len(self._head)
        self._head += chunk[: max(room, 0)]
        self._tail += chunk[max(room, 0) :]
        if len(self._tail) > 2 * self._half:
            self._lost += len(self._tail) - self._half
            del self._tail[: -self._half]

    def content(self) -> bytes:
        """What was kept."""
        return bytes(self._head) + self.rest()

    def rest(self) -> bytes:
        """What was kept after the head."""
        gap = b"\n[... %d bytes left out ...]\n" % self._lost if self._lost else b""
        return gap + bytes(self._tail)


def shortened(text: str) -> str:
    """Head and tail of a text that is too long to be stored."""
    if len(text) <= KEPT_BYTES // 4:
        return text
    kept = HeadAndTail()
    kept.write(text.encode("utf-8", "replace"))
    return kept.content().decode("utf-8", "replace")


class LogFile:
    """A log that can be read while it grows, in a file that others wrote to before: ``most`` bytes for all together.

    Each gets half of what is left, LEAST_BYTES at least, and of what does not fit its head and its tail are kept. Close
    it: the tail is written then.
    """

    def __init__(self, path: Path, most: int = KEPT_BYTES) -> None:
        self._file = path.open("ab")
        own = max((most - self._file.tell()) // 2, LEAST_BYTES)
        self._room = own // 2
        self._after = HeadAndTail(own // 3)  # which may keep half as much again

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        now, later = chunk[: self._room], chunk[self._room :]
        self._room -= len(now)
        self._file.write(now)
        self._file.flush()
        if later:
            self._after.write(later)

    def close(self) -> None:
        """Writes what was kept of the rest."""
        self._file.write(self._after.content())
        self._file.close()

    def __enter__(self) -> LogFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
