"""A candidate that fixes its seed: its runs agree to the last bit, where the incumbent's never do."""

import random
from typing import Any

import pytest
from noise_sessions import Session, baseline_state, metric_of, next_step, record_of, runs_in, runs_of, update_noise

from goalseek.phase_values import Verdict
from goalseek.statistics.fixed_seed import is_tie_improbable
from goalseek.statistics.noise import NoiseState
from goalseek.values import Outcome, Reason

DOWN = metric_of("minimize")
SPREAD = (100.1239817, 101.2938471, 99.3847562, 100.4958671, 100.0293847)
TIMES = (0.1631, 0.1742, 0.1588, 0.1903, 0.1675)
COARSE = (100.0, 101.0, 99.0, 100.5, 100.2)


def verdict_of(answer: object) -> Verdict:
    assert isinstance(answer, Verdict)
    return answer


@pytest.mark.parametrize(
    ("values", "improbable"),
    [
        (SPREAD, True),
        (SPREAD[:3], True),
        (SPREAD[:2], False),
        ((*SPREAD, SPREAD[0]), False),
        ((*SPREAD, SPREAD[0] + 1e-13), False),
        (COARSE, False),
        (tuple(right / 1797 for right in (1650, 1661, 1643, 1652, 1671)), False),
        (tuple(100 * right / 997 for right in (850, 861, 843, 852, 871)), False),
        (tuple(sum(folds) / 5 for folds in ((0.9, 0.92, 0.93, 0.9, 0.95), (0.9,) * 5, (0.91,) * 5)), False),
        ((1.0, 1.0 + 3e-16, 1.0 + 9e-16, 1.0 + 5e-15), False),
        ((1e308, -1e308, 0.0), False),
        ((5e-324, 0.0, 1e-323), False),
        ((1.234, 1.2351, 1.2333, 1.2347), False),
        ((1.23412983, 1.23519283, 1.23331928, 1.23471028), True),
    ],
)
def test_a_tie_is_improbable_where_no_coarse_grid_holds_the_values(values: tuple[float, ...], improbable: bool) -> None:
    assert is_tie_improbable(values) == improbable


def test_shares_of_a_test_set_are_a_grid_and_times_are_not() -> None:
    draw = random.Random(7)
    for _ in range(200):
        accuracies = [sum(draw.random() < 0.9 for _ in range(60)) / 60 for _ in range(draw.randint(3, 12))]
        assert not is_tie_improbable(accuracies)
        assert is_tie_improbable([draw.lognormvariate(0, 0.1) for _ in range(5)])


@pytest.mark.parametrize(
    ("baseline", "terms", "runs", "expected"),
    [
        (SPREAD, {}, "c90 c90", "candidate"),
        (SPREAD, {}, "c90 c90 c90", Reason.SEED_FIXED),
        (SPREAD, {}, "c90 c90 c90.001 i100.2019283", Reason.BETTER),
        (SPREAD, {}, "c90 c90.001 c90.002 i100.2019283", Reason.BETTER),
        (SPREAD, {"max_repeats": 2}, "c90 c90", Reason.SEED_FIXED),
        (SPREAD, {"allow_fixed_seed": True}, "c90 c90 c90 i100.3", Reason.BETTER),
        (COARSE, {}, "c90 c90 c90 i100.3", "candidate"),  # a coarse metric ties by chance
        (COARSE, {}, "c90 c90 c90 c90.1 i100.3 i100.1", Reason.BETTER),
        (COARSE, {}, "c0 c0 c0 i100.3", Reason.BETTER),  # what is perfect has no fixed seed there
        (SPREAD, {}, "c0 c0 c0 i100.3", Reason.SEED_FIXED),
        # Four decimals of a time hold no noise of one that is 400 times shorter, but that of a third of it.
        (TIMES, {}, "c0.0004 c0.0004 c0.0004 c0.0004 i0.1662", Reason.BETTER),
        (TIMES, {}, "c0.0512 c0.0512 c0.0512 c0.0512 i0.1662", Reason.SEED_FIXED),
    ],
)
def test_one_more_run_is_made_of_a_candidate_whose_two_agree_and_it_is_reverted_if_that_agrees_too(
    baseline: tuple[float, ...], terms: dict[str, Any], runs: str, expected: str
) -> None:
    step = next_step(metric_of("minimize", **terms), baseline_state(*baseline), runs_in(runs))
    assert (step.reason if isinstance(step, Verdict) else step) == expected
    if expected == Reason.SEED_FIXED:
        verdict, count = verdict_of(step), len(runs.split()) - runs.count("i")
        assert verdict.outcome == Outcome.REVERTED
        assert verdict.why.startswith(f"{count} runs under different seeds gave the same number: its seed is fixed")
        assert "luck: draw from $GOALSEEK_SEED; set metric.allow_fixed_seed = true to allow this" in verdict.why


def test_on_a_coarse_metric_more_runs_that_agree_tell_a_fixed_seed() -> None:
    shares = [right / 400 for right in (259, 252, 266, 259, 270)]  # two agree, as shares of 400 do
    assert not is_tie_improbable(shares, 3) and is_tie_improbable(shares, 5)
    state, runs = baseline_state(*shares), list(runs_of("candidate", 0.7325, 0.7325, 0.7325))
    while (step := next_step(metric_of("maximize"), state, runs)) in ("candidate", "incumbent"):
        runs += runs_of(str(step), 0.7325 if step == "candidate" else 0.65)
    assert verdict_of(step).reason == Reason.SEED_FIXED
    assert sum(run.of == "candidate" for run in runs) < 8


def test_an_incumbent_that_gives_one_number_itself_makes_no_tie_improbable() -> None:
    state = update_noise(baseline_state(*SPREAD), record_of(1, "kept", runs_of("candidate", 90.0, 90.0, 90.0), 9.0))
    runs = runs_of("candidate", 80.0, 80.0, 80.0) + runs_of("incumbent", 90.0, 90.0)
    assert verdict_of(next_step(DOWN, state, runs)).reason == Reason.BETTER


def test_repeats_under_a_fixed_seed_are_no_repeats_of_the_noise() -> None:
    before, runs = baseline_state(*SPREAD), runs_of("candidate", 90.0, 90.0, 90.0)
    session = Session(DOWN, lambda of: 90.0, state=before)
    session.candidate()
    assert session.rulings[-1].reason == Reason.SEED_FIXED
    assert session.state.pairs == before.pairs and session.state.clock == before.clock + 3
    assert (session.state.kept, session.state.tested) == (0, 1)
    recorded = record_of(1, Outcome.REVERTED, runs, 0.1, reason=Reason.WITHIN_NOISE)
    other = before.after_iteration(recorded, None)
    assert other.pairs == (*before.pairs, (90.0, 90.0), (90.0, 90.0))
    assert isinstance(other, NoiseState)
