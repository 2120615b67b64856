"""When a run ends by itself: asked of limits and standing, with the contract's reason and exit code."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace
from records import iteration

from goalseek.ledger.standing import MeasuredCommit, Spend, Standing
from goalseek.manifest.tables import Budget, Limits, Manifest, Metric, ProjectTable, ScopeTable
from goalseek.phase_values import Ahead
from goalseek.project.limits import ALONE, BudgetUse, Spending, budget_warnings, find_limit, why_stop
from goalseek.project.picture import describe_end
from goalseek.project.progress import median_iteration_seconds, progress_of
from goalseek.project.stop import Ends, parse_until
from goalseek.proposal.brief import remaining_budget
from goalseek.values import EXIT_CODES, Stop, StopReason, Usage

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
METRIC = Metric(name="accuracy", direction="maximize")
NONE = Limits(stagnation=None, failures=None)


def best(value: float, **guards: float) -> Standing:
    mark = MeasuredCommit(1, 1, "c", "t", value, guards)
    return Standing(metric="accuracy", best=mark, incumbent=mark)


def half_way(**changed: object) -> Standing:
    return structs.replace(best(0.5), **changed)


def of_run(budget: Budget) -> Limits:
    return Limits(iterations=budget.iterations, time=budget.time, tokens=budget.tokens, cost_usd=budget.cost_usd)


def reason_of(stop: Stop | None) -> str | None:
    return stop.reason if stop else None


def reason(limits: Limits, standing: Standing, metric: Metric = METRIC, now: datetime = NOON) -> str | None:
    return reason_of(why_stop(limits, metric, standing, now))


@given(st.integers(0, 10**6), st.floats(0, 1e9), st.integers(0, 1000), st.integers(0, 1000), st.floats(0, 1))
def test_without_limits_and_target_a_run_never_ends(
    iterations: int, seconds: float, failures: int, crashes: int, value: float
) -> None:
    spend = Spend(iterations, seconds)
    failed = half_way(spend=spend, provider_failures=failures, crashes=crashes, stagnation=iterations)
    assert reason(NONE, structs.replace(failed, best=best(value).best)) is None


@given(st.integers(1, 100), st.integers(0, 200), st.tuples(*[st.integers(0, 60)] * 3))
def test_each_limit_ends_a_run_exactly_where_it_is_reached(limit: int, done: int, told: tuple[int, int, int]) -> None:
    spent = half_way(spend=Spend(done, float(done), Usage(*told, cost_usd=sum([0.01] * done))))
    assert reason(replace(NONE, iterations=limit), spent) == ("iterations" if done >= limit else None)
    assert reason(replace(NONE, time=float(limit)), spent) == ("time" if done >= limit else None)
    assert reason(replace(NONE, tokens=limit), spent) == ("tokens" if sum(told) >= limit else None)
    assert reason(replace(NONE, cost_usd=limit / 100), spent) == ("cost" if done >= limit else None)
    assert reason(replace(NONE, cost_usd=limit / 100), half_way(spend=Spend(1, 1.0, Usage(*told)))) is None


BUDGETS = (
    (Budget(iterations=4), Spend(4), Spend(3), "iterations"),
    (Budget(time=4.0), Spend(1, 4.0), Spend(1, 3.0), "time"),
    (Budget(tokens=4), Spend(1, 1.0, Usage(1, 2, 1)), Spend(1, 1.0, Usage(1, 1, 1)), "tokens"),
    (Budget(cost_usd=4.0), Spend(1, 1.0, Usage(cost_usd=4.0)), Spend(1, 1.0, Usage(cost_usd=3.0)), "cost"),
)


@pytest.mark.parametrize(("budget", "spent", "nearly", "expected"), BUDGETS, ids=[row[3] for row in BUDGETS])
def test_a_budget_of_a_run_or_of_all_is_warned_of_from_three_quarters_on_and_named_where_it_is_reached(
    budget: Budget, spent: Spend, nearly: Spend, expected: str
) -> None:
    stop = why_stop(of_run(budget), METRIC, half_way(spend=spent), NOON)
    assert stop and (stop.reason, stop.exit_code) == (expected, 0)
    assert f"limits.{expected.replace('cost', 'cost_usd')} = 4" in stop.why and "--new" in stop.next
    stop = why_stop(replace(NONE, total=budget), METRIC, half_way(total=spent), NOON)
    assert stop and (stop.reason, stop.exit_code) == (expected, 0)
    assert "limits.total." in stop.why and "--new" not in stop.next
    assert reason(replace(NONE, total=budget), half_way(spend=spent, total=nearly)) is None
    for limits, standing in (
        (of_run(budget), lambda spend: half_way(spend=spend)),
        (Limits(total=budget), lambda spend: half_way(total=spend)),
    ):
        ((key, text),) = budget_warnings(limits, standing(nearly)).items()
        assert key in text and text.startswith("three quarters of limits.")
        assert budget_warnings(limits, standing(spent)) == {}
        assert not [key for key in budget_warnings(limits, standing(Spend())) if "unknown" not in key]


@given(
    st.sampled_from(BUDGETS),
    st.booleans(),
    st.sampled_from(["READ_CONTEXT", "PLAN", "APPLY_CHANGE", "COMMIT", "VERIFY", "DECIDE", "LOG"]),
)
def test_before_a_phase_that_spends_the_limits_are_asked_with_what_the_iteration_has_spent(
    row: tuple[Budget, Spend, Spend, str], is_total: bool, phase: str
) -> None:
    budget, spent, nearly, expected = row
    limits = Limits(total=budget) if is_total else of_run(budget)
    begun = half_way(spend=Spend(spent.iterations), total=Spend(spent.iterations))
    standing = begun.spending(spent.seconds, spent.usage)
    stop = find_limit(phase, limits, standing, NOON)
    asked = ("time",) if phase == "VERIFY" else ("iterations", "time", "tokens", "cost")
    spends = phase in ("PLAN", "APPLY_CHANGE", "VERIFY")
    assert reason_of(stop) == (expected if spends and expected in asked else None)
    before = half_way(spend=Spend(nearly.iterations), total=Spend(nearly.iterations))
    assert find_limit(phase, limits, before.spending(nearly.seconds, nearly.usage), NOON) is None


@pytest.mark.parametrize(
    ("limits", "call", "expected"),
    [
        (Limits(tokens=100), Usage(10, 20, 10), None),
        (Limits(tokens=100), Usage(10, 21, 10), "tokens"),
        (Limits(cost_usd=1.0), Usage(cost_usd=0.25), None),
        (Limits(cost_usd=1.0), Usage(cost_usd=0.26), "cost"),
        (Limits(cost_usd=1.0), Usage(10**9), None),
        (Limits(total=Budget(tokens=200)), Usage(31), "tokens"),
        (Limits(iterations=2, time=2.0), Usage(10**9, cost_usd=10.0**9), None),
    ],
)
def test_a_call_that_cannot_fit_into_what_is_left_is_not_made(
    limits: Limits, call: Usage, expected: str | None
) -> None:
    spent = half_way(spend=Spend(1, 1.0, Usage(60, cost_usd=0.75)), total=Spend(9, 9.0, Usage(170)))
    for phase in ("PLAN", "APPLY_CHANGE", "REVIEW"):
        stop = find_limit(phase, limits, spent, NOON, call)
        assert reason_of(stop) == expected
        assert not stop or "would not fit" in stop.why
    assert find_limit("VERIFY", limits, spent, NOON, call) is None


def test_what_is_under_way_counts_for_the_run_and_what_earlier_runs_have_used_for_all_runs_alone() -> None:
    spending = Spending(2.0, Usage(5), Usage(7), (Ahead(3), Ahead(4)), calls=2, call=Usage(10))
    recorded = half_way(spend=Spend(1, 1.0, Usage(1)), total=Spend(2, 2.0, Usage(2)))
    counted = spending.added_to(recorded, len(spending.ahead), is_foreseen=True)
    assert (counted.spend, counted.total) == (Spend(3, 3.0, Usage(26)), Spend(4, 4.0, Usage(34)))
    now = spending.added_to(recorded)
    assert (now.spend, now.total) == (Spend(1, 3.0, Usage(6)), Spend(2, 4.0, Usage(14)))
    assert ALONE.added_to(recorded) == recorded and not spending.is_first_call
    assert Spending(ahead=(Ahead(3),), calls=1).is_first_call, "nobody knows yet what a call takes"
    assert find_limit("REVIEW", Limits(iterations=1), recorded, NOON) is None, "what is begun may be reviewed"


SPENT = st.builds(Spend, st.integers(0, 9), st.integers(0, 9).map(float), st.builds(Usage, st.integers(0, 9)))
SOME = st.none() | st.integers(1, 9)


@given(st.builds(Budget, iterations=SOME, time=SOME, tokens=SOME), SOME, SOME, SPENT, SPENT)
def test_what_is_left_is_the_tighter_of_the_run_and_the_total(
    total: Budget, iterations: int | None, tokens: int | None, spend: Spend, spent_by_all: Spend
) -> None:
    limits = Limits(iterations=iterations, tokens=tokens, total=total)
    left = remaining_budget(limits, half_way(spend=spend, total=spent_by_all))
    for key, of_run, of_all, by_run, by_all in (
        ("iterations", iterations, total.iterations, spend.iterations, spent_by_all.iterations),
        ("tokens", tokens, total.tokens, spend.tokens, spent_by_all.tokens),
        ("seconds", None, total.time, spend.seconds, spent_by_all.seconds),
    ):
        rests = [max(most - spent, 0) for most, spent in ((of_run, by_run), (of_all, by_all)) if most is not None]
        assert left.get(key) == min(rests, default=None)


def test_dollars_and_the_deadline_are_among_what_is_left_and_unreported_dollars_are_told() -> None:
    standing = structs.replace(
        best(0.5), spend=Spend(1, 1.0, Usage(cost_usd=0.1)), total=Spend(3, 9.0, Usage(cost_usd=0.3))
    )
    limits = Limits(cost_usd=1.0, deadline=NOON, total=Budget(cost_usd=0.9))
    assert remaining_budget(limits, standing) == {"cost_usd": 0.6, "deadline": NOON.isoformat()}
    assert remaining_budget(Limits(), standing) == {}
    limits = replace(NONE, cost_usd=1.0)
    assert "does not report" in "".join(budget_warnings(limits, half_way(spend=Spend(1))).values())
    assert budget_warnings(limits, half_way(spend=Spend(0))) == {}


@given(st.integers(1, 40), st.integers(0, 60))
def test_stagnation_stop_asks_for_a_person_and_says_what_to_do(limit: int, since: int) -> None:
    stop = why_stop(replace(NONE, stagnation_stop=limit), METRIC, half_way(stagnation=since), NOON)
    assert (stop is not None) == (since >= limit)
    if stop:
        assert (stop.reason, stop.exit_code) == ("needs_human", 5)
        assert "goalseek direct" in stop.next and "--new" in stop.next


@given(st.floats(0.1, 1e5), st.floats(0.1, 1e5))
def test_an_iteration_that_cannot_end_in_time_is_not_begun(left: float, usual: float) -> None:
    now = NOON - timedelta(seconds=left)
    standing = half_way(spend=Spend(1, 100.0), total=Spend(1, 200.0))
    late = why_stop(replace(NONE, deadline=NOON), METRIC, standing, now, usual)
    used = why_stop(replace(NONE, time=100.0 + left), METRIC, standing, now, usual)
    total = why_stop(replace(NONE, total=Budget(time=200.0 + left)), METRIC, standing, now, usual)
    assert why_stop(replace(NONE, deadline=NOON), METRIC, standing, now, None) is None
    if abs(usual - left) > 0.001:
        expected = usual > left
        assert [late is not None, used is not None, total is not None] == [expected] * 3
    for stop, name in ((late, "deadline"), (used, "time"), (total, "time")):
        assert stop is None or (stop.reason == name and "could not end before" in stop.why)


def test_the_pace_is_the_median_of_the_last_five_iterations() -> None:
    took = [iteration(9 - place, 9 - place, "kept", "better", seconds={"PLAN": seconds}) for place, seconds in
            enumerate([1.0, 2.0, 30.0, 4.0, 5.0, 1000.0])]  # fmt: skip
    assert median_iteration_seconds(took) == 4.0
    assert median_iteration_seconds([structs.replace(took[0], outcome="baseline"), *took[1:2]]) == 2.0
    assert median_iteration_seconds([structs.replace(took[0], outcome="baseline")]) is None
    assert median_iteration_seconds([]) is None


@pytest.mark.parametrize(
    ("ends", "reason"),
    [(Ends(count=3), "count"), (Ends(seconds=60.0), "for"), (Ends(until=parse_until("accuracy>=0.5", ("accuracy",))), "until"),
     (Ends(count=4, seconds=61.0), None)],
)  # fmt: skip
def test_what_ends_an_invocation_is_said(ends: Ends, reason: str | None) -> None:
    assert reason_of(ends.reached(best(0.5), 3, 60.0)) == reason


def test_a_single_iteration_has_its_own_bar_beside_the_runs() -> None:
    assert Ends(count=1).spendings(0, 2.0) == (BudgetUse("iterations", 0, 1, "now"),)
    assert Ends().spendings(0, 2.0) == ()
    standing = half_way(spend=Spend(iterations=2))
    limits = replace(NONE, iterations=6)
    demo, scope = ProjectTable(name="demo"), ScopeTable(writable=("a",))
    manifest = Manifest(version=1, project=demo, scope=scope, metric=METRIC, verify=(), limits=limits)
    told = progress_of(manifest, standing, [], "scripted", Ends(count=1).spendings(0, 0.0)).spendings
    assert [(bar.spent, bar.most, bar.of) for bar in told] == [(0, 1, "now"), (2, 6, "")]


@given(st.timedeltas(timedelta(days=-9), timedelta(days=9)), st.integers(-12, 14))
def test_a_deadline_is_a_moment_whatever_its_time_zone_and_without_one_local(away: timedelta, hours: int) -> None:
    deadline = (NOON + away).astimezone(timezone(timedelta(hours=hours)))
    for moment in (deadline, deadline.astimezone().replace(tzinfo=None)):
        limits, expected = replace(NONE, deadline=moment), "deadline" if away <= timedelta() else None
        stops = [find_limit(phase, limits, best(0.5), NOON) for phase in ("PLAN", "APPLY_CHANGE", "VERIFY")]
        assert {reason(limits, best(0.5)), *map(reason_of, stops)} == {expected}


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
    assert reason(NONE, best(value), metric) == stop and reason(NONE, Standing(), metric) is None


@pytest.mark.parametrize(
    ("code", "reasons"),
    [
        (0, "count for until asked target iterations time deadline tokens cost"),
        (1, "failures baseline_failed incumbent_failed verifier_said_stop"),
        (3, "repository provider sandbox auth disk cluster tampered"),
        (5, "needs_human"),
    ],
)
def test_each_reason_has_the_contracts_exit_code(code: int, reasons: str) -> None:
    assert {Stop(reason, "").exit_code for reason in reasons.split()} == {code}
    assert {reason for reason, known in EXIT_CODES.items() if known == code} == set(reasons.split())


BOUNDS = st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.sampled_from([">=", "<=", ">", "<", "==", "!="]), BOUNDS, st.integers(-5, 5), st.sampled_from(["", " "]))
def test_a_condition_holds_as_python_would_say(relation: str, bound: float, value: int, space: str) -> None:
    condition = parse_until(f"accuracy{space}{relation}{space}{bound}", ("accuracy", "size"))
    assert condition.bound == bound
    assert condition.holds(best(float(value))) == eval(f"{value} {relation} {bound}")
    assert not condition.holds(Standing(metric="accuracy"))


def test_a_condition_may_be_on_a_guard_of_the_best() -> None:
    condition = parse_until("size kb <= 512", ("accuracy", "size kb"))
    guards: tuple[dict[str, float], ...] = ({"size kb": 512.0}, {"size kb": 513.0}, {})
    assert [condition.holds(best(0.5, **each)) for each in guards] == [True, False, False]


@pytest.mark.parametrize(
    "written",
    ["", "accuracy", "accuracy>=", ">=1", "accuracy=1", "accuracy>=1.2.3", "accuracy>=.", "accuracy>=x"],
)
def test_a_condition_that_cannot_be_read_is_refused_with_the_names(written: str) -> None:
    with pytest.raises(ValueError, match=r"write, for example, 'accuracy>=0\.99'; the name is one of accuracy, size"):
        parse_until(written, ("accuracy", "size"))
    with pytest.raises(ValueError, match=r"no number is called 'loss'; the name is one of accuracy, size"):
        parse_until("loss>=1", ("accuracy", "size"))


def test_every_end_of_an_invocation_has_its_words_and_no_internal_name_in_brackets() -> None:
    for reason in set(StopReason) - {StopReason.INTERRUPTED}:
        assert re.fullmatch(r"(finished|stopped|failed|blocked)\b[^()]+", describe_end("completed", reason)), reason
    assert describe_end("interrupted", "count") == "interrupted"
    assert describe_end("running", None) == "running"
