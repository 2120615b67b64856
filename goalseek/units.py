"""Durations, sizes, percentages: the words people write in a manifest, and the numbers behind them."""

from __future__ import annotations

import re

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def seconds(text: str | int | float) -> float:
    """``90``, ``"90s"``, ``"30m"``, ``"8h"`` or ``"1h30m"`` in seconds. Raises ValueError otherwise."""
    if not isinstance(text, str):
        if isinstance(text, bool) or not isinstance(text, int | float) or not 0 < text < float("inf"):
            raise ValueError('a duration is a positive number of seconds, or a text such as "90s", "30m", "8h"')
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if not parts or not re.fullmatch(r"(?:\d++(?:\.\d++)?\s*+[a-z]*+\s*+)+", text):
        raise ValueError(f'{text!r} is not a duration; write seconds, or a text such as "90s", "30m", "8h"')
    if any(unit not in _SECONDS for _, unit in parts):
        raise ValueError(f"{text!r} is not a duration; its units are s, m, h and d")
    total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not 0 < total < float("inf"):
        raise ValueError("a duration is more than zero, and has an end")
    return total


def size(text: str | int) -> int:
    """``2048``, ``"512KiB"`` or ``"2GiB"`` in bytes. Raises ValueError otherwise."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text) if isinstance(text, str) else None
    if not match or match[2] not in _BYTES:
        raise ValueError(f'{text!r} is not a size; write bytes, or a text such as "512KiB", "2GiB"')
    return int(float(match[1]) * _BYTES[match[2]])


def share_of(text: str | int | float, whole: float) -> float:
    """An absolute amount, or ``"5%"`` of the magnitude of ``whole``. Raises ValueError otherwise."""
    if isinstance(text, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
        if not match:
            raise ValueError(f'{text!r} is neither a number nor a percentage such as "0.5%"')
        return abs(whole) * float(match[1]) / 100
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise ValueError('a number, or a percentage such as "0.5%"')
    return float(text)


def in_words(duration: float) -> str:
    """A duration as people say it: ``0.4s``, ``12s``, ``3m 20s``, ``2h 05m``, ``1d 4h``."""
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


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 file``, ``2 files``; ``plural`` where it takes more than an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def number(value: float) -> str:
    """A number for people: six significant digits, no trailing zeros."""
    return f"{value:.6g}"


def apart(*values: float) -> tuple[str, ...]:
    """Numbers for people that stand side by side: as many digits as it takes to tell those apart that differ."""
    for digits in (6, 8, 10, 12, 15):
        told = tuple(f"{value:.{digits}g}" for value in values)
        if len(set(told)) == len(set(values)):
            return told
    return tuple(f"{value!r}" for value in values)
