"""What a view is told while a climb goes on. Each method does nothing here; a view overrides what it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goalseek.approval import Question, Word
    from goalseek.ledger.records import HoldoutRecord, IterationRecord, SettleRecord
    from goalseek.sandbox.level import Level
    from goalseek.scene import Scene
    from goalseek.values import Stop


class Watch:
    """Told by the loop, in the order in which things happen."""

    def note(self, text: str) -> None:
        """Something that a person should know."""

    def confined(self, level: Level, not_enforced: tuple[str, ...]) -> None:
        """At which level programs are kept in their place, and what they can do in spite of it."""

    def budget(self, text: str) -> None:
        """Most of a budget is spent."""
        self.note(text)

    def stands(self, scene: Scene) -> None:
        """Where the climb stands before each iteration and at the end, and what bounds it."""

    def phase(self, iteration: int, name: str) -> None:
        """A phase begins."""

    def turn(self, of: str, place: int) -> None:
        """VERIFY begins a run, counted from 1, of the "candidate" or the "incumbent"."""

    def waits(self, text: str) -> None:
        """Nothing goes on but a wait, and what for; "" at its end."""

    def output(self, chunk: bytes) -> None:
        """A provider or the verifier printed something."""

    def recorded(self, record: IterationRecord) -> None:
        """An iteration ended, and counts."""

    def settled(self, record: SettleRecord) -> None:
        """The result was measured afresh."""

    def looked(self, record: HoldoutRecord) -> None:
        """A look at the holdout was made."""

    def is_attended(self) -> bool:
        """Whether a person is there who can be asked."""
        return False

    def ask(self, question: Question, given: Callable[[], Word | None]) -> Word | None:
        """A person's word on a verdict, where one is there; ``given`` looks for one that came from elsewhere.

        None where nobody will answer any more. May take hours; is left by KeyboardInterrupt to be asked again.
        """
        return None

    def stopped(self, stop: Stop) -> None:
        """The invocation ends."""

    def failed(self, stop: Stop) -> None:
        """The invocation ends by an error, which the command shows."""
