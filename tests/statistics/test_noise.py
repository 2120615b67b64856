"""The rule under noise: what it asks for, what it decides, and what no numbers can make it do."""

import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from noise_sessions import (
    RULER,
    Session,
    baseline_state,
    folded,
    metric_of,
    next_step,
    noisy_session,
    record_of,
    runs_in,
    runs_of,
    update_noise,
)
from pages import GUIDE
from records import HEAD

from goalseek.phase_values import Evidence, Verdict
from goalseek.records import MeasurementRecord, RunRecord
from goalseek.statistics.acceptance import BETA, alpha_of, decide_on_baseline
from goalseek.statistics.comparison import compare
from goalseek.statistics.noise import NoiseState, TimedRun, drift_warning, relative_variance, scale_of, spread
from goalseek.values import VerifierRun, from_plain, to_line, to_plain

DOWN = metric_of("minimize")
values = st.one_of(st.floats(-50, 50), st.sampled_from([0.0, 1.0, 1.0, 2.0, -1.0, 1e-9, 7e8]))
seeds = st.integers(0, 2**32)


def counts(runs: tuple[VerifierRun, ...]) -> tuple[int, int]:
    return sum(run.of == "candidate" for run in runs), sum(run.of == "incumbent" for run in runs)


MOVES = ", 5 runs"


@pytest.mark.parametrize(
    ("noise", "measured", "how"),
    [
        ("auto", [], None),
        ("auto", [1.0, 1.0], None),
        ("auto", [1.0, 1.0, 1.0], ", 3 identical runs"),
        ("auto", [1.0, 1.0, math.nextafter(1.0, 2)], None),
        ("auto", [1.0, 2.0, 1.0, 1.0], None),
        ("auto", [1.0, 2.0, 1.0, 1.0, 1.0], MOVES),
        ("none", [], None),
        ("none", [1.0], ""),
        ("always", [1.0] * 4, None),
        ("always", [1.0] * 4 + [2.0], MOVES),
    ],
)
def test_a_baseline_is_run_until_it_is_known_whether_it_moves(
    noise: str, measured: list[float], how: str | None
) -> None:
    step = decide_on_baseline(metric_of("minimize", noise), (), "a" * 40, Evidence(runs_of("candidate", *measured)))
    expected = "candidate" if how is None else (1.0, f"measured at aaaaaaaaaaaa{how}")
    assert expected == ((step.value, step.why) if isinstance(step, Verdict) else step)


def test_a_deterministic_metric_costs_four_runs_more_and_decides_as_plain_comparison_does() -> None:
    levels = iter([9.0, 9.5, 9.0, 8.0, 7.0, 7.5, 6.0, 5.0])
    level = 10.0
    session = Session(DOWN, lambda of: level)
    session.baseline()
    best, made = 10.0, []
    for level in levels:
        answers = session.candidate()
        assert isinstance(answers[-1], Verdict)
        assert bool(answers[-1]) == (level < best)
        assert answers[-1].odds is None
        best = min(best, level)
        made.append(len(answers) - 1)
    assert made == [2, 1, 1, 2, 1, 1, 1, 1]
    assert session.state.clock == 3 + 8 + 2


BELOW = "reverted below_min_delta: +10.2% (3 v 3 runs, odds > 9:1); less than min_delta, 15.03"
STILL, SPREAD = (10.0, 10.0, 10.0), (100.0, 101.0, 99.0, 100.5, 100.2)
BUSY = (115.0, 116.0, 114.0, 115.5, 115.2)  # the machine was
FAR, UNLIKE, FRESH = "c90 c90.1 c89.9", "c9 c9.02 i10 i10.1 i9.9 i10.05", "i100.2 i100.2 i100.2 i100.2"
STEADY, WIDE = "c90 c90.5 c90.2 c90.3", "c90 c80 c91 c78"
SHIFTED = "c100 c100.1 c99.9 i100.2 i99.8"


@pytest.mark.parametrize(
    ("baseline", "terms", "runs", "expected"),
    [
        # Without noise: plain comparison, twice before a keep.
        (STILL, {}, "c9", "candidate"),
        (STILL, {"lines_saved": 0}, "c10", "reverted tie: 10 as before, and no fewer lines"),
        (STILL, {"lines_saved": 1}, "c10 c10", "kept simpler: 10 as before, and 1 line fewer"),
        (STILL, {"lines_saved": 9}, "c11", "reverted worse: 11 is worse than 10 by 1"),
        (STILL, {"min_delta": "20%"}, "c9", "reverted below_min_delta: 9 beats 10 by 1, less than min_delta, 2"),
        (STILL, {"min_delta": 1.0}, "c9 c9", "kept better: 9 beats 10 by 1"),
        # Code that is not known to move is run first; noise = "none" asks for nothing.
        ((10.0,), {}, "", "incumbent"),
        ((10.0,), {}, "i10", "incumbent"),
        ((10.0,), {}, "i10 i10", "candidate"),
        ((10.0,), {}, "i10.1", "incumbent"),
        ((10.0,), {"noise": "none"}, "", "candidate"),
        ((10.0,), {"noise": "none"}, "c9.9", "kept better: 9.9 beats 10 by 0.1"),
        # A second value of the same code: five fresh runs of the incumbent.
        (STILL, {}, "c9 c9.02", "incumbent"),
        (STILL, {}, UNLIKE, "incumbent"),
        (STILL, {}, f"{UNLIKE} i10", "candidate"),
        (STILL, {}, f"{UNLIKE} i10 c9.04", "kept better: +9.7% (3 v 5 runs, odds > 9:1)"),
        # Under noise: one run if it is worse, and never a keep without a run of the incumbent after its first.
        (SPREAD, {}, "c100.3", "reverted worse: -0.1% (1 run v the incumbent's last 5, median 100.2), needed +2%"),
        (SPREAD, {"min_delta": "15%"}, "c90 c90 c90", BELOW),
        (SPREAD, {}, "c99.2 c98.9 c99.3 c98.4", "incumbent"),
        (SPREAD, {}, FAR, "incumbent"),
        (SPREAD, {}, f"{FAR} i100.1", "kept better: +10.1% (3 v 4 runs, odds > 9:1)"),
        (SPREAD, {}, f"i100.1 {FAR}", "incumbent"),
        (SPREAD, {}, f"i100.1 {FAR} i100.1", "kept better: +10.1% (3 v 5 runs, odds > 9:1)"),
        # Runs of the incumbent from before a shift are left out.
        (BUSY, {}, "c100 c100.1 c99.9", "incumbent"),
        (BUSY, {}, SHIFTED, "incumbent"),
        (BUSY, {}, f"{SHIFTED} i100.1", "reverted within_noise: +0.1% (3 v 3 runs, odds < 1:9), needed +1.8%"),
        # A candidate that spreads more than all code needs all its runs.
        (SPREAD, {}, f"{STEADY} {FRESH}", "kept better: +9.9% (4 v 7 runs, odds > 9:1)"),
        (SPREAD, {}, f"{WIDE} {FRESH}", "candidate"),
        (SPREAD, {"max_repeats": 4}, f"{WIDE} {FRESH}", "kept better: +20.2% (4 v 7 runs, odds > 9:1)"),
        (SPREAD, {}, f"{WIDE} {WIDE} {FRESH} {FRESH}", "kept better: +20.2% (8 v 8 runs, odds > 9:1)"),
    ],
)
def test_what_the_rule_asks_for_or_decides(
    baseline: tuple[float, ...], terms: dict[str, Any], runs: str, expected: str
) -> None:
    keys = {key: value for key, value in terms.items() if key != "lines_saved"}
    step = next_step(metric_of(**keys), baseline_state(*baseline), runs_in(runs), terms.get("lines_saved", 0))
    assert expected == (f"{step.outcome} {step.reason}: {step.why}" if isinstance(step, Verdict) else step)


def test_without_a_run_in_the_window_the_incumbent_is_run_first() -> None:
    state = baseline_state(*SPREAD).with_runs(runs_of("other", *[1.0] * 31))
    assert next_step(DOWN, state, ()) == "incumbent"
    assert next_step(metric_of("minimize", window=31), state, ()) == "candidate"


def odds_against(incumbent: tuple[float, ...], runs: str) -> float:
    before = baseline_state(*SPREAD)
    state = replace(before, incumbent=tuple(TimedRun(value, before.clock) for value in incumbent))
    verdict = next_step(metric_of(max_repeats=3), state, runs_in(runs))
    assert isinstance(verdict, Verdict) and verdict.odds is not None
    return verdict.odds


def test_an_incumbent_that_spreads_more_than_all_code_does_is_harder_to_beat() -> None:
    """The same medians, sd of all code and runs of the candidate: only the incumbent's own runs differ."""
    steady, wide = (101.0, 99.0, 100.2, 100.0, 100.4), (105.0, 95.0, 100.2, 104.0, 96.0)
    runs = "c97 c98.5 c97.5 i100.2"
    assert odds_against(steady, runs) > 2 * odds_against(wide, runs)


def test_each_of_the_incumbents_runs_counts_in_the_odds_for_at_most_one_and_a_half_sd() -> None:
    near, far, farther = (odds_against((100.0, 100.2, last), "c99 c99.4 c98.2") for last in (100.2, 110.0, 100_000.0))
    assert near < far == farther


def test_trust_is_earned_and_lost() -> None:
    assert alpha_of(DOWN, NoiseState()) == 0.04
    assert alpha_of(DOWN, NoiseState(kept=2, tested=11)) == 0.2
    assert alpha_of(DOWN, NoiseState(kept=9, tested=10)) == 0.5
    assert alpha_of(DOWN, NoiseState(tested=1000)) == 0.01
    assert alpha_of(metric_of("minimize", alpha=0.3), NoiseState(tested=1000)) == 0.3
    page = (GUIDE / "noise.md").read_text()
    states = NoiseState(), NoiseState(tested=10), NoiseState(tested=1000), NoiseState(kept=9, tested=10)
    needed = [f"{(1 - BETA) / alpha_of(DOWN, state):.3g}:1" for state in states]
    assert needed == re.findall(r"[\d.]+:1", page[page.index("So 17.5:1 keeps") :])[:4]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(values, min_size=1, max_size=5),
    st.lists(values, min_size=80, max_size=80),
    st.sampled_from(["minimize", "maximize"]),
    st.sampled_from(["auto", "always"]),
    st.integers(2, 12),
    st.integers(1, 40),
)
@pytest.mark.slow
def test_no_values_make_it_keep_too_early_or_run_too_long(
    start: list[float], drawn: list[float], direction: str, noise: str, max_repeats: int, window: int
) -> None:
    terms = metric_of(direction, noise, max_repeats, window=window)  # type: ignore[arg-type]
    feed = iter(drawn * 40)
    session = Session(terms, lambda of: next(feed))
    session.state = baseline_state(*start)
    for _ in range(4):
        before = session.state
        answers = session.candidate()
        runs, ruling = session.records[-1].runs, session.rulings[-1]
        candidates, incumbents = counts(runs)
        assert 1 <= candidates <= max_repeats
        first = next(index for index, run in enumerate(runs) if run.of == "candidate")
        assert incumbents - counts(runs[first:])[1] <= 5 and counts(runs[first:])[1] <= 8
        assert len(answers) == len(runs) + 1
        if ruling and ruling.odds is not None:
            assert candidates >= 2
            assert incumbents + len(before.incumbent) >= 3
            sides = [run.of for run in runs]
            assert "incumbent" in sides[sides.index("candidate") :]
            assert ruling.delta > 0
        if noise == "always":
            assert ruling.reason not in ("simpler",)
            assert not ruling or ruling.odds is not None
        assert all(math.isfinite(number) for number in (ruling.value, ruling.incumbent, ruling.delta))


@settings(max_examples=20, deadline=None)
@given(seeds, st.floats(1e-6, 1e6))
def test_the_unit_of_the_metric_does_not_matter_and_maximize_is_the_mirror(seed: int, factor: float) -> None:
    plain, up = noisy_session(DOWN, seed, 12), metric_of("maximize")
    scaled = noisy_session(DOWN, seed, 12, lambda value: value * factor)
    assert decisions(scaled) == decisions(plain)
    assert odds(scaled) == pytest.approx(odds(plain), 1e-6)
    assert decisions(noisy_session(up, seed, 12, lambda value: 1 / value)) == decisions(plain)
    negative = noisy_session(DOWN, seed, 12, lambda value: value - 100)
    if len({run.value > 0 for run in negative.records[0].runs if run.value is not None}) == 2:
        assert decisions(noisy_session(up, seed, 12, lambda value: 100 - value)) == decisions(negative)


def odds(session: Session) -> list[float]:
    return [ruling.odds or -1.0 for ruling in session.rulings]


def decisions(session: Session) -> list[tuple[str, str, tuple[int, int]]]:
    return [
        (ruling.outcome, ruling.reason, counts(record.runs))
        for ruling, record in zip(session.rulings, session.records[1:], strict=True)
    ]


def test_such_sessions_keep_and_revert_for_more_than_one_reason() -> None:
    """Else the test above would compare nothing."""
    reasons = {ruling.reason for ruling in noisy_session(DOWN, 3, 60).rulings}
    assert reasons >= {"better", "worse", "within_noise"}


def test_scale_and_spread_of_known_values() -> None:
    assert scale_of("minimize", True).x(math.e) == 1
    assert scale_of("maximize", True).x(math.e) == -1
    assert scale_of("maximize", False).x(-3.0) == 3
    assert scale_of("minimize", True).middle([1.0, 100.0]) == pytest.approx(10)
    assert scale_of("minimize", False).middle([1.0, 100.0]) == 50.5
    scale = scale_of("minimize", False)
    pairs = [(0.0, math.sqrt(2))] * 4
    assert spread(scale, pairs) == pytest.approx(1.4826 * 1.25)
    wild = [(0.0, math.sqrt(2))] * 9 + [(0.0, 1000.0)]
    clipped = math.sqrt((9 + (2.5 * 1.4826) ** 2) / 10)
    assert spread(scale, wild) == pytest.approx(max(1.4826, clipped) * 1.1)
    mostly_equal = [(0.0, 0.0)] * 9 + [(0.0, 10 * math.sqrt(2))]
    assert spread(scale, mostly_equal) == pytest.approx(10 * math.sqrt(2))
    assert spread(scale, mostly_equal, [1.0]) == pytest.approx(math.sqrt(10) * 1.1)
    assert spread(scale, [(5.0, 5.0)] * 9, [5.5, 5.0]) == 0.5
    assert spread(scale, [(5.0, 5.0)]) == 0
    assert relative_variance(scale, [0.0, math.sqrt(2)], 1.0) == 1
    assert relative_variance(scale, [0.0, 0.0], 1.0) == pytest.approx(5 / 6)
    assert relative_variance(scale, [0.0, 99.0], 1.0) == pytest.approx((5 + 2.5**2) / 6)
    assert relative_variance(scale, [0.0, 99.0], 0.0) == relative_variance(scale, [], 1.0) == 1
    assert spread(scale, (), [1.0, 4.0, 2.0, 2.0]) == 1


@pytest.mark.parametrize(
    ("incumbent", "candidate", "recorded", "odds", "line"),
    [
        ([100.0] * 5, [96.9] * 3, 100.0, 14.2, "+3.1% (3 v 5 runs, odds > 9:1)"),
        ([100.0] * 5, [96.9] * 3, 100.0, 7.6, "+3.1% (3 v 5 runs, odds 7.6:1)"),
        ([100.0] * 5, [99.6] * 4, 100.0, 1 / 3, "+0.4% (4 v 5 runs, odds 1:3)"),
        ([100.0] * 5, [99.6] * 4, 100.0, 0.01, "+0.4% (4 v 5 runs, odds < 1:9)"),
        ([-2.0] * 8, [-1.5], -2.0, None, "-0.5 (1 v 8 runs)"),
        ([1.0] * 8, [1.0] * 8, 1.0, 0.5, "no difference (8 v 8 runs, odds 1:2)"),
        ([1.0] * 8, [100.98], 1.0, None, "-100× (1 v 8 runs)"),  # noqa: RUF001
        ([100.0] * 5, [110.0], 120.0, None, "-10% (1 run v the incumbent's last 5, median 100)"),
        ([120.0] * 5, [110.0] * 3, 100.0, 9.0, "+8.3% (3 runs v the incumbent's last 5, median 120, odds 9:1)"),
    ],
)
def test_the_line_for_people(
    incumbent: list[float], candidate: list[float], recorded: float, odds: float | None, line: str
) -> None:
    """Lower is better. Where number and verdict would contradict each other, the incumbent's median is named."""
    scale = scale_of("minimize", min(*incumbent, *candidate) > 0)
    assert compare(scale, 1.0, incumbent, candidate, incumbent).describe(odds, recorded) == line


@given(seeds)
@settings(max_examples=10, deadline=None)
def test_who_is_rejected_for_its_number_is_told_a_gain_that_it_did_not_have(seed: int) -> None:
    session = noisy_session(DOWN, seed, 20)
    for ruling in session.rulings:
        by_number = ruling.reason in ("worse", "tie", "within_noise") and session.state.differed
        assert (ruling.needed is not None) is by_number
        if ruling.needed is not None:
            assert ruling.delta is not None and ruling.needed > max(ruling.delta, 0) and ", needed +" in ruling.why


def test_the_gain_that_is_needed_is_that_of_as_many_runs_as_the_rule_makes() -> None:
    bar, linear, logarithmic = math.log(17.5), scale_of("minimize", False), scale_of("maximize", True)
    needed = 0.8 + bar * (1 / 8 + 1 / 8) / 1.6  # sd
    assert compare(linear, 2.0, [50.0], [51.0], [50.0]).needed_gain(bar, (8, 8)) == pytest.approx(2 * needed)
    far = compare(linear, 2.0, [50.0], [5000.0], [50.0])
    assert far.needed_gain(bar, (8, 8)) == pytest.approx(2 * needed), "however far it was away"
    share = compare(logarithmic, 0.02, [50.0], [49.0], [50.0]).needed_gain(bar, (8, 8)) / 50
    assert share == pytest.approx(math.expm1(0.02 * needed))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["auto", "none", "always"]))
def test_the_fold_over_the_records_is_the_state_kept_step_by_step(seed: int, noise: str) -> None:
    session = noisy_session(metric_of("minimize", noise), seed, 15)  # type: ignore[arg-type]
    assert folded(session.records) == session.state
    assert from_plain(NoiseState, to_plain(session.state)) == session.state


def test_it_stays_small_however_long_the_climb() -> None:
    state = noisy_session(DOWN, 1, 40).state.with_runs(runs_of("incumbent", *(10 + n / 7 for n in range(300))))
    assert (len(state.pairs), len(state.incumbent), len(state.opening)) == (200, 8, 5)
    assert len(to_line(state)) < 12_000


def test_after_a_candidate_the_incumbents_runs_are_those_that_did_not_decide() -> None:
    before = baseline_state(10.0, 10.2, 9.9, 10.1, 10.0)
    state = update_noise(before, record_of(1, "kept", runs_in("c8 i10.5 c9 c9.5"), 20.0))
    assert state.incumbent == (TimedRun(9.0, 8), TimedRun(9.5, 9))
    assert state.value == 9.25
    assert (state.kept, state.tested, state.tree) == (1, 1, "tree 1")
    assert state.pairs[-3:] == ((10.0, 10.5), (8.0, 9.0), (9.0, 9.5))
    state = update_noise(before, record_of(1, "reverted", runs_in("c9 i10.5 c10"), 0.1))
    assert state.incumbent[-1] == TimedRun(10.5, 7)
    assert (state.kept, state.tested, state.tree, state.clock) == (0, 1, "tree 0", 8)
    assert update_noise(before, record_of(1, "reverted", runs_in("c11"))).tested == 0
    switched = update_noise(baseline_state(*STILL), record_of(1, "kept", runs_in(f"{UNLIKE} i10 c9.04"), 20.0))
    assert switched.differed and next_step(DOWN, switched, ()) == "candidate"
    assert switched.pairs[:4] == ((10.0, 10.1), (10.1, 9.9), (9.9, 10.05), (10.05, 10.0))
    failed = (VerifierRun("candidate", None, 1, 1.0),)
    assert update_noise(before, record_of(1, "reverted", failed)) == replace(before, clock=6)


def test_another_baseline_begins_anew_and_a_run_changes_nothing() -> None:
    session = noisy_session(DOWN, 2, 10)
    following = update_noise(session.state, record_of(99, "baseline", runs_of("candidate", 5.0, 5.0, 5.0)))
    assert following == replace(baseline_state(5.0, 5.0, 5.0), tree="tree 99")
    began = RunRecord(kind="run", **HEAD, began="", versions={}, sandbox="", limits={}, ruler=RULER)
    assert update_noise(baseline_state(1.0), began) == baseline_state(1.0)


def test_a_measurement_of_the_incumbent_elsewhere_is_a_run_of_it() -> None:
    before = baseline_state(10.0, 10.0, 10.0)
    same, moved = update_noise(before, measurement("tree 0", 10.0)), update_noise(before, measurement("tree 0", 10.5))
    assert (same.agreed, same.differed) == (3, False)
    assert (moved.differed, moved.incumbent, moved.pairs) == (True, (TimedRun(10.5, 4),), ())
    assert update_noise(before, measurement("another", 10.5)) == replace(before, clock=4)
    assert update_noise(before, measurement("tree 0", 10.5, "another ruler")) == replace(before, clock=4)


def measurement(tree: str, value: float, ruler: str = RULER) -> MeasurementRecord:
    code = {"tree": tree, "ruler": ruler}
    return MeasurementRecord(kind="measurement", **HEAD, **code, asked_by="noise", value=value, seed=1, seconds=1.0)


def test_a_level_that_moved_is_told_and_one_that_did_not_is_not() -> None:
    state = baseline_state(*SPREAD)
    assert drift_warning("minimize", state) is None
    as_before = state.with_runs(runs_of("incumbent", 100.4, 99.5, 100.8, 100.0, 100.1))
    assert drift_warning("minimize", as_before) is None
    moved = state.with_runs(runs_of("incumbent", 110.4, 109.5, 110.8, 110.0, 110.1))
    told = drift_warning("minimize", moved)
    assert told and told.startswith("the incumbent measures 9.9% worse than when it was kept")
    told = drift_warning("maximize", moved)
    assert told and "9.9% better" in told


def test_a_level_that_does_not_move_is_seldom_said_to() -> None:
    told = [
        drift_warning("minimize", noisy_session(metric_of("minimize", alpha=0.001), seed, 30, lambda v: v).state)
        for seed in range(60)
    ]
    assert sum(bool(one) for one in told) <= 2
