"""Signals that end the tool, held back for the moments in which they would lose something."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
