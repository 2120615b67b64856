"""Signals that end the tool: what each raises, once, and how they are held back where they would lose something."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

from goalseek.errors import Interrupted

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONE_WISH_SECONDS = 10.0
_heard_at: list[float] = []


def answer_signals() -> None:
    """From now on a signal that ends the tool raises, KeyboardInterrupt for ^C and Interrupted for the others.

    Those that follow within ten seconds are the same wish, and must not end the cleaning up: somebody presses ^C again,
    and a terminal that is closed is told by the system and by the shell. One that whoever started us has switched off,
    as ``nohup`` does, stays so.
    """
    _heard_at.clear()
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise_once)


def is_ending() -> bool:
    """Whether a signal was heard just now, so that all ends."""
    return bool(_heard_at) and time.monotonic() - _heard_at[0] < ONE_WISH_SECONDS


def _raise_once(number: int, frame: FrameType | None) -> None:
    if is_ending():
        return
    _heard_at[:] = [time.monotonic()]
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Interrupted(number)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """What would interrupt this block does so right after it. Signals that nobody handles in Python end at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    handlers = {number: signal.getsignal(number) for number in ENDING}
    handled = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handled:
        signal.signal(number, lambda signal_number, frame: caught.append(signal_number))
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
        for signal_number in caught:
            handled[signal.Signals(signal_number)](signal_number, None)


@contextlib.contextmanager
def left_to_another() -> Iterator[None]:
    """Around a program that has the terminal: what is pressed there, ^C and ^\\, is meant for it."""
    numbers = [signal.SIGINT, signal.SIGQUIT] if threading.current_thread() is threading.main_thread() else []
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
