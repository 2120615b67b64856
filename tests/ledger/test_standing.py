"""Where a climb stands: a fold over records, the same from any snapshot of it."""

import json
from collections.abc import Sequence
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from records import iteration, measurement, run

from goalseek.ledger.standing import CRASHED, Standing
from goalseek.records import PROVIDER_FAILED, IterationRecord, Record, RunRecord
from goalseek.statistics.noise import TimedRun
from goalseek.values import Attempt, Usage, VerifierRun, from_plain, to_line

KEPT = ("kept", "better")
WORSE = ("reverted", "worse")
DUPLICATE = ("skipped", "duplicate")
OUTCOMES = (
    KEPT, WORSE, DUPLICATE, ("baseline", "measured"), ("kept", "simpler"), ("reverted", "guard"),
    ("skipped", "no_change"), *(("skipped", reason) for reason in PROVIDER_FAILED),
    *(("reverted", reason) for reason in CRASHED),
)  # fmt: skip


def fold(records: Sequence[Record], start: Standing | None = None) -> Standing:
    return reduce(Standing.after, records, start or Standing())


def climbed(*outcomes: tuple[str, str]) -> Standing:
    """A run, its baseline, and iterations with these outcomes."""
    steps = (("baseline", "measured"), *outcomes)
    return fold([run(0), *(iteration(number + 1, number, *step) for number, step in enumerate(steps))])


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    rows: list[Record] = [run(0), iteration(1, 0, "baseline", "measured", 0.1)]
    for kind in draw(st.lists(st.sampled_from(["run", "measurement", *OUTCOMES]), max_size=25)):
        seq, number = len(rows), sum(isinstance(row, IterationRecord) for row in rows)
        if kind == "run":
            rows.append(run(seq))
        elif kind == "measurement":
            rows.append(measurement(seq))
        else:
            rows.append(iteration(seq, number, kind[0], kind[1], draw(st.floats(0, 1))))
    return rows


@given(histories(), st.data())
def test_a_fold_goes_on_from_a_stored_snapshot_as_if_it_had_read_all(rows: list[Record], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    snapshot = from_plain(Standing, json.loads(to_line(fold(rows[:cut]))))
    assert snapshot == fold(rows[:cut])
    assert fold(rows[cut:], snapshot) == fold(rows)


@given(histories())
def test_the_fold_says_what_counting_the_records_says(rows: list[Record]) -> None:
    standing = fold(rows)
    tries = [row for row in rows if isinstance(row, IterationRecord)]
    since_run = rows[max(place for place, row in enumerate(rows) if isinstance(row, RunRecord)) :]
    of_run = [row for row in since_run if isinstance(row, IterationRecord)]
    accepted = [row for row in tries if row.outcome in ("kept", "baseline")]
    assert standing.seq == rows[-1].seq
    assert standing.last == tries[-1]
    assert standing.last_iteration == len(tries) - 1
    assert standing.tried == standing.total.iterations == sum(row.outcome != "baseline" for row in tries)
    assert standing.spend.iterations == sum(row.outcome != "baseline" for row in of_run)
    assert standing.spend.seconds == pytest.approx(3.0 * len(of_run))
    assert standing.total.usage.input_tokens == 10 * len(tries)
    assert standing.total.tokens == 16 * len(tries)
    assert standing.spend.tokens == 16 * len(of_run)
    assert sum(standing.outcomes.values()) == len(of_run)
    assert standing.incumbent == standing.best is not None
    assert standing.best.commit == accepted[-1].commit_hash
    assert standing.ruler == [row for row in tries if row.outcome == "baseline"][-1].digests["ruler"]
    committed = [row for row in tries if row.commit_hash]
    assert standing.tip == (committed[-1].rollback_commit_hash or committed[-1].commit_hash)
    ends = [index for index, row in enumerate(rows) if isinstance(row, RunRecord) or row in accepted]
    since_keep = [row for row in rows[ends[-1] + 1 :] if isinstance(row, IterationRecord)]
    assert standing.stagnation == sum(row.reason not in PROVIDER_FAILED for row in since_keep)


def test_a_keep_becomes_the_incumbent_and_what_is_not_kept_does_not() -> None:
    standing = climbed(KEPT, WORSE, DUPLICATE)
    assert standing.incumbent is not None
    assert (standing.incumbent.commit, standing.incumbent.tree, standing.incumbent.iteration) == ("commit2", "tree2", 1)
    assert standing.incumbent.seconds == {"score": 1.5}
    assert standing.tip == "revert3" and standing.baseline and standing.baseline.commit == "commit1"
    lost = replace(iteration(9, 4, *WORSE), rollback_commit_hash=None)
    assert standing.after(lost).tip == "revert3", "a candidate alone moves no tip"


def test_provider_failures_count_only_in_a_row_and_crashes_until_a_candidate_is_measured() -> None:
    for reason in PROVIDER_FAILED:
        failed = ("skipped", reason)
        found = [climbed(failed, *then).provider_failures for then in ((failed,), (DUPLICATE, failed), (KEPT,))]
        assert found == [2, 1, 0], reason
        assert climbed(WORSE, failed, DUPLICATE).stagnation == 2, "a call that failed tried nothing"
    for reason in CRASHED:
        crash = ("reverted", reason)
        steps = ((crash,), (DUPLICATE, crash), (WORSE, crash), (KEPT,))
        assert [climbed(crash, *then).crashes for then in steps] == [2, 2, 1, 0], reason


def test_a_try_of_stacked_changes_is_a_try_but_no_proposal_and_says_nothing_of_the_provider() -> None:
    before = climbed(WORSE, WORSE, ("skipped", PROVIDER_FAILED[0]))
    for stacked in ((1, 2), ()):  # a killed one that was given up may not say of what it was made
        after = before.after(iteration(9, 4, *WORSE, stacked=stacked, provider="stack"))
        assert (after.tried, after.total.iterations) == (before.tried, before.total.iterations + 1) == (3, 4)
        assert (before.provider_failures, before.stagnation) == (1, 2)
        assert (after.provider_failures, after.stagnation) == (1, 3)


def test_after_a_change_was_taken_back_the_last_one_was_kept_in_nobody_s_turn() -> None:
    before = climbed(KEPT, WORSE)
    after = before.after(iteration(9, 3, "kept", "taken_back", taken_back=1))
    rotations = (before.rotation, after.rotation)
    assert [(rotation.has_kept, rotation.tries) for rotation in rotations] == [(True, 1), (False, 0)]


def test_a_record_without_a_stack_is_written_as_before() -> None:
    line = to_line(iteration(1, 1, *WORSE))
    assert "stacked" not in line
    stack = iteration(1, 1, *WORSE, stacked=(1, 2), not_stacked=((3, 4),))
    assert '"stacked":[1,2],"not_stacked":[[3,4]]' in to_line(stack)
    assert from_plain(IterationRecord, json.loads(to_line(stack))) == stack


def test_a_new_run_begins_with_empty_hands_and_a_new_baseline_an_epoch_with_its_own_best() -> None:
    before = climbed(KEPT, WORSE, ("skipped", "provider_failed"))
    after = before.after(run(9))
    assert after.run_id == "run9"
    assert (after.spend.iterations, after.stagnation, after.provider_failures, after.outcomes) == (0, 0, 0, {})
    for name in ("incumbent", "best", "total", "tip"):
        assert getattr(after, name) == getattr(before, name)
    before = climbed(KEPT).after(measurement(8))
    after = before.after(iteration(9, 2, "baseline", "measured", 0.1, epoch=1))
    assert after.epoch == 1
    assert after.baseline == after.incumbent == after.best is not None
    assert after.best.value == 0.1
    assert after.measurements == ()


def test_pooled_measurements_are_the_newest_of_this_tree_under_this_ruler() -> None:
    rows = [measurement(1), measurement(2, tree="other"), measurement(3, ruler="other"), measurement(4)]
    assert [row.seq for row in fold(rows).pooled("t", "ruler")] == [1, 4]
    standing = fold([measurement(seq) for seq in range(200)])
    assert [row.seq for row in standing.pooled("t", "ruler")] == list(range(150, 200))


def test_the_cost_is_unknown_only_where_no_call_told_it() -> None:
    silent = iteration(1, 0, "baseline", "measured", usage=Usage(1, 1, 1))
    assert fold([silent]).total.usage.cost_usd is None
    assert fold([silent, iteration(2, 1, *WORSE)]).total.usage.cost_usd == 0.25


@pytest.mark.parametrize("name", ["commit_hash", "tree_hash"])
def test_a_keep_without_its_commit_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="record 2: kept without"):
        climbed().after(replace(iteration(2, 1, *KEPT), **{name: None}))


def test_iterations_side_by_side_take_the_climb_less_time_than_themselves() -> None:
    before, record = climbed(WORSE), iteration(9, 2, *WORSE)
    assert "active_seconds" not in to_line(record)
    after = before.after(replace(record, active_seconds=0.5))
    assert after.spend.seconds == after.total.seconds == before.total.seconds + 0.5


def landed(seq: int, number: int, label: tuple[str, str], base: str, *values: float, **more: object) -> IterationRecord:
    """A record of a climb with four benches; each value is one run of the incumbent after one of the candidate."""
    runs = [
        VerifierRun(of, value, 1, 1.0) for value in values for of, value in (("candidate", 0.4), ("incumbent", value))
    ]
    record = iteration(seq, number, *label, base_commit_hash=base, benches=4, host="here", runs=tuple(runs))
    return replace(record, rollback_commit_hash=None, **more)  # type: ignore[arg-type]


def test_what_was_begun_before_the_last_keep_counts_and_moves_nothing() -> None:
    before = climbed(WORSE).after(landed(9, 5, KEPT, "commit1"))
    after = fold([landed(10, 2, WORSE, "commit1", 0.5), landed(11, 6, WORSE, "commit9")], before)
    assert (before.tip, before.last_iteration, before.tries) == ("commit9", 5, 2)
    assert (after.tip, after.incumbent, after.best, after.keeps) == ("commit9", before.incumbent, before.best, 1)
    assert (after.last_iteration, after.next_iteration, after.tries, after.stagnation) == (6, 7, 4, 2)
    assert (after.tried, after.total.iterations) == (4, 4) and after.last and after.last.iteration == 6
    assert after.after(iteration(12, 7, "baseline", "measured")).tries == 0


def test_whoever_kept_a_change_stays_though_one_that_was_begun_in_another_s_turn_is_recorded_after_it() -> None:
    a, b = ({"provider": name, "model": "", "turn_of": name} for name in "ab")
    moved = (Attempt("older", "moved", Usage(), "commit1"),)
    before = fold([landed(3, 2, WORSE, "commit1", **a), landed(4, 3, WORSE, "commit1", **b)], climbed())
    assert before.rotation.turn == "b"
    kept = before.after(landed(5, 1, KEPT, "commit1", **a))
    late = fold([landed(6, 4, WORSE, "commit1", **b), landed(7, 5, WORSE, "commit5", attempts=moved, **b)], kept)
    assert (kept.rotation.turn, late.rotation.turn, late.rotation.tries) == ("a", "a", 0)
    assert late.after(landed(8, 6, WORSE, "commit5", **b)).rotation.turn == "b"


def test_the_incumbents_runs_count_where_it_is_the_present_one_and_measured_beside_as_many() -> None:
    alone = climbed().after(replace(landed(8, 1, WORSE, "commit1", 0.5, 0.6), benches=None, host=None))
    assert [run.value for run in alone.noise.incumbent] == [0.5, 0.6] and len(alone.noise.pairs) == 2
    kept = climbed().after(landed(9, 5, KEPT, "commit1", 0.5))
    late = kept.after(landed(10, 2, WORSE, "commit1", 0.7, 0.9))
    assert late.noise.incumbent == kept.noise.incumbent == () and late.noise.clock == kept.noise.clock + 4
    assert [before == after for before, after in late.noise.pairs] == [True, True], (
        "the incumbent's run agrees with its value, and the candidate's own runs tell of the noise"
    )
    present = late.after(landed(11, 6, WORSE, "commit9", 0.8))
    assert present.noise.incumbent == (TimedRun(0.8, present.noise.clock),)
    for other in ({"benches": 2}, {"host": "there"}, {"benches": None, "host": None}, {"benches": 1}):
        moved = present.after(landed(12, 7, WORSE, "commit9", 0.3, **other))
        assert [run.value for run in moved.noise.incumbent] == [0.3] and len(moved.noise.pairs) == 0, other
    beside = replace(measurement(13, "tree9", "ruler9"), asked_by="settle")
    assert present.after(beside).noise.incumbent == present.noise.incumbent, "it was measured alone"
