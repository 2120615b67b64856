"""The recorded values under another rule: in order up to the first difference, then each decision by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from noise_sessions import metric_of, noisy_session, runs_of, update_noise
from records import iteration, run

from goalseek.evaluation.rejudge import Rejudged, rejudge
from goalseek.ledger.records import IterationRecord, MetricResult, Record
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Budget, Limits, Metric
from goalseek.phase_values import Verdict
from goalseek.statistics.sequential_test import next_step

NO_LIMITS = Limits(stagnation=None, failures=None)
ONCE = metric_of(noise="none")
BEGIN = replace(run(0), run_id="r")
FIXED = ("guard", "not_valid", "verify_failed", "review_rejected", "declined", "no_change", "provider_failed")


def climb(*values: float, **more: Any) -> list[Record]:
    """The records of a climb that minimizes and measures once; the first value is the baseline's."""
    records: list[Record] = [BEGIN]
    standing = Standing().after(records[0])
    for number, value in enumerate(values):
        runs = runs_of("candidate", value)
        verdict = next_step(ONCE, standing.noise, runs) if number else Verdict("baseline", "measured", "")
        assert isinstance(verdict, Verdict)
        metric = MetricResult("m", "minimize", value, None, verdict.delta)
        stamp = f"2026-01-01T0{number}:00:00Z"
        record = iteration(
            number + 1, number, verdict.outcome, verdict.reason, metric=metric, runs=runs, timestamp=stamp
        )
        records.append(replace(record, **more))
        standing = standing.after(records[-1])
    return records


def judged(
    records: Sequence[Record], metric: Metric | None, limits: Limits = NO_LIMITS, target: Any = None
) -> Rejudged:
    rejudged = rejudge(iter(records), metric, limits, replace(ONCE, target=target))
    assert rejudged
    return rejudged


def outcomes(rejudged: Rejudged) -> list[tuple[str | None, bool]]:
    return [(row.new_outcome, row.in_order) for row in rejudged.decisions]


@pytest.mark.parametrize("noise", ["auto", "always", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_under_the_same_rule_every_decision_is_the_same_for_the_same_reason(noise: str, seed: int) -> None:
    metric = metric_of(noise=noise)
    records = noisy_session(metric, seed, 60).records
    rejudged = judged(records, metric)
    assert rejudged.same == len(rejudged.decisions) == 60 and {row.in_order for row in rejudged.decisions} == {True}
    assert [row.new_reason for row in rejudged.decisions] == [record.reason for record in records[1:]]
    assert {row.outcome for row in rejudged.decisions} == {"kept", "reverted"}


def test_after_the_first_difference_a_decision_is_held_against_what_was_recorded_before_it() -> None:
    records = climb(10.0, 9.5, 9.4, 9.15, 9.6)
    assert [record.outcome for record in records[1:] if isinstance(record, IterationRecord)][1:] == ["kept"] * 3 + [
        "reverted"
    ]
    rejudged = judged(records, replace(ONCE, min_delta=0.3))
    # In order the third would be held against 9.5, and kept; by itself it is 0.25 better than 9.4.
    assert outcomes(rejudged) == [("kept", True), ("reverted", True), ("reverted", False), ("reverted", False)]
    assert (rejudged.same, [row.is_same for row in rejudged.decisions]) == (1, [True, False, False, True])
    assert rejudged.decisions[2].why == "9.15 beats 9.4 by 0.25, less than min_delta, 0.3"
    assert (rejudged.metric, rejudged.last_iteration, rejudged.best) == (("m", "minimize"), 4, 9.15)


def test_what_landed_late_is_held_against_the_incumbent_that_it_is_a_change_of() -> None:
    records = climb(10.0, 9.5, 9.0)
    late = replace(records[-1], base_seq=2, runs=runs_of("candidate", 9.3), benches=2)
    first = replace(late, seq=8, iteration=3, outcome="reverted", reason="worse", rollback_commit_hash=None)
    rejudged = judged([*records, first, replace(first, seq=9, iteration=1, base_seq=3)], ONCE)
    assert [row.new_outcome for row in rejudged.decisions] == ["kept", "kept", "kept", "reverted"]
    assert "9.3 beats 9.5" in rejudged.decisions[2].why and rejudged.last_iteration == 1


def test_what_was_decided_while_others_were_recorded_is_held_against_what_was_known_when_it_was_begun() -> None:
    metric = metric_of()
    session = noisy_session(metric, 1, 3)
    for _ in range(20):
        late = replace(session, records=[*session.records])
        base = late.records[-1].seq
        session.candidate()
        late.candidate()
        number = len(session.records)
        session.records.append(replace(late.records[-1], seq=number, iteration=number, base_seq=base))
        session.state = update_noise(session.state, session.records[-1])
    rejudged = judged(session.records, metric)
    assert rejudged.same == len(rejudged.decisions) == 43
    assert [row.new_reason for row in rejudged.decisions] == [record.reason for record in session.records[1:]]


def test_in_order_the_noise_is_what_the_other_rule_would_have_seen() -> None:
    metric = metric_of()
    records = noisy_session(metric, 3, 60).records
    once = judged(records, ONCE)
    first = records[0].runs[0].value
    assert first is not None and f" {first:.6g} by " in once.decisions[0].why, "it would have run the baseline once"
    fewer = judged(records, replace(metric, max_repeats=2))
    assert fewer.same > 3 and None not in [row.new_outcome for row in fewer.decisions]
    assert fewer.same < len(fewer.decisions)


def test_where_the_recorded_runs_end_it_says_which_run_it_asks_for() -> None:
    always = judged(climb(10.0, 9.5, 9.4), metric_of(noise="always"))
    assert outcomes(always) == [(None, True), (None, False)]
    assert always.decisions[0].why == "it asks for run 1 of the incumbent, and 0 were recorded"
    records = noisy_session(metric_of(max_repeats=3), 2, 60).records
    spent = judged(records, metric_of(max_repeats=9))
    needy = [row for row in spent.decisions if row.new_outcome is None]
    assert needy and all(row.reason == "within_noise" for row in needy) and spent.decisions[spent.same] == needy[0]
    assert "it asks for run 4 of the candidate, and 3 were recorded" in {row.why for row in needy}


def test_what_a_guard_a_failure_a_review_or_a_person_decided_stays() -> None:
    records = climb(10.0, 9.5, *[9.0] * len(FIXED), 9.4)
    for index, reason in enumerate(FIXED, start=3):
        record = records[index]
        assert isinstance(record, IterationRecord)
        records[index] = replace(record, outcome="reverted", reason=reason, rollback_commit_hash="x", why="size is 9")
    last = records[-1]
    assert isinstance(last, IterationRecord)
    records[-1] = replace(last, outcome="kept", reason="better")
    rejudged = judged(records, replace(ONCE, min_delta=0.2))
    assert (rejudged.others, rejudged.same) == (len(FIXED), 1)
    assert [(row.iteration, row.new_outcome) for row in rejudged.decisions] == [(1, "kept"), (9, "reverted")]
    out_of_range = replace(
        last, outcome="reverted", reason="not_valid", why="m is 9.4, outside its valid range, 0 to 9"
    )
    wider = judged([*records[:-1], out_of_range], replace(ONCE, valid=(0.0, 20.0)))
    assert wider.decisions[-1].new_outcome == "kept"


def test_only_decisions_since_the_newest_baseline_count_but_all_that_was_spent() -> None:
    first, second = climb(10.0, 9.5, 9.4), climb(20.0, 19.0)[1:]
    numbered = (replace(record, seq=10 + number, iteration=3 + number) for number, record in enumerate(second))
    records = [*first, *numbered]
    assert len(judged(records, ONCE).decisions) == 1 and judged(records, ONCE).best == 19.0
    limit = replace(NO_LIMITS, total=Budget(iterations=2))
    end = judged(records, None, limit).end
    assert end and (end.iteration, end.reason) == (3, "iterations")
    assert rejudge(iter([BEGIN]), ONCE, NO_LIMITS, ONCE) is rejudge(iter(()), ONCE, NO_LIMITS, ONCE) is None


@pytest.mark.parametrize(
    ("limits", "target", "end"),
    [
        ({"iterations": 2}, None, (2, "iterations", 9.4)),
        ({"iterations": 4}, None, (4, "iterations", 9.4)),
        ({"iterations": 5}, None, None),
        ({"tokens": 48}, None, (2, "tokens", 9.4)),
        ({"cost_usd": 0.5}, None, (1, "cost", 9.5)),
        ({"time": 7.0}, None, (1, "time", 9.5)),
        ({"stagnation_stop": 2}, None, (4, "needs_human", 9.4)),
        ({"stagnation_stop": 3}, None, None),
        ({"deadline": "2026-01-01T01:30:00Z"}, None, (2, "deadline", 9.4)),
        ({}, 9.5, (1, "target", 9.5)),
        ({}, 9.0, None),
    ],
)
def test_a_limit_ends_the_run_where_it_would_have_been_reached(
    limits: dict[str, Any], target: float | None, end: tuple[int, str, float] | None
) -> None:
    records = climb(10.0, 9.5, 9.4, 9.45, 9.6)
    if "deadline" in limits:
        limits = {"deadline": datetime.fromisoformat(limits["deadline"])}
    rejudged = judged(records, None, replace(NO_LIMITS, **limits), target)
    assert (rejudged.end and (rejudged.end.iteration, rejudged.end.reason, rejudged.end.best)) == end
    assert rejudged.decisions == () and rejudged.others == 0 and rejudged.best == 9.4


def test_where_several_were_under_way_the_run_ends_after_the_record_that_reached_the_limit() -> None:
    numbers = (0, 4, 3, 2, 1)
    records = [
        replace(record, iteration=numbers[record.iteration]) if isinstance(record, IterationRecord) else record
        for record in climb(10.0, 9.5, 9.4, 9.45, 9.6)
    ]
    rejudged = judged(records, None, replace(NO_LIMITS, iterations=3))
    assert rejudged.end and (rejudged.end.iteration, rejudged.end.best, rejudged.last_iteration) == (2, 9.4, 1)


def test_with_another_rule_a_limit_counts_only_as_long_as_the_decisions_are_the_same() -> None:
    records = climb(10.0, 9.5, 9.4, 9.45, 9.6)
    stopped = judged(records, ONCE, replace(NO_LIMITS, iterations=2))
    assert len(stopped.decisions) == 2 and stopped.end and stopped.end.iteration == 2
    deadline = datetime.fromisoformat("2026-01-01T01:30:00Z")
    unknown = judged(records, replace(ONCE, min_delta=1.0), replace(NO_LIMITS, iterations=2, deadline=deadline))
    assert unknown.end is None and len(unknown.decisions) == 4 and unknown.same == 0


def test_a_tie_that_was_kept_for_its_fewer_lines_stays_one() -> None:
    records = climb(10.0, 10.0, 10.0)
    simpler = records[2]
    assert isinstance(simpler, IterationRecord) and simpler.reason == "tie"
    records[2] = replace(simpler, outcome="kept", reason="simpler", rollback_commit_hash=None)
    assert [row.new_reason for row in judged(records, replace(ONCE, min_delta=1.0)).decisions] == ["simpler", "tie"]
