"""The seconds that phases took and no record has yet, kept where a kill leaves them: they count for the next record.

Whatever came of them: an answer that is stored, one that is not believed any more, or none, as the tool was killed or
interrupted. They are written while a phase is at work, so a kill loses half a second of them, and a machine that was
off adds none. A new run begins without them.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from goalseek.memory import Memory
from goalseek.standing import Standing

BEAT_SECONDS = 0.5
_NAME = "seconds"


@dataclass(frozen=True)
class Seconds:
    """By phase."""

    phases: dict[str, float] = field(default_factory=dict)


class PhaseSeconds:
    """What the next record has to tell. ``memory`` binds it to that; ``clock`` counts active seconds."""

    def __init__(self, memory: Memory, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._memory = memory
        stored = memory.recall(_NAME, Seconds, _NAME)
        self.phases: dict[str, float] = dict(stored.value.phases) if stored else {}
        self._at_work = ""
        self._counted_to = 0.0

    @contextlib.contextmanager
    def of(self, phase: str) -> Iterator[None]:
        """Counts this block for the phase, however it ends; it is written before this returns."""
        self._at_work, self._counted_to = phase, self.clock()
        try:
            yield
        finally:
            self._count()
            self._at_work = ""

    def beat(self) -> None:
        """Writes what the phase at work took until now, when it is time."""
        if self._at_work and self.clock() - self._counted_to >= BEAT_SECONDS:
            self._count()

    def forget(self) -> None:
        """Removes what is stored: it is recorded."""
        self._memory.forget(_NAME)

    def _count(self) -> None:
        now = self.clock()
        self.phases[self._at_work] = self.phases.get(self._at_work, 0.0) + now - self._counted_to
        self._counted_to = now
        self._memory.note(_NAME, Seconds(self.phases), _NAME)


def settle_key(standing: Standing) -> str:
    """Names the next run of a settling."""
    return f"settle {len(standing.settling)} after {standing.last.seal if standing.last else ''}"


def holdout_key(standing: Standing) -> str:
    """Names the last look at the holdout, and whether it came to an end."""
    reason = next((look.reason for look in standing.holdout if look.look == standing.looks), "")
    return f"holdout {standing.looks} {reason}"


def all_unrecorded(runs: Path, own: Path, standing: Standing, run_id: str) -> float:
    """The seconds that this run has spent since the last record, in the iteration under way and outside of it."""
    folder, follows = runs / f"{standing.last_iteration + 1:04d}", standing.last.seal if standing.last else ""
    outside = (unrecorded_seconds(own, run_id, key) for key in (settle_key(standing), holdout_key(standing)))
    return unrecorded_seconds(folder, run_id, follows) + sum(outside)


def unrecorded_seconds(folder: Path, run_id: str, follows: str) -> float:
    """All seconds of this run that are stored there for what follows this.

    For whoever only looks: the seal is not checked.
    """
    try:
        stored = json.loads((folder / f"{_NAME}.json").read_text())
        if (stored["run_id"], stored["follows"]) != (run_id, follows):
            return 0.0
        total = math.fsum(stored["value"]["phases"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0.0
    return total if math.isfinite(total) else 0.0
