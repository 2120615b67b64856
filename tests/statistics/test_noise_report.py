"""The arithmetic of a noise report, against values worked out elsewhere."""

import random
from pathlib import Path

import pytest

from goalseek.statistics.noise_report import (
    POWER,
    chi_squared_quantile,
    expected_false_keeps,
    false_gain,
    noise_report,
    power_line,
    repeats_for,
    robust_sd,
    sd_interval,
    skewness,
)


@pytest.mark.parametrize(
    ("probability", "freedom", "value"), [(0.95, 9, 16.918978), (0.05, 9, 3.325113), (0.95, 1, 3.841459)]
)
def test_quantiles_of_the_chi_squared_distribution_as_tables_have_them(
    probability: float, freedom: int, value: float
) -> None:
    assert chi_squared_quantile(probability, freedom) == pytest.approx(value, abs=1e-5)


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
    assert report.deterministic
    assert (report.middle, report.sd, report.interval, report.outliers) == (2, 0, (0, 0), ())
    assert (report.skew, report.drift) == (None, None)
    values = [-1.0, 1.0, 0.0, 2.0, -2.0, 1.0, -1.0, 0.0, 60.0]
    report = noise_report("minimize", values)
    assert not report.in_percent
    assert report.outliers == (60.0,)
    assert report.skew is not None and report.skew > 1
    mirrored = noise_report("maximize", values)
    assert mirrored.skew == pytest.approx(-report.skew)
    report = noise_report("minimize", [float(-place) for place in range(10)])
    assert report.drift == pytest.approx(9)
    up = noise_report("maximize", [float(-place) for place in range(10)])
    assert up.drift == pytest.approx(-9)
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


def test_the_power_is_in_the_metrics_units_and_the_readmes() -> None:
    assert power_line(2.0)[1] == (4.0, 0.75)
    assert [share for _, share in power_line(1.0)] == sorted(share for _, share in power_line(1.0))
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    effects = " | ".join(f"{effect:g}" for effect, _ in POWER)
    shares = " | ".join(f"{share:.0%}" for _, share in POWER)
    assert f"in sd of one run | {effects} |" in readme and f"is kept, about | {shares} |" in readme
