"""When a run ends by itself: asked of limits and standing, with the contract's reason and exit code."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalseek.limits import EXIT_CODES, Stop, until, why_stop
from goalseek.manifest import Limits, Metric
from goalseek.standing import Mark, Spend, Standing

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
METRIC = Metric(name="accuracy", direction="maximize")
NONE = Limits(stagnation=None, failures=None)


def best(value: float, **guards: float) -> Standing:
    mark = Mark(1, 1, "c", "t", value, guards)
    return Standing(metric="accuracy", best=mark, incumbent=mark)


def reason(limits: Limits, standing: Standing, metric: Metric = METRIC, now: datetime = NOON) -> str | None:
    stop = why_stop(limits, metric, standing, now)
    return stop.reason if stop else None


@given(st.integers(0, 10**6), st.floats(0, 1e9), st.integers(0, 1000), st.integers(0, 1000), st.floats(0, 1))
def test_without_limits_and_target_a_run_never_ends(
    iterations: int, seconds: float, failures: int, crashes: int, value: float
) -> None:
    standing = replace(
        best(value),
        spend=Spend(iterations, seconds),
        provider_failures=failures,
        crashes=crashes,
        stagnation=iterations,
    )
    assert reason(NONE, standing) is None


@given(st.integers(1, 100), st.integers(0, 200))
def test_iterations_end_a_run_exactly_at_the_limit(limit: int, done: int) -> None:
    stop = reason(replace(NONE, iterations=limit), replace(best(0.5), spend=Spend(done)))
    assert stop == ("iterations" if done >= limit else None)


@given(st.floats(1, 1e6), st.floats(0, 2e6))
def test_active_time_ends_a_run_exactly_at_the_limit(limit: float, used: float) -> None:
    stop = reason(replace(NONE, time=limit), replace(best(0.5), spend=Spend(0, used)))
    assert stop == ("time" if used >= limit else None)


@given(st.timedeltas(timedelta(days=-9), timedelta(days=9)), st.integers(-12, 14))
def test_a_deadline_is_a_moment_whatever_its_time_zone(away: timedelta, hours: int) -> None:
    deadline = (NOON + away).astimezone(timezone(timedelta(hours=hours)))
    assert reason(replace(NONE, deadline=deadline), best(0.5)) == ("deadline" if away <= timedelta() else None)


def test_a_deadline_without_a_time_zone_is_local_time() -> None:
    local = NOON.astimezone().replace(tzinfo=None)
    assert reason(replace(NONE, deadline=local), best(0.5)) == "deadline"
    assert reason(replace(NONE, deadline=local + timedelta(seconds=1)), best(0.5)) is None


@given(st.integers(1, 30), st.integers(0, 60))
def test_failures_in_a_row_and_crashes_in_a_row_end_a_run(limit: int, failures: int) -> None:
    expected = "failures" if failures >= limit else None
    assert reason(replace(NONE, failures=limit), Standing(provider_failures=failures)) == expected
    assert reason(replace(NONE, failures=limit), Standing(crashes=failures)) == expected


@pytest.mark.parametrize(("direction", "value", "stop"), [
    ("maximize", 0.99, "target"), ("maximize", 1.0, "target"), ("maximize", 0.98, None),
    ("minimize", 0.99, "target"), ("minimize", 0.5, "target"), ("minimize", 1.0, None),
])  # fmt: skip
def test_a_target_that_is_reached_ends_the_run(direction: str, value: float, stop: str | None) -> None:
    metric = Metric(name="accuracy", direction=direction, target=0.99)  # type: ignore[arg-type]
    assert reason(NONE, best(value), metric) == stop


def test_without_a_best_no_target_is_reached() -> None:
    assert reason(NONE, Standing(), replace(METRIC, target=0.0)) is None


def test_the_limit_is_named_and_what_to_do() -> None:
    stop = why_stop(replace(NONE, iterations=3), METRIC, replace(best(0.5), spend=Spend(3)), NOON)
    assert stop is not None
    assert "limits.iterations = 3" in stop.why
    assert "--new" in stop.next
    assert stop.exit_code == 0


@pytest.mark.parametrize(
    ("code", "reasons"),
    [
        (0, "count for until asked target iterations time deadline tokens cost"),
        (1, "failures baseline_failed incumbent_failed verifier_said_stop"),
        (3, "repository provider sandbox auth disk tampered"),
        (5, "needs_human"),
    ],
)
def test_each_reason_has_the_contracts_exit_code(code: int, reasons: str) -> None:
    assert {Stop(reason, "").exit_code for reason in reasons.split()} == {code}
    assert {reason for reason, known in EXIT_CODES.items() if known == code} == set(reasons.split())


@given(st.sampled_from([">=", "<=", ">", "<", "==", "!="]), st.integers(-5, 5), st.integers(-5, 5), st.booleans())
def test_a_condition_holds_as_python_would_say(relation: str, bound: int, value: int, spaced: bool) -> None:
    space = " " if spaced else ""
    condition = until(f"accuracy{space}{relation}{space}{bound}", ("accuracy", "size"))
    assert condition.holds(best(float(value))) == eval(f"{value} {relation} {bound}")
    assert not condition.holds(Standing(metric="accuracy"))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_may_be_a_bound(bound: float) -> None:
    assert until(f"accuracy >= {bound!r}", ("accuracy",)).bound == bound


def test_a_condition_may_be_on_a_guard_of_the_best() -> None:
    condition = until("size kb <= 512", ("accuracy", "size kb"))
    assert condition.holds(best(0.5, **{"size kb": 512.0}))
    assert not condition.holds(best(0.5, **{"size kb": 513.0}))
    assert not condition.holds(best(0.5))


@pytest.mark.parametrize(
    "written",
    ["", "accuracy", "accuracy>=", ">=1", "loss>=1", "accuracy=1", "accuracy>=1.2.3", "accuracy>=.", "accuracy>=x"],
)
def test_a_condition_that_cannot_be_read_is_refused_with_the_names(written: str) -> None:
    with pytest.raises(ValueError, match="NAME OP NUMBER, where NAME is one of accuracy, size"):
        until(written, ("accuracy", "size"))
