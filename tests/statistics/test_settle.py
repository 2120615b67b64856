"""What is claimed in the end, against values worked out elsewhere."""

import random

import pytest

from goalseek.statistics.intervals import settle, student_quantile


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    [(0.975, 1, 12.7062047), (0.975, 4, 2.7764451), (0.95, 9, 1.8331129), (0.025, 4, -2.7764451), (0.5, 3, 0.0)],
)
def test_quantiles_of_students_distribution_as_tables_have_them(probability: float, freedom: int, value: float) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(value, abs=1e-6)


def test_the_difference_and_its_interval_are_in_the_metrics_units_or_in_percent() -> None:
    settled = settle("maximize", [(0.0, 1.0), (-1.0, 1.0), (0.0, 3.0), (0.0, 2.0), (-1.0, 1.0)])
    assert (settled.before, settled.after, settled.difference, settled.in_percent) == (0, 1, 2, False)
    reach = 2.7764451 * (0.5 / 5) ** 0.5
    assert settled.interval == pytest.approx((2 - reach, 2 + reach), abs=1e-6)
    assert settled.is_sure
    assert settled.in_words() == "2 better (95% interval 1.122 to 2.878), 5 pairs"
    settled = settle("minimize", [(100.0, 90.0), (10.0, 9.0), (1.0, 0.9)])
    assert settled.difference == pytest.approx(0.1)
    assert settled.interval == pytest.approx((0.1, 0.1))
    assert settle("maximize", [(100.0, 110.0)]).difference == pytest.approx(0.1)
    worse = settle("maximize", [(100.0, 90.0)])
    assert (worse.interval, worse.is_sure, worse.in_words()) == (None, False, "10% worse, 1 pair")


def test_equal_pairs_are_no_difference_and_an_interval_of_no_width_is_said_to_be_exact() -> None:
    settled = settle("minimize", [(3.0, 3.0)] * 5)
    assert (settled.difference, settled.interval, settled.is_sure) == (0, (0, 0), False)
    assert settled.in_words().startswith("no difference")
    assert settle("minimize", [(10, 9)] * 2).in_words() == "10% better (exactly), 2 pairs"
    assert settle("maximize", [(-2, 1)] * 3).in_words() == "3 better (exactly), 3 pairs"
    assert settle("minimize", [(7, 7)] * 2).in_words() == "no difference (exactly), 2 pairs"
    narrow = settle("minimize", [(10, 5.00001), (10, 5)]).in_words()
    assert narrow == "50% better (95% interval 50% to 50%, rounded), 2 pairs"
    with pytest.raises(ValueError, match="nothing was measured"):
        settle("minimize", [])


def test_nineteen_of_twenty_intervals_hold_the_truth() -> None:
    draw = random.Random(8)
    held = 0
    for _ in range(1000):
        pairs = [(100 * (1 + 0.01 * draw.gauss(0, 1)), 95 * (1 + 0.01 * draw.gauss(0, 1))) for _ in range(5)]
        interval = settle("minimize", pairs).interval
        assert interval
        held += interval[0] <= 0.05 <= interval[1]
    assert 925 <= held <= 975
