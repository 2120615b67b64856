"""The time of day as deadlines are held against it: read once, then counted on, so that nobody can set it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from goalseek.process import seconds_with_sleep


@dataclass(frozen=True)
class Clock:
    """A clock that was set at ``began`` (aware), when ``elapsed`` showed ``then`` seconds.

    The machine's clock, set back or forward after that, does not move it: a deadline comes neither sooner nor later.
    A laptop that sleeps does: its deadline comes nearer while it sleeps. What is spent as ``limits.time`` is counted
    by ``time.monotonic``, which on Linux stands still in that sleep.
    """

    began: datetime
    then: float
    elapsed: Callable[[], float]

    @classmethod
    def started(
        cls,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        elapsed: Callable[[], float] = seconds_with_sleep,
    ) -> Clock:
        """A clock that is set by the machine's now."""
        return cls(wall(), elapsed(), elapsed)

    def now(self) -> datetime:
        """An aware time."""
        return self.began + timedelta(seconds=self.elapsed() - self.then)
