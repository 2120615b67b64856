"""What a killed call is charged: the larger of what it reported and the median call."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import iteration

from goalseek.ledger.records import IterationRecord
from goalseek.proposal.usage import MEDIAN_ITERATIONS, killed_call_usage, median_call
from goalseek.values import Usage

COUNTS = st.integers(0, 10**6)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, st.none() | st.floats(0, 100))


def used(usage: Usage) -> IterationRecord:
    return iteration(1, 1, "kept", "better", usage=usage)


@given(USAGES, USAGES)
def test_a_killed_call_is_charged_no_less_than_it_reported_and_than_is_usual(reported: Usage, usual: Usage) -> None:
    charged = killed_call_usage(reported, usual)
    for name in ("input_tokens", "cached_tokens", "output_tokens"):
        assert getattr(charged, name) == max(getattr(reported, name), getattr(usual, name))
    costs = [cost for cost in (reported.cost_usd, usual.cost_usd) if cost is not None]
    assert charged.cost_usd == max(costs, default=None)
    assert charged.estimated == (replace(charged, estimated=False) != reported)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=MEDIAN_ITERATIONS), st.integers(1, 2))
def test_the_usual_call_is_the_median_of_those_that_reported(counts: list[int], calls_each: int) -> None:
    told = [used(Usage(count, 0, 1, count / 10)) for count in counts]
    silent = [used(Usage()), used(Usage(10**9, estimated=True))]
    usual = median_call([*silent, *told], calls_each)
    middle = sorted(counts)
    low, high = middle[(len(middle) - 1) // 2], middle[len(middle) // 2]
    assert low <= usual.input_tokens * calls_each <= high + calls_each
    assert usual.cost_usd == pytest.approx((low + high) / 20 / calls_each)
    assert not usual.estimated


def test_only_the_newest_count_and_where_nobody_reported_nothing_is_usual() -> None:
    assert median_call([used(Usage(5))] * MEDIAN_ITERATIONS + [used(Usage(10**6))] * 99, 1) == Usage(5)
    assert median_call([used(Usage())], 1) == median_call([], 2) == Usage()
    assert killed_call_usage(Usage(), Usage()) == Usage()
