"""Since when something goes on, in local time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from goalseek.humanize import format_since

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One hour east of Greenwich."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("timestamp", "told"),
    [
        ("2026-11-21T11:54:40Z", "for 5m 20s, since 12:54"),
        ("2026-11-21T11:59:57.123Z", "for 2s, since 12:59"),
        ("2026-11-20T11:00:00Z", "for 1d 1h, since 2026-11-20 12:00"),
        ("2026-11-21T13:00:00Z", "for 0s, since 14:00"),
        ("2026-11-21T11:59:00Z", "for 1m 00s, since 12:59"),
        ("2026-11-21T11:54:40", "since 2026-11-21T11:54:40"),
        ("None", "since None"),
    ],
)
def test_it_is_told_as_people_say_it(timestamp: str, told: str) -> None:
    assert format_since(timestamp, NOW) == told
