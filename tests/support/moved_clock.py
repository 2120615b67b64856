"""A clock that jumps while goalseek waits: a climb in this process passes hours in a moment, its agents do not."""

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

STEP_SECONDS = 20.0
_WAITS = "goalseek.project.project"
_MODULES = (_WAITS, "goalseek.loop.loop", "goalseek.providers.fallback", "goalseek.project.opening")


class MovedClock:
    """The module ``time`` as goalseek sees it, ``moved`` seconds ahead; the sandbox sees the real one.

    ``seen`` is what ``look`` gave in each wait.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, look: Callable[[], Any] = lambda: None) -> None:
        self.moved = 0.0
        self.seen: list[Any] = []
        self._look = look
        for name in _MODULES:
            importlib.import_module(name)
        for name, module in list(sys.modules.items()):
            is_seen = name.startswith("goalseek.") and not name.startswith("goalseek.sandbox.")
            if is_seen and getattr(module, "time", None) is time:
                monkeypatch.setattr(module, "time", _Waits(self) if name == _WAITS else self)

    def monotonic(self) -> float:
        return time.monotonic() + self.moved

    def time(self) -> float:
        return time.time() + self.moved

    def clock_gettime(self, clock: int) -> float:
        return time.clock_gettime(clock) + self.moved

    def look(self) -> None:
        """Notes what there is to see, where it is something new."""
        if (seen := self._look()) not in self.seen:
            self.seen.append(seen)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class _Waits:
    """The same for the module that waits: its sleep moves the clock."""

    def __init__(self, clock: MovedClock) -> None:
        self._clock = clock

    def sleep(self, seconds: float) -> None:
        self._clock.look()
        self._clock.moved += STEP_SECONDS

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)
