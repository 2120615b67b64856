"""The baton of a climb with several iterations at once: whatever a signal cuts short, one thread holds it, or none."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from goalseek.locks import Baton


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Whatever came before, an interrupt is Python's own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def is_free(baton: Baton) -> bool:
    """Whether another thread gets it."""

    def take() -> None:
        with baton:
            pass

    taker = threading.Thread(target=take, daemon=True)
    taker.start()
    taker.join(0.5)
    return not taker.is_alive()


def test_a_signal_while_it_is_waited_for_ends_the_wait_and_leaves_it_to_others() -> None:
    baton, is_taken = Baton(), threading.Event()

    def interrupt() -> None:
        with baton:
            is_taken.set()
            time.sleep(0.1)  # until the other one waits for it
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)

    other = threading.Thread(target=interrupt)
    other.start()
    is_taken.wait(timeout=10)
    with pytest.raises(KeyboardInterrupt), baton:
        raise AssertionError("the signal came before it was taken")
    other.join(timeout=10)
    assert is_free(baton)


class _RingingLock:
    """A lock; a signal comes as soon as it is released."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acquire: Callable[..., bool] = self._lock.acquire

    def release(self) -> None:
        self._lock.release()
        signal.raise_signal(signal.SIGINT)


def test_who_is_interrupted_as_it_lets_go_holds_it_again_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    baton, lock = Baton(), _RingingLock()
    monkeypatch.setattr(baton, "_lock", lock)
    lock.acquire()
    with pytest.raises(KeyboardInterrupt), baton.let_go():
        raise AssertionError("the signal came before that")
    assert not lock.acquire(False)
