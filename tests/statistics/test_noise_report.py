"""The arithmetic of a noise report, against values worked out elsewhere."""

import random

import pytest
from pages import GUIDE

from goalseek.statistics.intervals import settle, student_quantile
from goalseek.statistics.noise_report import (
    POWER,
    chi_squared_quantile,
    expected_false_keeps,
    false_gain,
    noise_report,
    repeats_for,
    robust_sd,
    sd_interval,
    skewness,
)

MIXED = [(0.0, 1.0), (-1.0, 1.0), (0.0, 3.0), (0.0, 2.0), (-1.0, 1.0)]
UNSURE = [(1.0, 0.5), (1.0, 40.0), (1.0, 30.0)]


def test_what_greedy_does_and_the_repeats_that_a_gain_needs() -> None:
    assert expected_false_keeps(0) == 0
    assert expected_false_keeps(3) == pytest.approx(1 / 2 + 1 / 3 + 1 / 4)
    assert expected_false_keeps(60) == pytest.approx(3.6963, abs=1e-3)
    assert false_gain(2.0, 99) == pytest.approx(2 * 2.5076, abs=0.03)
    assert false_gain(1.0, 1) == pytest.approx(0.5642, abs=0.03)
    assert false_gain(1.0, 0) == 0
    assert repeats_for(1.0, 0.5) == 9
    assert repeats_for(1.0, 3.0) == 1
    assert repeats_for(0.0, 1.0) == 1
    with pytest.raises(ValueError, match="more than zero"):
        repeats_for(1.0, 0.0)
    assert sd_interval(1.0, 10) == pytest.approx(((9 / 16.918978) ** 0.5, (9 / 3.325113) ** 0.5), abs=1e-5)


def test_known_values_have_their_sd_skew_outliers_and_drift() -> None:
    assert robust_sd([1, 2, 3, 4, 100]) == pytest.approx(1.4826)
    assert robust_sd([5, 5, 5, 9]) == pytest.approx(2.0)
    assert robust_sd([5, 5]) == 0
    assert skewness([0, 0, 3]) == pytest.approx(0.7071068)
    assert skewness([-1, 0, 1]) == 0
    report = noise_report("minimize", [2.0] * 10)
    assert report.deterministic and (report.skew, report.drift) == (None, None)
    assert (report.middle, report.sd, report.interval, report.outliers) == (2, 0, (0, 0), ())
    values = [-1.0, 1.0, 0.0, 2.0, -2.0, 1.0, -1.0, 0.0, 60.0]
    report = noise_report("minimize", values)
    assert (report.in_percent, report.outliers) == (False, (60.0,))
    assert report.skew is not None and report.skew > 1
    assert noise_report("maximize", values).skew == pytest.approx(-report.skew)
    falling = [float(-place) for place in range(10)]
    for direction, drift in (("minimize", 9), ("maximize", -9)):
        assert noise_report(direction, falling).drift == pytest.approx(drift)
    with pytest.raises(ValueError, match="two runs"):
        noise_report("minimize", [1.0])


def test_a_share_of_the_value_where_all_are_positive() -> None:
    draw = random.Random(3)
    report = noise_report("minimize", [200 * (1 + 0.02 * draw.gauss(0, 1)) for _ in range(200)])
    assert report.in_percent and not report.deterministic
    assert report.sd == pytest.approx(0.02, rel=0.2)
    assert report.interval[0] < report.sd < report.interval[1]
    assert report.sd_in_units == pytest.approx(4, rel=0.2)
    assert report.drift is None


def test_the_power_is_the_guides() -> None:
    page = (GUIDE / "noise.md").read_text()
    effects = " | ".join(f"{effect:g}" for effect, _ in POWER)
    shares = " | ".join(f"{share:.0%}" for _, share in POWER)
    assert f"in sd of one run | {effects} |" in page and f"is kept, about | {shares} |" in page


def test_quantiles_are_those_of_the_tables() -> None:
    for value, freedom, chi_squared in ((0.95, 9, 16.918978), (0.05, 9, 3.325113), (0.95, 1, 3.841459)):
        assert chi_squared_quantile(value, freedom) == pytest.approx(chi_squared, abs=1e-5)
    student = [(0.975, 1, 12.7062047), (0.975, 4, 2.7764451), (0.95, 9, 1.8331129), (0.025, 4, -2.7764451), (0.5, 3, 0)]
    for probability, freedom, t in student:
        assert student_quantile(probability, freedom) == pytest.approx(t, abs=1e-6)


@pytest.mark.parametrize(
    ("direction", "pairs", "words"),
    [
        ("maximize", MIXED, "2 better (95% interval 1.122 to 2.878), the mean of 5 pairs"),
        ("maximize", [(100.0, 90.0)], "10% worse, 1 pair"),
        ("maximize", [(100.0, 110.0)], "10% better, 1 pair"),
        ("maximize", [(-2, 1)] * 3, "3 better (exactly), 3 pairs"),
        ("maximize", [(0.1, 10.0)] * 2, "99× better (exactly), 2 pairs"),  # noqa: RUF001
        ("maximize", UNSURE, "743% better (95% interval -98.1% to 3,718×), the mean of 3 pairs"),  # noqa: RUF001
        ("minimize", [(100.0, 90.0), (10.0, 9.0), (1.0, 0.9)], "10% better (exactly), 3 pairs"),
        ("minimize", [(7, 7)] * 2, "no difference (exactly), 2 pairs"),
        ("minimize", [(10, 5.00001), (10, 5)], "50% better (95% interval 50% to 50%, rounded), the mean of 2 pairs"),
        # Near zero a difference is in the metric's units, and stays so.
        ("minimize", [(15.04, 0.25)] * 2, "14.79 better (exactly), 2 pairs"),
        ("minimize", [(15.04, -0.25)] * 2, "15.29 better (exactly), 2 pairs"),
        ("minimize", [(0.25, 15.04)] * 2, "14.79 worse (exactly), 2 pairs"),
        ("minimize", [(15.0, 3.0)] * 2, "80% better (exactly), 2 pairs"),
    ],
)
def test_a_difference_in_words(direction: str, pairs: list[tuple[float, float]], words: str) -> None:
    assert settle(direction, pairs).in_words() == words


def test_the_difference_and_its_interval_are_in_the_metrics_units_or_in_percent() -> None:
    settled = settle("maximize", MIXED)
    assert (settled.before, settled.after, settled.difference, settled.in_percent) == (0, 1, 2, False)
    reach = 2.7764451 * (0.5 / 5) ** 0.5
    assert settled.interval == pytest.approx((2 - reach, 2 + reach), abs=1e-6) and settled.is_sure
    assert settle("minimize", [(15.04, 0.25)], unit="s").in_words() == "14.79 s better, 1 pair"
    assert settle("minimize", [(15.0, 3.0)] * 2, all_positive=False).in_words() == "12 better (exactly), 2 pairs"
    settled = settle("minimize", [(100.0, 90.0), (10.0, 9.0), (1.0, 0.9)])
    assert (settled.difference, settled.interval) == (pytest.approx(0.1), pytest.approx((0.1, 0.1)))
    worse = settle("maximize", [(100.0, 90.0)])
    assert (worse.interval, worse.is_sure) == (None, False)
    equal = settle("minimize", [(3.0, 3.0)] * 5)
    assert (equal.difference, equal.interval, equal.is_sure) == (0, (0, 0), False)
    assert settle("maximize", UNSURE).no_gain == "no gain shown: -98.1% to 3,718× (3 pairs)"  # noqa: RUF001
    assert settle("maximize", [(1.0, 2.0), (1.0, 2.1)]).no_gain == settle("maximize", [(1.0, 0.5)]).no_gain == ""
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
