"""Standard input, output and error as they may be found: closed, full, hung up, or in an encoding of few letters."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import signal
import sys
from typing import TYPE_CHECKING

from goalseek.errors import UNFIT, GoalseekError, Interrupted
from goalseek.views.legible import LEGIBLE, know_plain_letters

if TYPE_CHECKING:
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
    """Text in the encoding of ``found``, without errors of its own; what is written appears as early as it did."""

    def __init__(self, found: io.TextIOWrapper, descriptor: int) -> None:
        raw = _Descriptor(descriptor)
        super().__init__(
            raw if found.write_through else io.BufferedWriter(raw),  # as python -u has it
            encoding=found.encoding,
            errors=LEGIBLE,
            line_buffering=found.line_buffering or descriptor == 2,
            write_through=found.write_through,
        )


class _Descriptor(io.FileIO):
    """Writes to standard output or error, and knows what to do where that cannot be.

    Chatter is lost silently, and so is all that is for a terminal that is gone: who was to end with it was told so by
    SIGHUP, and a climb in the background goes on. A reader that goes away ends the program, as SIGPIPE would have.
    For anything else GoalseekError is raised: what was asked for could not be given.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_terminal = os.isatty(descriptor)

    def write(self, data: ReadableBuffer) -> int:
        """All of ``data``; gives its length."""
        left = memoryview(data).cast("B")
        size = left.nbytes
        try:
            while left:
                written = super().write(left)
                if written is None:  # somebody who shares the pipe made it one that never waits
                    select.select([], [self], [])
                left = left[written or 0 :]
            return size
        except OSError as error:
            lost = error
        if self.fileno() == 2:
            return size
        stop_using(self.fileno())
        if self._is_terminal and lost.errno == errno.EIO:
            return size
        if lost.errno == errno.EPIPE:
            raise Interrupted(signal.SIGPIPE)
        from goalseek.full_disk import as_full_disk

        told = f"standard output cannot be written: {lost.strerror}"
        raise as_full_disk(lost) or GoalseekError(told, "what was recorded is kept", UNFIT)
