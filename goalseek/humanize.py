"""Quantities as people write and read them: durations, sizes, shares, numbers, odds, ages, titles and short lists."""

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from goalseek.values import Usage

TITLE_LIMIT = 200
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
for _name, _unit in {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d"}.items():
    _SECONDS |= dict.fromkeys((_name, f"{_name}s"), _SECONDS[_unit])
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def parse_duration(text: str | int | float) -> float:
    """``90``, ``"90s"``, ``"30m"``, ``"8 hours"`` or ``"1h30m"`` in seconds. Raises ValueError otherwise."""
    if not isinstance(text, str):
        if isinstance(text, bool) or not isinstance(text, int | float) or not 0 < text < float("inf"):
            raise ValueError('a duration is a positive number of seconds, or a text such as "90s", "30m", "8h"')
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text := text.strip().lower())
    if not parts or not re.fullmatch(r"(?:\d++(?:\.\d++)?\s*+[a-z]*+\s*+)+", text):
        raise ValueError(f'{text!r} is not a duration; write seconds, or a text such as "90s", "30m", "8h"')
    if any(unit not in _SECONDS for _, unit in parts):
        raise ValueError(f"{text!r} is not a duration; its units are s, m, h and d")
    total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not 0 < total < float("inf"):
        raise ValueError("a duration is positive and finite")
    return total


def parse_size(text: str | int) -> int:
    """``2048``, ``"512KiB"`` or ``"2GiB"`` in bytes. Raises ValueError otherwise."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text) if isinstance(text, str) else None
    if not match or match[2] not in _BYTES:
        raise ValueError(f'{text!r} is not a size; write bytes, or a text such as "512KiB", "2GiB"')
    return int(float(match[1]) * _BYTES[match[2]])


def parse_share(text: str | int | float, whole: float) -> float:
    """An absolute amount, or ``"5%"`` of the magnitude of ``whole``. Raises ValueError otherwise."""
    if isinstance(text, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
        if not match:
            raise ValueError(f'{text!r} is neither a number nor a percentage such as "0.5%"')
        return abs(whole) * float(match[1]) / 100
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise ValueError('a number, or a percentage such as "0.5%"')
    return float(text)


def format_duration(duration: float) -> str:
    """``0.4s``, ``12s``, ``3m 20s``, ``2h 05m``, ``1d 4h``."""
    if duration < 9.95:
        return f"{duration:.1f}s"
    whole = round(duration)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def time_to_go(remaining: int, seconds: float) -> str:
    """``; 3 to go, about 2m 10s``, with ``seconds`` for each; "" if none remain."""
    return f"; {remaining} to go, about {format_duration(remaining * seconds)}" if remaining else ""


def format_moment(seconds: float = 0.0) -> str:
    """So many seconds from now, in UTC: ``2026-01-01T03:00:00Z``; at most the last moment that a date has."""
    try:
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
    except OverflowError:
        moment = datetime.max.replace(tzinfo=UTC)
    return moment.isoformat("T", "seconds").replace("+00:00", "Z")


def pluralize(count: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_number(value: float, unit: str = "", digits: int = 6, sign: str = "") -> str:
    """Six significant digits, no trailing zeros; from a million on ``222.271 M``. ``sign`` "+" marks a gain too."""
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M")) if abs(value) < 1e15 else ():
        if abs(value) >= size * 0.9999995:  # rounds to one of them
            return f"{value / size:{sign}.{max(digits, 6)}g}{letter} {unit}".rstrip()
    return f"{float(f'{value:.{digits}g}'):{sign}.{max(digits, 6)}g} {unit}".rstrip()


def format_dollars(amount: float) -> str:
    """``$4.10``; of less than a cent two significant digits, ``$0.0042``."""
    if not 0 < amount < 0.01:
        return f"${amount:,.2f}"
    return f"${amount:.{1 - math.floor(math.log10(amount))}f}"


def format_cost(usage: Usage) -> str:
    """``$4.10``, ``about $4.10`` if estimated or by subscription, ``at least $4.10`` if partial, else ``unknown``."""
    parts = []
    if usage.cost_usd is not None and (usage.cost_usd or usage.about_usd is None):
        parts.append(f"{'about ' if usage.estimated else ''}{format_dollars(usage.cost_usd)}")
    if usage.about_usd is not None:
        parts.append(f"about {format_dollars(usage.about_usd)} by subscription")
    return at_least(usage) + (" and ".join(parts) or "unknown")


def at_least(usage: Usage) -> str:
    """``at least `` before dollars that are not all that was paid; else ""."""
    return "at least " if usage.cost_is_partial else ""


def format_distinct(*values: float, unit: str = "") -> tuple[str, ...]:
    """With as many digits as different ones need to look different."""
    for digits in (6, 8, 10, 12, 15):
        texts = tuple(format_number(value, unit, digits) for value in values)
        if len(set(texts)) == len(set(values)):
            return texts
    return tuple(f"{value!r} {unit}".rstrip() for value in values)


def better_or_worse(gain: float) -> str:
    return "worse" if gain < 0 else "better"


_MAX_ODDS = 9  # the odds are an estimate, and as good as these after a few runs already


def format_gain(gain: float, whole: float, in_percent: bool, unit: str = "") -> str:
    """Its size: in percent of ``whole``, or in the metric's units."""
    return format_percent(abs(gain / whole)) if in_percent and whole else format_number(abs(gain), unit)


def format_percent(share: float) -> str:
    """A share (1 is the whole): ``3.1%``, ``-12%``, ``0.04%``; of ten or more as a multiple."""
    size = abs(share)
    if size >= 10:
        return (f"{share:,.0f}" if 100 <= size < 1e6 else f"{share:.3g}") + "×"  # noqa: RUF001 - times
    return f"{100 * share:.0f}%" if size >= 1 else f"{100 * share:.{2 if size < 0.1 else 3}g}%"


def format_odds(odds: float | None) -> str:
    """``odds 4:1``, ``odds 1:3``, ``odds > 9:1``, ``odds < 1:9``; "" for None."""
    if odds is None:
        return ""
    larger = odds if odds >= 1 else 1 / odds if odds > 0 else float("inf")
    text = f"{min(larger, _MAX_ODDS):.2g}"
    capped = "" if larger <= _MAX_ODDS else "> " if odds > 1 else "< "
    return f"odds {capped}{text}:1" if odds >= 1 else f"odds {capped}1:{text}"


_AGE_UNITS = ((60, 1, "s", "s"), (3600, 60, "min", "m"), (86400, 3600, "h", "h"), (30 * 86400, 86400, "d", "d"))


def format_age(timestamp: str, now: datetime, is_short: bool = False) -> str:
    """``12 s ago``, ``5 min ago``, ``2 h ago``, ``3 d ago``; after thirty days the date, in local time.

    If ``is_short``, ``12s``, ``5m``, ``2h``, ``3d``, ``20w``: at most four letters for nineteen years.
    """
    moment = datetime.fromisoformat(timestamp)
    seconds = max((now - moment).total_seconds(), 0)
    for below, unit, name, letter in _AGE_UNITS:
        if seconds < below:
            count = int(seconds // unit)
            return f"{count}{letter}" if is_short else f"{count} {name} ago"
    return f"{int(seconds // (7 * 86400))}w" if is_short else f"{moment.astimezone():%Y-%m-%d}"


def format_since(timestamp: str, now: datetime) -> str:
    """``since 14:03``: in local time, with the date of another day; a text that is no time stays. ``now`` is aware."""
    try:
        local = datetime.fromisoformat(timestamp).astimezone()
    except (TypeError, ValueError):
        return f"since {timestamp}"
    is_today = local.date() == now.astimezone().date()
    return f"since {local:{'%H:%M' if is_today else '%Y-%m-%d %H:%M'}}"


def first_sentence(page: str) -> str:
    """Of a Markdown text, without its headings."""
    blocks = page.split("\n\n")
    paragraphs = ([line.strip() for line in block.splitlines() if line[:1] != "#"] for block in blocks)
    first, _, _ = " ".join(next(filter(None, paragraphs), [])).partition(". ")
    return first.removesuffix(".") + "."


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``did you mean 'iterations'?``; "" if no name is near."""
    import difflib

    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.7)
    return f"did you mean {near[0]!r}?" if near else ""


MAX_NAMES = 5


def clean_title(line: str, limit: int = TITLE_LIMIT) -> str:
    """One line of printable text, cut to ``limit`` characters."""
    text = re.sub(r"\s+", " ", "".join(char if char.isprintable() else " " for char in line)).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def abbreviate(names: Sequence[str], separator: str = ", ") -> str:
    """``a, b, c, d, e and 3 more``."""
    rest = len(names) - MAX_NAMES
    return separator.join(names[:MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def format_ranges(numbers: Sequence[int]) -> str:
    """Of ascending numbers: "0-4, 7"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ", ".join("-".join(map(str, bounds)) for bounds in ranges)
