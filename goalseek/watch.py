"""What a view is told while a climb goes on. Each method does nothing here; a view overrides what it shows."""

from __future__ import annotations

from goalseek.confinement.level import Level
from goalseek.limits import Stop
from goalseek.records import IterationRecord


class Watch:
    """Told by the loop, in the order in which things happen."""

    def note(self, text: str) -> None:
        """Something that a person should know."""

    def confined(self, level: Level, not_enforced: tuple[str, ...]) -> None:
        """At which level programs are kept in their place, and what they can do in spite of it."""

    def budget(self, text: str) -> None:
        """Most of a budget is spent."""
        self.note(text)

    def phase(self, iteration: int, name: str) -> None:
        """A phase begins."""

    def output(self, chunk: bytes) -> None:
        """A provider or the verifier printed something."""

    def recorded(self, record: IterationRecord) -> None:
        """An iteration ended, and counts."""

    def stopped(self, stop: Stop) -> None:
        """The invocation ends."""

    def failed(self, stop: Stop) -> None:
        """The invocation ends by an error, which the command shows."""
