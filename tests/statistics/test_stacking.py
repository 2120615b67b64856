"""Stacking: which near misses of one tip are tried together, from records alone."""

import time
from itertools import islice
from typing import Any

import pytest
from msgspec.structs import replace
from noise_sessions import baseline_state, metric_of, record_of, runs_of

from goalseek.manifest.tables import Search
from goalseek.records import IterationRecord, MetricResult
from goalseek.statistics.cases import CaseState
from goalseek.statistics.noise import NoiseState
from goalseek.statistics.stacking import (
    CANDIDATES_BEFORE,
    CANDIDATES_BETWEEN,
    LOOK_BACK,
    NEAREST,
    is_stacking,
    next_stack,
)
from goalseek.values import CaseResult, Reason

NOISE = baseline_state(100.0, 101.0, 100.0, 101.0, 100.0)  # runs differ by one: an sd of about 0.9


def miss(number: int, *gains: float, reason: str = Reason.WORSE, **more: Any) -> IterationRecord:
    """A rejected candidate whose runs were better than the incumbent's 100 by these amounts; lower is better."""
    record = record_of(number, "reverted", runs_of("candidate", *(100.0 - gain for gain in gains)), reason=reason)
    return replace(record, metric=MetricResult("m", "minimize", None, 100.0, None), **more)


FAR = [miss(100 + number, -9.0) for number in range(CANDIDATES_BEFORE - 4)]


def ask(*records: IterationRecord, **more: Any) -> tuple[int, ...]:
    """The next stack after some candidates that are far off, and these, oldest first."""
    return next_stack(reversed([*FAR, *records]), "minimize", NOISE, **more)


def test_after_eight_candidates_and_then_after_every_four_the_nearest_misses_are_tried_together() -> None:
    misses = [miss(1, -2.0), miss(2, -0.3), miss(3, -0.1), miss(4, -1.5)]
    assert ask(*misses[:3]) == ()
    assert ask(*misses) == (2, 3)
    together = miss(5, -0.5, stacked=(2, 3))
    since = [miss(number, -2.0) for number in range(6, 6 + CANDIDATES_BETWEEN)]
    assert ask(*misses, together, *since[:-1]) == ()
    assert ask(*misses, together, *since) == (3, 4), "a set is tried once, and a set is no member of another"


def miss_of_cases(number: int, t: float, run: int, value: float) -> IterationRecord:
    """A rejected candidate that ran on so many of 200 cases, on which its mean was ``value``."""
    record = miss(number, 100.0 - value)
    cases = CaseResult(0, 0, 0, run, 200, t, 1.0)
    return replace(record, metric=replace(record.metric, direction="maximize", incumbent=0.5, cases=cases))


def test_with_cases_a_near_miss_is_told_by_its_pairs_not_by_the_luck_of_its_first_cases() -> None:
    noise = NoiseState(value=0.5, cases=CaseState(tuple(map(str, range(200)))))
    far = [miss_of_cases(100 + number, -3.0, 25, 0.4) for number in range(CANDIDATES_BEFORE - 4)]
    near = [miss_of_cases(2, 1.2, 200, 0.52), miss_of_cases(4, 1.4, 200, 0.53)]
    lucky, unlucky = miss_of_cases(1, -1.5, 25, 0.9), miss_of_cases(3, 0.0, 50, 0.2)
    records = [*far, lucky, near[0], unlucky, near[1]]
    assert next_stack(reversed(records), "maximize", noise) == (2, 4)
    tried = [(2, 4)]
    assert next_stack(reversed(records), "maximize", noise, tried) == (2, 3, 4), (
        "nothing lost yet is nearer than a loss"
    )


SEVERAL = (0.3, 0.4, 0.3, 0.4, 0.3, 0.4)


@pytest.mark.parametrize(
    ("gains", "stack"),
    [
        pytest.param([(0.9, 0.7, 0.8), (1.0, 0.6), (0.9, 0.8), (-1.0,)], (1, 2, 3), id="three that look like gains"),
        pytest.param([(0.4,), SEVERAL, (-0.2,), (-0.2,), (-3.0,)], (1, 2), id="the nearest two"),
        pytest.param([(0.4,), SEVERAL, (0.5, 0.5, 0.5), (-2.0,)], (2, 3), id="a first run counts for less"),
        pytest.param([(-5.0,)] * 7, (), id="all are far off"),
        pytest.param([(-0.1,), *[(-5.0,)] * 6], (), id="all but one are far off"),
    ],
)
def test_near_misses_are_tried_together(gains: list[tuple[float, ...]], stack: tuple[int, ...]) -> None:
    assert ask(*(miss(number, *several) for number, several in enumerate(gains, start=1))) == stack


@pytest.mark.parametrize("reason", sorted(Reason))
def test_only_what_the_number_alone_rejected_may_be_tried_again_with_others(reason: str) -> None:
    records = [miss(1, 0.4, reason=reason), *(miss(number, -0.1 * number) for number in range(2, 6))]
    is_by_number = reason in ("worse", "within_noise", "tie", "below_min_delta")
    assert ask(*records) == ((1, 2) if is_by_number else (2, 3))


def test_sets_that_came_to_nothing_are_not_asked_for_again() -> None:
    misses = [miss(number, -0.1 * number) for number in range(1, 5)]
    first = ask(*misses)
    second = ask(*misses, refused=[first])
    assert first == (1, 2) and second == (1, 3)
    assert ask(*misses[:3], replace(misses[3], not_stacked=(first, second))) == ask(*misses, refused=[first, second])
    refused: list[tuple[int, ...]] = []
    while stack := ask(*misses, refused=refused):
        refused.append(stack)
    assert len(refused) == len(set(refused)) == 6 + 4, "pairs and threes of four"


def test_candidates_without_a_number_and_failed_calls_do_not_count_as_candidates_between_sets() -> None:
    failed = [replace(miss(number, reason=Reason.PROVIDER_FAILED), runs=()) for number in range(4, 12)]
    assert ask(miss(1, -0.1), miss(2, -0.2), miss(3, -0.3), *failed) == ()
    assert ask(miss(1, -0.1), miss(2, -0.2), miss(3, -0.3), *failed, miss(12, -3.0)) == (1, 2)


def test_it_maximizes_as_it_minimizes_and_tells_nearness_without_a_spread() -> None:
    values = {1: 98.0, 2: 99.9, 3: 99.0, 4: 99.8}
    metric = MetricResult("m", "maximize", None, 100.0, None)
    records = [
        replace(miss(number), runs=runs_of("candidate", value), metric=metric) for number, value in values.items()
    ]
    records += [replace(record, iteration=record.iteration + 4, reason=Reason.GUARD) for record in records]
    assert next_stack(reversed(records), "maximize", NOISE) == (2, 4)
    assert next_stack(reversed(records), "maximize", baseline_state(100.0, 100.0, 100.0)) == (2, 4)


@pytest.mark.parametrize(
    ("stack", "noise", "differed", "expected"),
    [
        ("auto", "auto", True, True),
        ("auto", "auto", False, False),
        ("auto", "always", False, True),
        ("auto", "none", True, False),
        ("always", "none", False, True),
        ("none", "always", True, False),
    ],
)
def test_it_is_done_where_the_metric_is_noisy_or_the_manifest_says_so(
    stack: Any, noise: str, differed: bool, expected: bool
) -> None:
    assert is_stacking(Search(stack=stack), metric_of(noise=noise), NoiseState(differed=differed)) is expected


def test_it_takes_two_milliseconds_at_most_however_long_the_row_of_rejections_is() -> None:
    seen = (miss(number, -0.001 * (number % 97), -0.2) for number in range(10_000, 0, -1))
    assert len(next_stack(seen, "minimize", NOISE)) >= 2
    assert next(seen).iteration == 10_000 - LOOK_BACK
    records = list(islice(seen, LOOK_BACK))
    began = time.process_time()
    for _ in range(20):
        next_stack(iter(records), "minimize", NOISE)
    assert (time.process_time() - began) / 20 < 0.002 * 3, "three times what is promised, for slow machines"
    assert NEAREST == 5
