"""What a child prints, kept as it comes where another terminal can follow it: ``logs/output.log``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from goalseek.relay import Relay
from goalseek.watch import Watch

if TYPE_CHECKING:
    from goalseek.values import Stop

OUTPUT = "output.log"
BYTES_MOST = 2**20


class KeptOutput(Relay):
    """Writes output into a file that begins anew past a mebibyte, and hands everything on.

    For people, never read to decide: where it cannot be written, it is not.
    """

    def __init__(self, shown: Watch, path: Path) -> None:
        super().__init__(shown)
        self._path = path
        self._file: BinaryIO | None = None
        self._title = b""

    def phase(self, iteration: int, name: str) -> None:
        """Handed on; the phase's name stands above what it prints."""
        self._title = f"[{name} of iteration {iteration}]\n".encode()
        super().phase(iteration, name)

    def output(self, chunk: bytes) -> None:
        """Written, and handed on."""
        with contextlib.suppress(OSError):
            self._write(self._title + chunk[-BYTES_MOST:])
            self._title = b""
        super().output(chunk)

    def stopped(self, stop: Stop) -> None:
        """Handed on; the file is closed."""
        self._close()
        super().stopped(stop)

    def failed(self, stop: Stop) -> None:
        """Handed on; the file is closed."""
        self._close()
        super().failed(stop)

    def _write(self, content: bytes) -> None:
        if self._file is None:
            self._file = self._path.open("wb", buffering=0)
        if self._file.tell() + len(content) > BYTES_MOST:
            self._file.seek(0)
            self._file.truncate()
        self._file.write(content)

    def _close(self) -> None:
        if self._file:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
