"""Durations, sizes, percentages, numbers and moments as people write them."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalseek import humanize

READ = {
    humanize.parse_duration: {
        90: 90.0, 0.5: 0.5, "90": 90.0, "90s": 90.0, "250ms": 0.25, "30m": 1800.0, "30min": 1800.0, "8h": 28800.0,
        "1.5h": 5400.0, "1h30m": 5400.0, "1h 30m": 5400.0, "2d": 172800.0, "90 s": 90.0, "8 hours": 28800.0,
        "8hours": 28800.0, "1 Hour 30 minutes": 5400.0, " 1 day ": 86400.0, "3 secs": 3.0,
    },
    humanize.parse_size: {
        0: 0, 2048: 2048, "2048": 2048, "3B": 3, "2KB": 2000, "512KiB": 524288, "2GiB": 2**31, "1.5MiB": 1572864,
        "1 TB": 10**12,
    },
    humanize.format_duration: {
        0.4: "0.4s", 9.94: "9.9s", 9.99: "10s", 12: "12s", 59.6: "1m 00s", 200: "3m 20s", 3599.7: "1h 00m",
        7500: "2h 05m", 86399.9: "1d 0h", 100800: "1d 4h",
    },
    humanize.format_number: {
        222271355: "222.271 M", 999_999_999: "1 G", 999_999.4: "999999", 999_999.7: "1 M", -1.5e9: "-1.5 G",
        2e15: "2e+15",
    },
}  # fmt: skip
REFUSED: dict[Callable[..., object], tuple[Any, ...]] = {
    humanize.parse_duration: (
        "", "none", "soon", "5 parsecs", "-5s", "5s-", "0", "0s", 0, -1, True, float("inf"), float("nan"), "1e3",
        "1 hourss", "1" * 26 + "!",
    ),
    humanize.parse_size: ("", "many", "5 kilos", "-5", -1, True, 1.5, "1e3", None),
    lambda share: humanize.parse_share(share, 1.0): ("5", "%", "-5%", "five%", "5%%", ""),
}  # fmt: skip


@pytest.mark.parametrize("function", READ, ids=lambda function: function.__name__)
def test_it_is_read_and_told_as_people_write_it(function: Callable[[Any], object]) -> None:
    rows: dict[Any, object] = READ[function]  # type: ignore[index]
    assert {given: function(given) for given in rows} == rows


def test_what_is_none_is_refused_at_once() -> None:
    began = time.monotonic()
    for function, texts in REFUSED.items():
        for written in texts:
            with pytest.raises(ValueError, match=r"duration|size|percentage"):
                function(written)
    assert time.monotonic() - began < 0.5


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(1, 59))
def test_the_parts_of_a_duration_add_up(days: int, hours: int, minutes: int, seconds: int) -> None:
    expected = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert humanize.parse_duration(f"{days}d{hours}h{minutes}m{seconds}s") == expected


@given(st.floats(0, 1e8))
def test_a_duration_in_words_is_right_to_the_units_that_it_shows(duration: float) -> None:
    words = humanize.format_duration(duration)
    coarse = 0.05 if duration < 10 else 0.5 if duration < 3600 else 60.5 if duration < 86400 else 3600.5
    total = sum(float(word[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[word[-1]] for word in words.split())
    assert abs(total - duration) <= coarse + 1e-6


@given(st.floats(0, 1e3), st.floats(-1e6, 1e6))
def test_a_share_is_of_the_magnitude_and_never_negative(percent: float, whole: float) -> None:
    share = humanize.parse_share(f"{percent:.3f}%", whole)
    assert share == pytest.approx(abs(whole) * percent / 100, rel=1e-2, abs=1e1)
    assert share == humanize.parse_share(f" {percent:.3f} %", -whole) >= 0
    assert humanize.parse_share(0.25, whole) == 0.25


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_for_people_is_right_to_six_digits_or_four_of_millions(value: float) -> None:
    text = humanize.format_number(value)
    number, _, letter = text.partition(" ")
    factor = {"": 1, "M": 1e6, "G": 1e9, "T": 1e12}[letter]
    assert float(number) * factor == pytest.approx(value, rel=1e-3 if letter else 1e-5)
    assert len(text) <= 13
    assert humanize.format_number(abs(value), "ops", sign="+") == f"+{text.removeprefix('-')} ops"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((3.41, 3.37), ("3.41", "3.37")),
        ((123456.7891, 123456.7892), ("123456.7891", "123456.7892")),
        ((2.5, 2.5), ("2.5", "2.5")),
        ((222271355.0, 222269421.0), ("222.271 M", "222.269 M")),
        ((1.0, 1.0 + 2**-52), ("1.0", "1.0000000000000002")),
        ((), ()),
    ],
)
def test_numbers_side_by_side_are_told_apart(values: tuple[float, ...], told: tuple[str, ...]) -> None:
    assert humanize.format_distinct(*values) == told


def test_one_of_a_thing_is_singular() -> None:
    assert [humanize.pluralize(count, "file") for count in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One hour east of Greenwich."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_a_moment_is_told_in_local_time() -> None:
    told = {
        "2026-11-21T11:54:40Z": "since 12:54",
        "2026-11-21T11:59:57.123Z": "since 12:59",
        "2026-11-20T11:00:00Z": "since 2026-11-20 12:00",
        "2026-11-21T13:00:00Z": "since 14:00",
        "yesterday": "since yesterday",
        "None": "since None",
    }
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    assert {timestamp: humanize.format_since(timestamp, now) for timestamp in told} == told
