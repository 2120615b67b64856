"""Where one iteration is worked on: each phase is done once, and what it answered is taken from memory after that."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from goalseek.calls import Calls
from goalseek.errors import Rejected
from goalseek.limits import Stop
from goalseek.memory import Memory
from goalseek.values import Rejection, Usage

Value = TypeVar("Value")


class Paused(Exception):
    """Enough was done for now; ``following`` is the phase that comes next."""

    def __init__(self, following: str) -> None:
        super().__init__(following)
        self.following = following


class LimitReached(Exception):
    """A limit ends the invocation before a phase that spends; what is stored stays, and is gone on from."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.why)
        self.stop = stop


class Desk:
    """The phases of one iteration, in order. ``most`` is how many may be done now (None: all).

    ``on_phase`` is told of a phase that is about to begin (True) or to go on with its next part (False), and may raise.
    ``seconds`` are of ``clock``. ``usage`` is what each phase said that it cost; ``calls`` knows the rest.
    """

    def __init__(
        self,
        memory: Memory,
        calls: Calls,
        made_from: str,
        on_phase: Callable[[str, bool], None],
        most: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.calls = calls
        self.usage: dict[str, Usage] = {}
        self.seconds: dict[str, float] = {}
        self._memory = memory
        self._digest = made_from
        self._on_phase = on_phase
        self._left = most
        self._clock = clock

    def do(
        self, phase: str, stored_as: str, kind: type[Value], work: Callable[[], Value], is_timed: bool = True
    ) -> Value:
        """The phase's answer: the stored one, or what ``work`` gives, stored before this returns.

        The seconds of a phase that is not timed, as it waits for a person, count nowhere. Raises Rejected as ``work``
        did, also when it did so before; Paused where no more may be done now.
        """
        stored = self._memory.recall(stored_as, kind, self._digest)
        if stored is None:
            self._raise_remembered(phase)
            if self._left == 0:
                raise Paused(phase)
            self._on_phase(phase, True)
            began = self._clock()
            try:
                value = work()
            except Rejected as rejected:
                spent = self._clock() - began
                answer = Rejection(rejected.outcome, rejected.reason, rejected.why, rejected.usage)
                self._digest = self._memory.keep("rejected", answer, self._digest, spent).digest
                self.usage[phase] = rejected.usage
                self._count(phase, spent)
                raise
            spent = self._clock() - began if is_timed else 0.0
            stored = self._memory.keep(stored_as, value, self._digest, spent)
            if self._left is not None:
                self._left -= 1
        if is_timed:
            self.seconds[phase] = stored.seconds
        self._digest = stored.digest
        self.usage[phase] = getattr(stored.value, "usage", Usage())
        answer_value: Value = stored.value
        return answer_value

    def gather(
        self, phase: str, stored_as: str, begin: Value, owed: Callable[[Value], Callable[[], Value] | None]
    ) -> Value:
        """An answer that grows by one part at a time, each stored before the next begins: a killed phase goes on there.

        ``owed`` is asked what the answer so far still lacks: work that gives it with one part more, or None. It is
        asked for a part of ``begin`` at least. Raises Paused where no more may be done now.
        """
        stored = self._memory.recall(stored_as, type(begin), self._digest)
        value: Value = stored.value if stored else begin
        spent = stored.seconds if stored else 0.0
        worked = False
        while work := owed(value):
            if self._left == 0:
                raise Paused(phase)
            if stored:
                self.seconds[phase] = spent
            self._on_phase(phase, not worked)
            worked, began = True, self._clock()
            value = work()
            spent += self._clock() - began
            stored = self._memory.keep(stored_as, value, self._digest, spent)
        assert stored
        if worked and self._left is not None:
            self._left -= 1
        self.seconds[phase], self._digest = stored.seconds, stored.digest
        return value

    def has(self, *answers: tuple[str, type]) -> bool:
        """Whether the first answers of the iteration are stored, each made from the one before: (name, kind)."""
        digest = self._digest
        for stored_as, kind in answers:
            stored = self._memory.recall(stored_as, kind, digest)
            if stored is None:
                return False
            digest = stored.digest
        return True

    def forget(self, stored_as: str) -> None:
        """Drops a stored answer, and so all that were made from it: the next time it is asked for anew."""
        self._memory.forget(stored_as)

    def _raise_remembered(self, phase: str) -> None:
        stored = self._memory.recall("rejected", Rejection, self._digest)
        if stored is None:
            return
        self._digest = stored.digest
        self.seconds[phase] = stored.seconds
        self.usage[phase] = stored.value.usage
        raise Rejected(stored.value.outcome, stored.value.reason, stored.value.why, usage=stored.value.usage)

    def _count(self, phase: str, spent: float) -> None:
        self.seconds[phase] = spent
        if self._left is not None:
            self._left -= 1
