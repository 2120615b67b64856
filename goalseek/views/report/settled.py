"""What was measured afresh: the baseline against the best, and the looks at the holdout."""

from __future__ import annotations

from dataclasses import dataclass

from goalseek.noise_words import percent
from goalseek.settle import Settled
from goalseek.views.harmless import one_line
from goalseek.views.report.rows import Row, at, number_at, text_at

_BEFORE = ("baseline", "before")
_AFTER = ("best", "after")


def settled_of(row: Row) -> Settled | None:
    """The result that a ``settle`` row tells; None where it has no difference."""
    difference = number_at(row, "difference")
    if difference is None:
        return None
    pairs = at(row, "pairs")
    count = len(pairs) if isinstance(pairs, list) else int(number_at(row, "pairs") or 0)
    before, after = _middle(row, _BEFORE), _middle(row, _AFTER)
    interval = at(row, "interval")
    found = None
    if isinstance(interval, list) and len(interval) == 2:
        ends = [number_at({"end": end}, "end") for end in interval]
        found = (ends[0], ends[1]) if ends[0] is not None and ends[1] is not None else None
    return Settled(count, before or 0.0, after or 0.0, difference, found, _in_percent(row, before, after, difference))


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


def _middle(row: Row, names: tuple[str, ...]) -> float | None:
    """A median under one of these names: a number, or an object with a value."""
    for name in names:
        for place in ((name,), (name, "value"), (name, "median")):
            value = number_at(row, *place)
            if value is not None:
                return value
    return None


def _in_percent(row: Row, before: float | None, after: float | None, difference: float) -> bool:
    """Whether the difference is a share: as the row says it, else by which of the two it is nearer to."""
    told = at(row, "in_percent")
    if isinstance(told, bool):
        return told
    if not before or after is None:
        return False
    apart = abs(after - before)
    return abs(apart / abs(before) - abs(difference)) <= abs(apart - abs(difference))
