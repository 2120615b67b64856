"""Output of any size in bounded memory and on bounded disk: its head and its tail are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

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
