"""How much the metric moves when nothing changes: the fold that the loop decides by, over rows in place of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from goalseek.statistics.noise_state import NoiseState, after_baseline
from goalseek.statistics.scale import scale_of, spread
from goalseek.values import VerifierRun
from goalseek.views.report.rows import Row, number_at, rows_at, text_at

Band = tuple[float, float]


class Repeats:
    """What the runs of a climb tell of its noise. What a record lacks is read as not having been there."""

    def __init__(self) -> None:
        self.state = NoiseState()

    @property
    def differed(self) -> bool:
        """Whether the same code ever gave two numbers."""
        return self.state.differed

    @property
    def agreed(self) -> int:
        """How many repeats gave the same number to the last bit."""
        return self.state.agreed

    def add_iteration(self, row: Row) -> None:
        """The candidate's and the incumbent's runs of an iteration."""
        runs, outcome = tuple(_runs(row)), text_at(row, "outcome")
        if outcome == "baseline":
            self.state = after_baseline(runs)
        else:
            self.state = self.state.after_candidate(runs, outcome == "kept", number_at(row, "metric", "odds"))
        if outcome in ("baseline", "kept"):
            ruler = text_at(row, "digests", "ruler") or self.state.ruler
            self.state = replace(self.state, tree=text_at(row, "tree_hash"), ruler=ruler)

    def add_measurement(self, row: Row) -> None:
        """A run outside an iteration: a repeat where it is one of the incumbent."""
        value = number_at(row, "value")
        if value is not None:
            is_incumbent = (text_at(row, "tree"), text_at(row, "ruler")) == (self.state.tree, self.state.ruler)
            run = VerifierRun("incumbent" if is_incumbent else "other", value, 0, 0.0)
            self.state = self.state.with_runs((run,))

    def bands(self, direction: str, values: Sequence[float | None]) -> tuple[Band | None, ...]:
        """One sd of a single run below and above each value; None where the metric was not seen to move."""
        if not self.differed:
            return (None,) * len(values)
        sd_of = cache(lambda in_percent: spread(scale_of(direction, in_percent), self.state.pairs))
        return tuple(None if value is None else _band(value, sd_of, self.state.all_positive) for value in values)


def _band(value: float, sd_of: Callable[[bool], float], all_positive: bool) -> Band | None:
    in_percent = all_positive and value > 0
    sd = sd_of(in_percent)
    try:
        low, high = (value * math.exp(-sd), value * math.exp(sd)) if in_percent else (value - sd, value + sd)
    except OverflowError:
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _runs(row: Row) -> Iterator[VerifierRun]:
    for run in rows_at(row, "runs"):
        yield VerifierRun(text_at(run, "of"), number_at(run, "value"), 0, 0.0)
