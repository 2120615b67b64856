"""What the rule remembers is a fold over the records, bounded, and stored like any other value."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from noise_sessions import RULER, baseline_state, folded, metric_of, noisy_session, record_of, runs_of, update_noise

from goalseek.ledger.records import MeasurementRecord, RunRecord
from goalseek.statistics.noise_state import NoiseState, TimedRun, drift_warning
from goalseek.values import VerifierRun, from_plain, to_line, to_plain

DOWN = metric_of("minimize")


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


def test_after_a_keep_the_incumbents_runs_are_the_candidates_without_the_first() -> None:
    runs = (*runs_of("candidate", 8.0), *runs_of("incumbent", 10.5), *runs_of("candidate", 9.0, 9.5))
    state = update_noise(baseline_state(10.0, 10.2, 9.9, 10.1, 10.0), record_of(1, "kept", runs, 20.0))
    assert state.incumbent == (TimedRun(9.0, 8), TimedRun(9.5, 9))
    assert state.value == 9.25
    assert (state.kept, state.tested, state.tree) == (1, 1, "tree 1")
    assert state.pairs[-3:] == ((10.0, 10.5), (8.0, 9.0), (9.0, 9.5))


def test_a_rejected_candidate_leaves_the_incumbents_fresh_runs() -> None:
    runs = (*runs_of("candidate", 9.0), *runs_of("incumbent", 10.5), *runs_of("candidate", 10.0))
    state = update_noise(baseline_state(10.0, 10.2, 9.9, 10.1, 10.0), record_of(1, "reverted", runs, 0.1))
    assert state.incumbent[-1] == TimedRun(10.5, 7)
    assert (state.kept, state.tested, state.tree, state.clock) == (0, 1, "tree 0", 8)


def test_who_did_not_pass_the_screen_was_not_tested() -> None:
    state = update_noise(
        baseline_state(10.0, 10.2, 9.9, 10.1, 10.0), record_of(1, "reverted", runs_of("candidate", 11.0))
    )
    assert state.tested == 0


def test_a_failed_run_counts_as_time_only() -> None:
    failed = (VerifierRun("candidate", None, 1, 1.0),)
    before = baseline_state(10.0, 10.2, 9.9, 10.1, 10.0)
    assert update_noise(before, record_of(1, "reverted", failed)) == replace(before, clock=6)


def test_another_baseline_begins_anew() -> None:
    session = noisy_session(DOWN, 2, 10)
    following = update_noise(session.state, record_of(99, "baseline", runs_of("candidate", 5.0, 5.0, 5.0)))
    assert following == replace(baseline_state(5.0, 5.0, 5.0), tree="tree 99")


def test_a_measurement_of_the_incumbent_elsewhere_is_a_run_of_it() -> None:
    before = baseline_state(10.0, 10.0, 10.0)
    same, moved = update_noise(before, measurement("tree 0", 10.0)), update_noise(before, measurement("tree 0", 10.5))
    assert (same.agreed, same.differed) == (3, False)
    assert (moved.differed, moved.incumbent, moved.pairs) == (True, (TimedRun(10.5, 4),), ())
    assert update_noise(before, measurement("another", 10.5)) == replace(before, clock=4)
    assert update_noise(before, measurement("tree 0", 10.5, "another ruler")) == replace(before, clock=4)


def test_the_beginning_of_a_run_changes_nothing() -> None:
    began = RunRecord(
        seq=1, kind="run", project="p", run_id="r", epoch=0, timestamp="", began="", versions={}, sandbox="",
        limits={}, ruler=RULER,
    )  # fmt: skip
    assert update_noise(baseline_state(1.0), began) == baseline_state(1.0)


def measurement(tree: str, value: float, ruler: str = RULER) -> MeasurementRecord:
    return MeasurementRecord(
        seq=1, kind="measurement", project="p", run_id="r", epoch=0, timestamp="", tree=tree, ruler=ruler,
        asked_by="noise", value=value, seed=1, seconds=1.0,
    )  # fmt: skip


def test_a_level_that_moved_is_told_and_one_that_did_not_is_not() -> None:
    state = baseline_state(100.0, 101.0, 99.0, 100.5, 100.2)
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
