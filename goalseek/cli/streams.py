"""Standard input, output and error that work when closed, full, hung up, or in an encoding that lacks characters."""

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


def prepare_streams() -> None:
    """Opens closed standard streams and handles the write errors of the others; call it once in a process.

    A closed one becomes ``/dev/null``, as in git: otherwise the next file that is opened would get its descriptor.
    """
    register_error_handler()
    _open_missing()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, _Stream) and _is_at(stream, descriptor):
            with contextlib.suppress(OSError):
                stream.flush()
            setattr(sys, name, _Stream(stream, descriptor))


def redirect_to_null(descriptor: int) -> None:
    """Redirects a descriptor to ``/dev/null``."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


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
        stream.on_write_error(error)


def _open_missing() -> None:
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
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
    """Wraps stdout or stderr: the same encoding and buffering as ``stream``; write errors are handled.

    On stderr, or where the terminal is gone (EIO), output is dropped silently: a process that should end with its
    terminal got SIGHUP, and a climb in the background goes on. A pipe without a reader (EPIPE) raises Interrupted
    with SIGPIPE. Any other error, such as a full disk, raises GoalseekError.
    """

    def __init__(self, stream: io.TextIOWrapper, descriptor: int) -> None:
        # Written by C code alone where possible: a signal must not come between writing a line and recording that.
        kind = io.FileIO if os.get_blocking(descriptor) else _NonblockingFile
        raw = kind(descriptor, "w", closefd=False)
        super().__init__(
            raw if stream.write_through else io.BufferedWriter(raw),  # as python -u has it
            encoding=stream.encoding,
            errors=ERROR_HANDLER,
            line_buffering=stream.line_buffering or descriptor == 2,
            write_through=stream.write_through,
        )
        self._descriptor = descriptor
        self._is_terminal = os.isatty(descriptor)

    def write(self, text: str) -> int:
        """Writes all of ``text``; gives its length in characters."""
        try:
            return super().write(text)
        except OSError as error:
            self.on_write_error(error)
        return len(text)

    def flush(self) -> None:
        """Writes out the buffer."""
        try:
            super().flush()
        except OSError as error:
            self.on_write_error(error)

    def on_write_error(self, error: OSError) -> None:
        """Redirects the stream to ``/dev/null``; raises unless the output may be dropped."""
        redirect_to_null(self._descriptor)
        if self._descriptor == 2 or (self._is_terminal and error.errno == errno.EIO):
            return
        if error.errno == errno.EPIPE:
            raise Interrupted(signal.SIGPIPE)
        from goalseek.disk import full_disk_error

        message = f"standard output cannot be written: {error.strerror}"
        raise full_disk_error(error) or GoalseekError(message, "what was recorded is kept", UNFIT)


class _NonblockingFile(io.FileIO):
    """A descriptor in non-blocking mode, which another process that shares the pipe has set: write waits for space."""

    def write(self, data: ReadableBuffer) -> int:
        """Writes all of ``data``, however long that takes; gives its length in bytes."""
        rest = memoryview(data).cast("B")
        size = rest.nbytes
        while rest:
            count = super().write(rest)
            if count is None:
                select.select([], [self], [])
            rest = rest[count or 0 :]
        return size


ERROR_HANDLER = "goalseek.legible"
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


def register_error_handler() -> None:
    """Registers the error handler ``LEGIBLE``: a character that the encoding lacks becomes an ASCII one, or ``?``.

    Undecodable bytes of a file name are written as they are.
    """
    codecs.register_error(ERROR_HANDLER, _plain)


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letter = error.object[error.start]
    if "\udc80" <= letter <= "\udcff":
        return bytes([ord(letter) - 0xDC00]), error.start + 1
    return _PLAIN.get(letter, "?"), error.start + 1
