"""How much the metric moves when nothing changes, from what the records repeat."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from goalseek.noise_state import PAIRS_MOST
from goalseek.spread import Pair, scale_of, spread, successive
from goalseek.views.report.rows import Row, number_at, rows_at, text_at


@dataclass
class Repeats:
    """Successive runs of the same code under one ruler, the last 200 pairs, and the worst and best of all values."""

    pairs: deque[Pair] = field(default_factory=lambda: deque(maxlen=PAIRS_MOST))
    differed: bool = False
    agreed: int = 0
    all_positive: bool = True
    _measured: tuple[str, float] | None = None

    def add_iteration(self, row: Row) -> None:
        """The candidate's and the incumbent's runs of an iteration."""
        runs = rows_at(row, "runs")
        for of in ("candidate", "incumbent"):
            found = (number_at(run, "value") for run in runs if text_at(run, "of") == of)
            self._add([value for value in found if value is not None])

    def add_measurement(self, row: Row) -> None:
        """A run outside an iteration; where it follows one of the same tree, they are repeats."""
        value = number_at(row, "value")
        if value is None:
            return
        tree = text_at(row, "tree")
        before = [self._measured[1]] if self._measured and self._measured[0] == tree else []
        self._measured = (tree, value)
        self._add([*before, value])

    def band(self, direction: str, value: float) -> tuple[float, float] | None:
        """One sd of a single run below and above a value; None where the metric was not seen to move."""
        if not self.differed:
            return None
        in_percent = self.all_positive and value > 0
        sd = spread(scale_of(direction, in_percent), tuple(self.pairs))
        low, high = (value * math.exp(-sd), value * math.exp(sd)) if in_percent else (value - sd, value + sd)
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None

    def _add(self, values: list[float]) -> None:
        self.all_positive = self.all_positive and all(value > 0 for value in values)
        repeats = successive(values)
        self.pairs.extend(repeats)
        moved = sum(before != after for before, after in repeats)
        self.differed = self.differed or moved > 0
        self.agreed += len(repeats) - moved
