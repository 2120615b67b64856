"""Standard input, output and error as they may be found: closed, full, hung up, or in an encoding of few letters."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import select
import signal
import sys
import typing

from goalseek.errors import UNFIT, GoalseekError, Interrupted

if typing.TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def make_usable() -> None:
    """Makes the standard streams fit to be used by whoever prints, once in a process.

    One that is closed is as if it were ``/dev/null``, as git has it: else a file that is opened would take its place.
    """
    know_plain_letters()
    _open_closed()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, _Stream) and _is_at(stream, descriptor):
            with contextlib.suppress(OSError):
                stream.flush()
            setattr(sys, name, _Stream(stream, descriptor))


def stop_using(descriptor: int) -> None:
    """What is written there from now on goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def print_bytes(content: bytes) -> None:
    """Writes bytes to standard output as they are."""
    stream = sys.stdout
    stream.flush()
    try:
        stream.buffer.write(content)
        stream.buffer.flush()
    except OSError as error:
        if not isinstance(stream, _Stream):
            raise
        stream.lose(error)


def _open_closed() -> None:
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is this one
        if getattr(sys, name) is None:
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - of the process
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _is_at(stream: io.TextIOWrapper, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError):
        return False


class _Stream(io.TextIOWrapper):
    """Text in the encoding of ``found``, without errors of its own; what is written appears as early as it did.

    It knows what to do where nothing can be written. Chatter is lost silently, and so is all that is for a terminal
    that is gone: who was to end with it was told so by SIGHUP, and a climb in the background goes on. A reader that
    goes away ends the program, as SIGPIPE would have. For anything else GoalseekError is raised: what was asked for
    could not be given.
    """

    def __init__(self, found: io.TextIOWrapper, descriptor: int) -> None:
        # Bytes are written by C code alone where that can be: a signal must not meet a line that is out and not noted.
        kind = io.FileIO if os.get_blocking(descriptor) else _NeverWaiting
        raw = kind(descriptor, "w", closefd=False)
        super().__init__(
            raw if found.write_through else io.BufferedWriter(raw),  # as python -u has it
            encoding=found.encoding,
            errors=LEGIBLE,
            line_buffering=found.line_buffering or descriptor == 2,
            write_through=found.write_through,
        )
        self._descriptor = descriptor
        self._is_terminal = os.isatty(descriptor)

    def write(self, text: str) -> int:
        """All of ``text``; gives its length."""
        try:
            return super().write(text)
        except OSError as error:
            self.lose(error)
        return len(text)

    def flush(self) -> None:
        """What was written before appears."""
        try:
            super().flush()
        except OSError as error:
            self.lose(error)

    def lose(self, lost: OSError) -> None:
        """What was written cannot go where it was meant to."""
        stop_using(self._descriptor)
        if self._descriptor == 2 or (self._is_terminal and lost.errno == errno.EIO):
            return
        if lost.errno == errno.EPIPE:
            raise Interrupted(signal.SIGPIPE)
        from goalseek.disk import as_full_disk

        told = f"standard output cannot be written: {lost.strerror}"
        raise as_full_disk(lost) or GoalseekError(told, "what was recorded is kept", UNFIT)


class _NeverWaiting(io.FileIO):
    """A descriptor that refuses what does not fit: somebody who shares the pipe made it one that never waits."""

    def write(self, data: ReadableBuffer) -> int:
        """All of ``data``, however long that takes; gives its length."""
        left = memoryview(data).cast("B")
        size = left.nbytes
        while left:
            written = super().write(left)
            if written is None:
                select.select([], [self], [])
            left = left[written or 0 :]
        return size


LEGIBLE = "goalseek.legible"
_PLAIN = {
    "→": "->",
    "−": "-",  # noqa: RUF001 - a minus
    "±": "+-",
    "·": "|",
    "…": "...",
    "×": "x",  # noqa: RUF001 - times
    "’": "'",  # noqa: RUF001 - an apostrophe
    "✓": "+",
    "✗": "x",
}


def know_plain_letters() -> None:
    """From now on an encoding's errors may be ``LEGIBLE``: a letter that it lacks becomes a plain one, or ``?``.

    The bytes of a file name that are no text are written as they are.
    """
    codecs.register_error(LEGIBLE, _plain)


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letter = error.object[error.start]
    if "\udc80" <= letter <= "\udcff":
        return bytes([ord(letter) - 0xDC00]), error.start + 1
    return _PLAIN.get(letter, "?"), error.start + 1
