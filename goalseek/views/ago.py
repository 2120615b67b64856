"""How long ago something was, as people say it."""

from __future__ import annotations

from datetime import datetime

_STEPS = ((60, 1, "s", "s"), (3600, 60, "min", "m"), (86400, 3600, "h", "h"), (30 * 86400, 86400, "d", "d"))


def ago(timestamp: str, now: datetime) -> str:
    """``12 s ago``, ``5 min ago``, ``2 h ago``, ``3 d ago``; the local day where it is more than thirty days."""
    moment = datetime.fromisoformat(timestamp)
    seconds = max((now - moment).total_seconds(), 0)
    for below, unit, name, _ in _STEPS:
        if seconds < below:
            return f"{int(seconds // unit)} {name} ago"
    return moment.astimezone().strftime("%Y-%m-%d")


def ago_in_short(timestamp: str, now: datetime) -> str:
    """``12s``, ``5m``, ``2h``, ``3d``, ``20w``: at most four letters for nineteen years."""
    seconds = max((now - datetime.fromisoformat(timestamp)).total_seconds(), 0)
    for below, unit, _, letter in _STEPS:
        if seconds < below:
            return f"{int(seconds // unit)}{letter}"
    return f"{int(seconds // (7 * 86400))}w"
