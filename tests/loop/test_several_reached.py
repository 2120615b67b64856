"""Several at once, simulated and at work: short runs of the two benchmarks, with fixed seeds and wide margins."""

from pathlib import Path

import landings
import parallel
import pytest


def test_of_an_exact_number_nothing_lands_that_is_no_better_than_the_tip() -> None:
    shares = {arm: landings.Share.of(climbs) for arm, climbs in landings.compare(0.0, 12, 40, 31).items()}
    assert shares["one of each"].value == shares["four of each"].value == 0
    assert shares["four, landing as measured"].value > 0.08


def test_of_a_noisy_number_four_land_no_more_of_these_than_one() -> None:
    shares = {arm: landings.Share.of(climbs) for arm, climbs in landings.compare(1.0, 20, 40, 31).items()}
    assert landings.is_honest(1.0, shares["one of each"], shares["four of each"])
    assert not landings.is_honest(1.0, shares["one of each"], shares["four, landing as measured"])


@pytest.mark.slow
def test_four_at_once_decide_more_in_the_same_time_and_cost_little_more(tmp_path: Path) -> None:
    decided, own_time = parallel.sleeping(tmp_path / "sleeping", rounds=1, seconds=15, sleep=1.0)
    assert decided > 1.7 and own_time < 2


@pytest.mark.slow
def test_eight_slots_take_little_memory(tmp_path: Path) -> None:
    assert 20 < parallel.memory(tmp_path / "memory", 50, iterations=8) < 90
