"""A pseudo-terminal of our own: what runs in it draws on the person's terminal, and cannot type into that."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from types import FrameType

from goalseek.sandbox.supervisor import CANNOT_START, launch_in_terminal
from goalseek.sandbox.view import Launch

_LOOK_SECONDS = 0.5
_LAST_SECONDS = 1.0  # for the terminal's answers to what the program asked it last
_END_OF_INPUT = b"\x04"
# Back from the other screen, no reports of mouse, focus or pastes, a visible cursor, lines that wrap, no colour.
_RESET = b"".join(b"\x1b[?%dl" % mode for mode in (1047, 1, 1000, 1002, 1003, 1004, 1006, 1015, 2004))
_RESET += b"\x1b[?25h\x1b[?7h\x1b[4l\x1b[<u\x1b>\x1b(B\x1b[0m"
_ASK, _ANSWER = b"\x1b[5n", b"\x1b[0n"  # a terminal answers in turn: what the program asked it is answered by then


def run_in_own_terminal(launch: Launch, look: Callable[[], object]) -> int:
    """The exit code of a program as ``launch_in_terminal`` gives it.

    ``look`` is called once it has begun, and now and then meanwhile. This process must have no other thread before.
    Keys go to the program as they are, ^C and ^Z too; its terminal has the size of the person's. What is typed, or
    answered by the terminal, is never left for whoever reads after it.
    """
    child, master = pty.fork()
    if child == 0:
        code = CANNOT_START
        try:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            code = launch_in_terminal(launch)
        except FileNotFoundError as error:
            print(f"goalseek: there is no program {error.filename}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    try:
        with _raw_terminal(master):
            _copy(master, look)
    finally:
        os.close(master)  # its end hangs up on a program that is still there
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _copy(master: int, look: Callable[[], object]) -> None:
    """Between the person's terminal and the program's, until that is closed.

    Neither side waits for the other: a program that prints and does not read takes no keys meanwhile.
    """
    typed, drawn = sys.stdin.fileno(), sys.stdout.fileno()
    unsent, is_over = b"", False
    os.set_blocking(master, False)
    while True:
        look()
        reading = [master] if unsent or is_over else [master, typed]  # of a file or /dev/null all is there at once
        ready, writable, _ = select.select(reading, [master] if unsent else [], [], _LOOK_SECONDS)
        if master in ready:
            try:
                chunk = os.read(master, 65536)
                _write(drawn, chunk)
            except OSError:  # the last program that had it open has ended, or nobody reads any more
                return
            if not chunk:
                return
        if typed in ready:
            keys = os.read(typed, 65536)
            unsent, is_over = keys or _END_OF_INPUT, not keys
        if writable:
            with contextlib.suppress(BlockingIOError):
                unsent = unsent[os.write(master, unsent) :]


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


@contextlib.contextmanager
def _raw_terminal(master: int) -> Iterator[None]:
    """In this block keys arrive one by one, and the program's terminal is as large as the person's."""
    person = sys.stdin.fileno()
    if not os.isatty(person):
        yield
        return

    def resize(number: int = 0, frame: FrameType | None = None) -> None:
        fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(person, termios.TIOCGWINSZ, bytes(8)))

    modes, before = termios.tcgetattr(person), signal.signal(signal.SIGWINCH, resize)
    try:
        resize()
        tty.setraw(person, termios.TCSANOW)  # what is typed ahead is the program's
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
        with contextlib.suppress(OSError):  # it is gone
            if sys.stdout.isatty():
                _write(sys.stdout.fileno(), _RESET + _ASK)
                answered, until = b"", time.monotonic() + _LAST_SECONDS
                while _ANSWER not in answered and select.select([person], [], [], max(until - time.monotonic(), 0))[0]:
                    answered = answered[-len(_ANSWER) :] + (os.read(person, 65536) or _ANSWER)
        termios.tcsetattr(person, termios.TCSAFLUSH, modes)
