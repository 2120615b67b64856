"""Standard streams that work when closed, full, hung up or in an encoding that lacks characters; questions there."""

import codecs
import contextlib
import errno
import io
import os
import signal
import stat
import sys
from collections.abc import Callable
from typing import TypeVar

from goalseek.errors import UNFIT, GoalseekError, Interrupted

ERROR_HANDLER = "goalseek.legible"
_SPELLINGS = dict(zip("→−±·…×’✓✗", ("->", "-", "+-", "|", "...", "x", "'", "+", "x"), strict=True))  # noqa: RUF001


class _Stream(io.TextIOWrapper):
    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            handle_write_error(self.fileno(), error)
        return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            handle_write_error(self.fileno(), error)


def prepare_streams() -> None:
    """Opens closed standard streams and handles the write errors of the others; call it once in a process.

    A closed one becomes ``/dev/null``, as in git: otherwise the next file that is opened would get its descriptor.
    """
    codecs.register_error(ERROR_HANDLER, spell_in_ascii)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
            stream = open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        stream = getattr(sys, name)
        with contextlib.suppress(OSError, ValueError):  # it may have no descriptor
            if descriptor and stream.fileno() == descriptor and not isinstance(stream, _Stream):
                stream.flush()
                os.set_blocking(descriptor, True)  # a process that shares it may have changed that
                raw = io.FileIO(descriptor, "w", closefd=False)
                buffer = raw if stream.write_through else io.BufferedWriter(raw)  # as python -u has it
                buffering = {"line_buffering": stream.line_buffering, "write_through": stream.write_through}
                setattr(sys, name, _Stream(buffer, stream.encoding, ERROR_HANDLER, **buffering))


def handle_write_error(descriptor: int, error: OSError) -> None:
    """Redirects the descriptor to ``/dev/null``; raises unless it is stderr, or the terminal is gone (EIO).

    A process that should end with its terminal got SIGHUP; a climb in the background goes on. A pipe without a reader
    raises Interrupted, any other error GoalseekError.
    """
    is_dropped = descriptor == 2 or (error.errno == errno.EIO and stat.S_ISCHR(os.fstat(descriptor).st_mode))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
    if is_dropped:
        return
    if error.errno == errno.EPIPE:
        raise Interrupted(signal.SIGPIPE)
    from goalseek.disk import full_disk_error

    message = f"standard output cannot be written: {error.strerror}"
    raise full_disk_error(error) or GoalseekError(message, "all records are kept", UNFIT)


def spell_in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """An ASCII character for one that the encoding lacks, or ``?``; undecodable bytes of a name stay."""
    assert isinstance(error, UnicodeEncodeError)
    letter = error.object[error.start]
    is_byte = "\udc80" <= letter <= "\udcff"
    return bytes([ord(letter) - 0xDC00]) if is_byte else _SPELLINGS.get(letter, "?"), error.start + 1


def print_bytes(content: bytes) -> None:
    sys.stdout.flush()
    try:
        sys.stdout.buffer.write(content)
    except OSError as error:
        handle_write_error(1, error)
    sys.stdout.flush()


YES = ("y", "yes")
Value = TypeVar("Value")


def ask_person(question: str, default: str, read: Callable[[str], Value]) -> Value:
    """Asks until ``read`` takes the answer, or the default. Raises GoalseekError if the terminal is closed."""
    from goalseek.process import wait_for_line

    while True:
        print(f"{question}{f' [{default}]' if default else ''}: ", end="", file=sys.stderr, flush=True)
        wait_for_line()
        try:
            text = input().strip() or default
        except EOFError:
            raise GoalseekError("no answer", "answer the questions, or use flags: goalseek init --help") from None
        try:
            return read(text)
        except GoalseekError as error:
            print(f"  {error.message}" + (f"; {error.hint}" if error.hint else ""), file=sys.stderr)
