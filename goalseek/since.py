"""Since when something goes on, as people say it."""

from __future__ import annotations

from datetime import datetime

from goalseek.units import in_words


def since(timestamp: str, now: datetime) -> str:
    """``for 5m 20s, since 14:03``: local time, with the day where it was another one; a text that is no time as it is.

    ``now`` is an aware time.
    """
    try:
        began = datetime.fromisoformat(timestamp)
        seconds = max(int((now - began).total_seconds()), 0)
    except (TypeError, ValueError):
        return f"since {timestamp}"
    local = began.astimezone()
    is_today = local.date() == now.astimezone().date()
    told = f"{seconds}s" if seconds < 60 else in_words(float(seconds))
    return f"for {told}, since {local:{'%H:%M' if is_today else '%Y-%m-%d %H:%M'}}"
