"""Keep or revert: failures, validity and guards first, then the comparison in the metric's direction."""

import math
import statistics

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from goalseek.manifest.tables import Guard, Metric
from goalseek.phase_values import Evidence, Failure, Verdict
from goalseek.project.limits import is_target_reached
from goalseek.statistics.acceptance import AcceptanceRule, rejection_of
from goalseek.statistics.guards import guard_violation
from goalseek.statistics.noise import NoiseState
from goalseek.values import VerifierRun

numbers = st.floats(-1e9, 1e9)
directions = st.sampled_from(["maximize", "minimize"])


def measured(*values: float | None, guards: dict[str, float] | None = None, failure: Failure | None = None) -> Evidence:
    return Evidence(tuple(VerifierRun("candidate", value, 1, 1.0) for value in values), (guards or {},), (), failure)


def metric(direction: str = "maximize", **more: object) -> Metric:
    return Metric(name="accuracy", direction=direction, **more)  # type: ignore[arg-type]


def decide(
    metric: Metric, guards: tuple[Guard, ...], incumbent: float, evidence: Evidence, lines_saved: int
) -> Verdict:
    rule = AcceptanceRule(replace(metric, noise="none"), guards, {}, NoiseState(value=incumbent), lines_saved)
    verdict = rule.next_step(evidence)
    assert isinstance(verdict, Verdict)
    return verdict


def verdict_on(value: float, incumbent: float, lines_saved: int = 0, **more: object) -> Verdict:
    return decide(metric(**more), (), incumbent, measured(value), lines_saved)  # type: ignore[arg-type]


@given(directions, numbers, numbers, st.integers(-5, 5), st.just(0.0) | st.floats(0, 1e6))
def test_only_what_is_better_by_min_delta_or_as_good_and_shorter_is_kept(
    direction: str, value: float, incumbent: float, lines_saved: int, margin: float
) -> None:
    verdict = verdict_on(value, incumbent, lines_saved, direction=direction, min_delta=margin)
    gain = value - incumbent if direction == "maximize" else incumbent - value
    if gain > 0:
        expected = ("kept", "better") if gain >= margin else ("reverted", "below_min_delta")
    elif gain == 0:
        expected = ("kept", "simpler") if lines_saved > 0 else ("reverted", "tie")
    else:
        expected = ("reverted", "worse")
    assert (verdict.outcome, verdict.reason) == expected
    assert bool(verdict) == (verdict.outcome == "kept")
    assert (verdict.value, verdict.incumbent, verdict.delta) == (value, incumbent, gain)


def test_a_gain_of_exactly_min_delta_is_kept_and_in_percent_it_is_of_the_incumbents_magnitude() -> None:
    assert verdict_on(1.0, 0.5, min_delta=0.5).reason == "better"
    assert verdict_on(-99.4, -100.0, min_delta="0.5%").reason == "better"
    assert verdict_on(-99.6, -100.0, min_delta="0.5%").reason == "below_min_delta"


@pytest.mark.parametrize("lines_saved", [-1, 0, 5])
def test_a_failure_goes_before_everything(lines_saved: int) -> None:
    failure = Failure("verify_timeout", "train took longer than 20m")
    verdict = decide(metric(), (), 0.5, measured(0.9, None, failure=failure), lines_saved)
    assert verdict == Verdict("reverted", "verify_timeout", "train took longer than 20m", incumbent=0.5)


@pytest.mark.parametrize(("value", "kept"), [(1.0, True), (0.6, True), (1.0000001, False), (-0.1, False)])
def test_a_value_outside_of_its_valid_range_is_reverted_whatever_it_beats(value: float, kept: bool) -> None:
    verdict = verdict_on(value, 0.5, valid=(0.0, 1.0))
    assert bool(verdict) == kept
    assert kept or verdict.reason == "not_valid"


def test_a_broken_guard_reverts_even_the_best_value_and_names_its_bound() -> None:
    guards = (Guard(name="size_kb", max=512.0),)
    verdict = decide(metric(), guards, 0.5, measured(0.9, guards={"size_kb": 513.0}), 9)
    assert (verdict.outcome, verdict.reason) == ("reverted", "guard")
    assert verdict.why == "size_kb is 513, above its maximum, 512"
    guards = (Guard(name="size_kb", valid=(0.0, 9.0), max=5.0),)
    verdict = decide(metric(), guards, 0.5, measured(0.9, guards={"size_kb": 10.0}), 0)
    assert (verdict.outcome, verdict.reason) == ("reverted", "not_valid")
    guard = Guard(name="g", max=7.0, max_increase="1%", max_decrease=0.5)
    assert guard_violation(guard, 7.0, None) is None and guard_violation(guard, 7.5, None)


@given(numbers, numbers, numbers)
def test_a_guard_holds_exactly_between_its_bounds(low: float, high: float, value: float) -> None:
    assert (guard_violation(Guard(name="g", min=low, max=high), value, None) is None) == (low <= value <= high)
    for bound in (2.5, "10%"):
        up, down = Guard(name="g", max_increase=bound), Guard(name="g", max_decrease=bound)
        assert guard_violation(up, 27.5, 25.0) is None and guard_violation(up, 27.6, 25.0)
        assert guard_violation(down, 22.5, 25.0) is None and guard_violation(down, 22.4, 25.0)


@given(numbers, st.floats(-1e6, 1e6), st.floats(0, 100))
def test_an_increase_in_percent_is_held_against_the_baseline(value: float, baseline: float, percent: float) -> None:
    bound = abs(baseline) * float(f"{percent:.2f}") / 100
    assume(abs(abs(value - baseline) - bound) > 1e-6)
    up = guard_violation(Guard(name="g", max_increase=f"{percent:.2f}%"), value, baseline)
    down = guard_violation(Guard(name="g", max_decrease=f"{percent:.2f}%"), value, baseline)
    assert (up is not None) == (value - baseline > bound)
    assert (down is not None) == (baseline - value > bound)


@given(numbers, st.lists(numbers, max_size=9))
def test_a_candidate_has_the_median_of_its_runs_with_a_value_and_the_first_counts_only_alone(
    first: float, later: list[float]
) -> None:
    runs = (VerifierRun("incumbent", 9.0, 1, 1.0), VerifierRun("candidate", None, 1, 1.0))
    verdict = decide(metric(), (), 0.5, Evidence(runs + measured(first, *later).runs), 0)
    assert verdict.value == statistics.median(later or [first])


@given(directions, numbers, numbers)
def test_a_target_is_reached_at_the_value_itself_and_beyond(direction: str, target: float, value: float) -> None:
    beyond = value >= target if direction == "maximize" else value <= target
    assert is_target_reached(metric(direction, target=target), value) == beyond
    assert not is_target_reached(metric(direction), math.copysign(math.inf, value))


def test_two_numbers_that_differ_are_printed_so_that_they_differ() -> None:
    assert verdict_on(1.79534219e18, 1.79534211e18).why == "1.7953422e+18 beats 1.7953421e+18 by 80 G"
    assert verdict_on(0.1 + 0.2, 0.3).why == "0.30000000000000004 beats 0.3 by 5.55112e-17"
    short = verdict_on(1.0, 0.0, min_delta=1.0000001).why
    assert short == "1 beats 0 by 1, less than min_delta, 1.0000001"
    assert guard_violation(Guard(name="size", max=1e9), 1e9 + 1, None) == (
        "size is 1.000000001 G, above its maximum, 1 G"
    )
    (_, why) = rejection_of(metric(valid=(0, 1)), (), measured(1.0000000001)) or ("", "")
    assert why == "accuracy is 1.0000000001, outside its valid range, 0 to 1"
