"""What was measured afresh: the baseline against the best, and the looks at the holdout."""

from __future__ import annotations

from dataclasses import dataclass

from goalseek.humanize import percent
from goalseek.statistics.intervals import Settled
from goalseek.views.harmless import one_line
from goalseek.views.report.rows import Row, at, list_at, number_at, text_at


def settled_of(row: Row) -> Settled | None:
    """The result that a ``settle`` row tells; None where it has no difference."""
    difference = number_at(row, "difference")
    if difference is None:
        return None
    before, after = number_at(row, "baseline") or 0.0, number_at(row, "best") or 0.0
    ends = [number_at({"end": end}, "end") for end in list_at(row, "interval")]
    low, high = ends if len(ends) == 2 else (None, None)
    interval = (low, high) if low is not None and high is not None else None
    pairs = len(list_at(row, "pairs"))
    return Settled(pairs, before, after, difference, interval, at(row, "in_percent") is True)


def has_medians(settled: Settled) -> bool:
    """Whether the medians of both are known."""
    return bool(settled.before or settled.after)


@dataclass(frozen=True)
class Look:
    """One look at the holdout: of the "baseline" or the "best", kept in ``iteration``, or "".

    Where it has no ``value`` it was begun only, or failed, and ``why`` says how. ``gap`` is in the metric's units.
    """

    number: int
    of: str
    iteration: int | None
    value: float | None
    gap: float | None
    why: str = ""


def look_of(row: Row) -> Look:
    """The look that a ``holdout`` row tells of."""
    iteration = number_at(row, "iteration")
    return Look(
        int(number_at(row, "look") or 0),
        text_at(row, "of") if text_at(row, "of") in ("baseline", "best") else "",
        None if iteration is None else int(iteration),
        number_at(row, "value"),
        number_at(row, "gap"),
        one_line(text_at(row, "why"), 300) if text_at(row, "reason") == "failed" else "",
    )


def reach(settled: Settled) -> str:
    """``1.1% ± 0.3% better``: the difference, and half the width of its interval."""
    size = percent if settled.in_percent else "{:.4g}".format
    if settled.difference == 0 and not settled.interval:
        return "no difference"
    told = size(abs(settled.difference))
    if settled.interval:
        told += f" ± {size((settled.interval[1] - settled.interval[0]) / 2)}"
    return f"{told} {'worse' if settled.difference < 0 else 'better'}"
