"""What several values are worth together."""

from __future__ import annotations

from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the middle two. Raises IndexError for none."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def representative(values: Sequence[float]) -> float:
    """What a set of runs is worth: their median, without the first where there are more."""
    return median(values[1:] if len(values) > 1 else values)
