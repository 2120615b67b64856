"""To be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goalseek.humanize import format_number, share_of
from goalseek.manifest.tables import Guard


def guard_violation(guard: Guard, value: float, baseline: float | None) -> str | None:
    """Which bound of the guard the value breaks, in words; None where it holds."""
    shown = f"{guard.name} is {format_number(value)}"
    if guard.min is not None and value < guard.min:
        return f"{shown}, below its minimum, {format_number(guard.min)}"
    if guard.max is not None and value > guard.max:
        return f"{shown}, above its maximum, {format_number(guard.max)}"
    if baseline is None:
        return None
    if guard.max_increase is not None and value > baseline + share_of(guard.max_increase, baseline):
        return f"{shown}, up from {format_number(baseline)} by more than {guard.max_increase}"
    if guard.max_decrease is not None and value < baseline - share_of(guard.max_decrease, baseline):
        return f"{shown}, down from {format_number(baseline)} by more than {guard.max_decrease}"
    return None


def guard_warning(guards: Sequence[Guard], who: str, values: Mapping[str, float], baseline: Mapping[str, float]) -> str:
    """What a person should know where ``who`` breaks a guard before anything is tried; "" where every bound holds."""
    for guard in guards:
        if guard.name in values and (why := guard_violation(guard, values[guard.name], baseline.get(guard.name))):
            return f"{who} breaks a guard: {why}; no candidate is kept that does not mend that too"
    return ""


def range_violation(name: str, valid: tuple[float | None, float | None] | None, value: float) -> str | None:
    """Why the value is not valid, in words; None where it is. A side of None is open."""
    low, high = valid or (None, None)
    if (low is None or low <= value) and (high is None or value <= high):
        return None
    if low is not None and high is not None:
        told = f"{format_number(low)} to {format_number(high)}"
    else:
        told = f"at least {format_number(low)}" if low is not None else f"at most {format_number(high or 0.0)}"
    return f"{name} is {format_number(value)}, outside its valid range, {told}"
