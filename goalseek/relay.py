"""A watch that hands on all that it is told: what stands between the loop and a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from goalseek.watch import Watch

if TYPE_CHECKING:
    from goalseek.approval import Question, Word
    from goalseek.ledger.records import HoldoutRecord, IterationRecord, SettleRecord
    from goalseek.sandbox.level import Level
    from goalseek.scene import Scene
    from goalseek.values import Stop


class Relay(Watch):
    """Hands everything on to ``shown``."""

    def __init__(self, shown: Watch) -> None:
        self._shown = shown

    def note(self, text: str) -> None:
        """Handed on."""
        self._shown.note(text)

    def confined(self, level: Level, not_enforced: tuple[str, ...]) -> None:
        """Handed on."""
        self._shown.confined(level, not_enforced)

    def budget(self, text: str) -> None:
        """Handed on."""
        self._shown.budget(text)

    def stands(self, scene: Scene) -> None:
        """Handed on."""
        self._shown.stands(scene)

    def phase(self, iteration: int, name: str) -> None:
        """Handed on."""
        self._shown.phase(iteration, name)

    def turn(self, of: str, place: int) -> None:
        """Handed on."""
        self._shown.turn(of, place)

    def waits(self, text: str) -> None:
        """Handed on."""
        self._shown.waits(text)

    def output(self, chunk: bytes) -> None:
        """Handed on."""
        self._shown.output(chunk)

    def recorded(self, record: IterationRecord) -> None:
        """Handed on."""
        self._shown.recorded(record)

    def settled(self, record: SettleRecord) -> None:
        """Handed on."""
        self._shown.settled(record)

    def looked(self, record: HoldoutRecord) -> None:
        """Handed on."""
        self._shown.looked(record)

    def is_attended(self) -> bool:
        """As the other watch has it."""
        return self._shown.is_attended()

    def ask(self, question: Question, given: Callable[[], Word | None]) -> Word | None:
        """Handed on."""
        return self._shown.ask(question, given)

    def stopped(self, stop: Stop) -> None:
        """Handed on."""
        self._shown.stopped(stop)

    def failed(self, stop: Stop) -> None:
        """Handed on."""
        self._shown.failed(stop)
