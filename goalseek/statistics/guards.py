"""Bounds on values: whether one breaks a guard or leaves its valid range, as a sentence."""

from collections.abc import Mapping, Sequence

from goalseek.humanize import format_distinct, format_number, parse_share
from goalseek.manifest.tables import Guard


def guard_violation(guard: Guard, value: float, baseline: float | None) -> str | None:
    """A sentence; None if every bound holds."""
    what, limit, more = "", 0.0, ""
    if guard.min is not None and value < guard.min:
        what, limit = "below its minimum,", guard.min
    elif guard.max is not None and value > guard.max:
        what, limit = "above its maximum,", guard.max
    elif baseline is None:
        return None
    elif guard.max_increase is not None and value > baseline + parse_share(guard.max_increase, baseline):
        what, limit, more = "up from", baseline, f" by more than {guard.max_increase}"
    elif guard.max_decrease is not None and value < baseline - parse_share(guard.max_decrease, baseline):
        what, limit, more = "down from", baseline, f" by more than {guard.max_decrease}"
    if not what:
        return None
    value_text, limit_text = format_distinct(value, limit, unit=guard.unit)
    return f"{guard.name} is {value_text}, {what} {limit_text}{more}"


def guard_warning(guards: Sequence[Guard], who: str, values: Mapping[str, float], baseline: Mapping[str, float]) -> str:
    """A sentence if ``who``, say the baseline, breaks a guard before any candidate; "" if all bounds hold."""
    for guard in guards:
        if guard.name in values and (why := guard_violation(guard, values[guard.name], baseline.get(guard.name))):
            return f"{who} breaks a guard: {why}; a candidate is kept only if it corrects this too"
    return ""


def range_violation(name: str, valid: tuple[float | None, float | None] | None, value: float) -> str | None:
    """A sentence; None if the value is valid. An end of None is open."""
    low, high = valid or (None, None)
    if valid is None or ((low is None or low <= value) and (high is None or value <= high)):
        return None
    limit = low if low is not None and value < low else high
    assert limit is not None
    return f"{name} is {format_distinct(value, limit)[0]}, outside its valid range, {format_range(valid)}"


def format_range(valid: tuple[float | None, float | None]) -> str:
    """``0 to 1``, ``at least 0``, ``at most 1``."""
    low, high = valid
    if low is not None and high is not None:
        return f"{format_number(low)} to {format_number(high)}"
    return f"at least {format_number(low)}" if low is not None else f"at most {format_number(high or 0.0)}"


def describe_bounds(guard: Guard, baseline: float | None) -> str:
    start = "the baseline" if baseline is None else f"the baseline's {format_number(baseline, guard.unit)}"
    texts = [
        f"at least {format_number(guard.min, guard.unit)}" if guard.min is not None else "",
        f"at most {format_number(guard.max, guard.unit)}" if guard.max is not None else "",
        f"at most {guard.max_increase} above {start}" if guard.max_increase is not None else "",
        f"at most {guard.max_decrease} below {start}" if guard.max_decrease is not None else "",
        f"valid: {format_range(guard.valid)}" if guard.valid else "",
    ]
    return ", ".join(filter(None, texts))
