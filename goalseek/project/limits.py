"""The limits of a run: target, failures, stagnation, budgets and deadline, with their spend and remainder in seconds.

They are computed from manifest and standing each time, never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from goalseek.humanize import format_duration, format_number, pluralize
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Limits, Metric
from goalseek.process import seconds_with_sleep
from goalseek.values import Phase, Stop, StopReason, Usage

if TYPE_CHECKING:
    from goalseek.phase_values import Ahead

_CALL_LIMITS = (StopReason.TIME, StopReason.TOKENS, StopReason.COST)
LIMITS_BY_PHASE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((Phase.PLAN, Phase.APPLY_CHANGE), (StopReason.ITERATIONS, *_CALL_LIMITS)),
    Phase.VERIFY: (StopReason.TIME,),
    Phase.REVIEW: _CALL_LIMITS,
}
RUN_STOP_REASONS = (*LIMITS_BY_PHASE[Phase.PLAN], StopReason.TARGET, StopReason.DEADLINE, StopReason.NEEDS_HUMAN)
WARNING_SHARE = 0.75
RAISE_LIMIT = "raise it in the manifest"
NEW_RUN_COMMAND = "goalseek iterate --new"


def why_stop(
    limits: Limits,
    metric: Metric,
    standing: Standing,
    now: datetime,
    iteration_seconds: float | None = None,
    reserved_seconds: float = 0.0,
    failures_before: int = 0,
) -> Stop | None:
    """The limit of the run that is reached, or None. ``now`` is an aware time.

    No iteration is begun if ``iteration_seconds`` and the ``reserved_seconds`` for the end of the run do not fit.
    ``failures_before``: failures in a row before this invocation, which asks the provider at least once more.
    """
    if limits.failures is not None:
        if standing.provider_failures >= max(limits.failures, failures_before + 1):
            why = f"the provider failed {pluralize(standing.provider_failures, 'time')} in a row"
            return Stop(StopReason.FAILURES, why, "see: goalseek show; then: goalseek iterate asks it once more")
        if standing.crashes >= limits.failures:
            why = f"{pluralize(standing.crashes, 'measurement')} in a row crashed"
            return Stop(StopReason.FAILURES, why, f"see: goalseek log --outcome reverted; then: {NEW_RUN_COMMAND}")
    if standing.best is not None and is_target_reached(metric, standing.best.value):
        why = f"the target is reached: {metric.name} {format_number(standing.best.value, metric.unit)}"
        return Stop(StopReason.TARGET, why, "take it home with: goalseek promote")
    if limits.stagnation_stop is not None and standing.stagnation >= limits.stagnation_stop:
        since = pluralize(standing.stagnation, "iteration")
        why = f"nothing was kept in {since} (limits.stagnation_stop = {limits.stagnation_stop})"
        look = f'see: goalseek log --last {min(standing.stagnation, 20)}; say what to try: goalseek direct "..."'
        return Stop(StopReason.NEEDS_HUMAN, why, f"{look}; then: {NEW_RUN_COMMAND}{best_home_hint(standing)}")
    return find_limit(Phase.PLAN, limits, standing, now, None, iteration_seconds, reserved_seconds)


def is_target_reached(metric: Metric, value: float) -> bool:
    if metric.target is None:
        return False
    return value >= metric.target if metric.direction == "maximize" else value <= metric.target


def find_limit(
    phase: str,
    limits: Limits,
    standing: Standing,
    now: datetime,
    call: Usage | None = None,
    iteration_seconds: float | None = None,
    reserved_seconds: float = 0.0,
) -> Stop | None:
    """The budget or deadline that is reached, of those that a phase would spend more of; or None.

    A ``call`` of the usual spend that cannot fit is not made. Other arguments are as in ``why_stop``.
    """
    if phase not in LIMITS_BY_PHASE:
        return None
    budgets = [budget for budget in budgets_of(limits, standing) if budget.name in LIMITS_BY_PHASE[phase]]
    for budget in budgets:
        why = f"{budget.limit_text} is reached, {budget.spent_text} spent" if budget.remaining <= 0 else ""
        if not why and budget.name == StopReason.TIME:
            why = _shortage_text(budget.limit_text, budget.remaining, iteration_seconds, reserved_seconds)
        if why:
            return Stop(budget.name, why, budget.hint)
    if limits.deadline is not None and (remaining := seconds_to_deadline(limits, now)) is not None:
        limit_text = f"limits.deadline = {limits.deadline.isoformat()}"
        why = "" if remaining else f"{limit_text} is past"
        if why := why or _shortage_text(limit_text, remaining, iteration_seconds, reserved_seconds):
            return Stop(StopReason.DEADLINE, why, f"{RAISE_LIMIT}, then: goalseek iterate")
    amounts = {StopReason.TOKENS: call.tokens, StopReason.COST: call.cost_usd or 0.0} if call else {}
    for budget in budgets:
        if (amount := amounts.get(budget.name, 0)) > budget.remaining:
            cost_text = f"a call takes about {budget.format(amount)} and would not fit"
            why = f"{budget.limit_text} leaves {budget.format(budget.remaining)}; {cost_text}"
            return Stop(budget.name, why, budget.hint)
    return None


def has_spending_limit(limits: Limits) -> bool:
    return any(budget.tokens is not None or budget.cost_usd is not None for budget in (limits, limits.total))


def dollars_left(limits: Limits, standing: Standing) -> float | None:
    remaining = [budget.remaining for budget in budgets_of(limits, standing) if budget.name == StopReason.COST]
    return max(min(remaining), 0.0) if remaining else None


def seconds_left(limits: Limits, standing: Standing, now: datetime) -> float | None:
    """Seconds of active time or until the deadline, at least 0; None without a limit. ``standing`` is ``for_run``."""
    remaining = [budget.remaining for budget in budgets_of(limits, standing) if budget.name == StopReason.TIME]
    if (until_deadline := seconds_to_deadline(limits, now)) is not None:
        remaining.append(until_deadline)
    return max(min(remaining), 0.0) if remaining else None


def seconds_to_deadline(limits: Limits, now: datetime) -> float | None:
    """0 if the deadline is past; None without one."""
    if limits.deadline is None:
        return None
    aware = limits.deadline if limits.deadline.tzinfo else limits.deadline.astimezone(UTC)
    return max((aware - now).total_seconds(), 0.0)


def budget_warnings(limits: Limits, standing: Standing) -> dict[str, str]:
    """A sentence for each budget that is three quarters spent, and for a cost limit that cannot be checked."""
    warnings = {
        budget.limit_text: f"three quarters of {budget.limit_text} are spent: {budget.spent_text}"
        for budget in budgets_of(limits, standing)
        if WARNING_SHARE * budget.most <= budget.spent < budget.most
    }
    usage = standing.spend.usage
    if limits.cost_usd is not None and standing.spend.iterations and usage.cost_usd is None:
        why = "the provider does not report what it costs" if usage.about_usd is None else "a subscription pays"
        warnings["cost_usd unknown"] = f"limits.cost_usd cannot end this run: {why}"
    elif limits.cost_usd is not None and usage.cost_is_partial:
        warnings["cost_usd partial"] = "limits.cost_usd counts only the cost that is known: some calls do not report it"
    return warnings


class Spending(Struct, frozen=True):
    """The unrecorded spend of the iterations under way (``ahead``), and their running calls."""

    seconds: float = 0.0
    usage: Usage = Usage()
    before_run: Usage | None = None  # of earlier runs, for these iterations
    ahead: tuple[Ahead, ...] = ()
    calls: int = 0
    call: Usage = Usage()  # the usual spend of one of the ``calls``

    @property
    def foreseen(self) -> Usage:
        return Usage.total([self.call] * self.calls)

    @property
    def is_first_call(self) -> bool:
        """Whether no iteration has an answer yet, so that the usual spend of a call is unknown."""
        return self.calls == len(self.ahead) and self.call == Usage()

    def added_to(self, standing: Standing, iterations: int = 0, is_foreseen: bool = False) -> Standing:
        usage = self.usage.plus(self.foreseen) if is_foreseen and self.calls else self.usage
        return standing.spending(self.seconds, usage, self.before_run, iterations)


ALONE = Spending()


class BudgetUse(Struct, frozen=True):
    """The use of one bound; time is in seconds, cost in dollars."""

    name: StopReason
    spent: float
    most: float
    of: str = ""  # "" for a bound of the run, "all runs", or "now" for one of this invocation
    is_partial: bool = False  # more was spent than is known

    @property
    def key(self) -> str:
        """Its key in the manifest, as ``limits.total.cost_usd``."""
        name = "cost_usd" if self.name == StopReason.COST else self.name
        return f"limits.total.{name}" if self.of else f"limits.{name}"

    @property
    def remaining(self) -> float:
        return self.most - self.spent

    def format(self, amount: float) -> str:
        return _FORMATS[self.name](amount)

    @property
    def spent_text(self) -> str:
        return f"{'at least ' if self.is_partial else ''}{self.format(self.spent)}"

    @property
    def limit_text(self) -> str:
        return f"{self.key} = {self.format(self.most)}"

    @property
    def hint(self) -> str:
        return RAISE_LIMIT if self.of else f"{RAISE_LIMIT}, or begin a new run with: {NEW_RUN_COMMAND}"


_FORMATS: dict[str, Callable[[float], str]] = {
    **dict.fromkeys((StopReason.ITERATIONS, StopReason.TOKENS), lambda count: str(int(count))),
    StopReason.TIME: format_duration,
    StopReason.COST: format_number,
}


def budgets_of(limits: Limits, standing: Standing) -> Iterator[BudgetUse]:
    """Budgets of the run, then of all runs together."""
    for of, budget, spend in (("", limits, standing.spend), ("all runs", limits.total, standing.total)):
        amounts = (
            (StopReason.ITERATIONS, spend.iterations, budget.iterations),
            (StopReason.TIME, spend.seconds, budget.time),
            (StopReason.TOKENS, spend.tokens, budget.tokens),
            (StopReason.COST, round(spend.usage.cost_usd or 0.0, 9), budget.cost_usd),
        )
        for name, spent, most in amounts:
            if most is not None:
                yield BudgetUse(name, spent, most, of, name == StopReason.COST and spend.usage.cost_is_partial)


def limit_texts(limits: Limits, standing: Standing) -> tuple[str, ...]:
    """A text for each limit, as ``iterations 4 of 10``."""
    texts = [
        f"{budget.key.removeprefix('limits.')} {budget.spent_text} of {budget.format(budget.most)}"
        for budget in budgets_of(limits, standing)
    ]
    if limits.stagnation_stop is not None:
        texts.append(f"stagnation_stop {standing.stagnation} of {limits.stagnation_stop}")
    return (*texts, *([f"deadline {limits.deadline.isoformat()}"] if limits.deadline else []))


def best_home_hint(standing: Standing) -> str:
    """The last part of a hint; "" if nothing was ever kept."""
    return "; or take the best home: goalseek promote" if standing.has_kept else ""


def _shortage_text(limit_text: str, remaining: float, iteration_seconds: float | None, reserved_seconds: float) -> str:
    if iteration_seconds is None or iteration_seconds + reserved_seconds <= remaining:
        return ""
    note = f", with {format_duration(reserved_seconds)} kept for settling," if reserved_seconds else ""
    takes = f"an iteration takes about {format_duration(iteration_seconds)}{note} and could not end before that"
    return f"{limit_text} leaves {format_duration(remaining)}; {takes}"


class Clock:
    """Wall clock for deadlines: set once, to ``began`` (aware) or now, then advanced by ``elapsed``.

    Setting the machine's clock does not move a deadline; sleep of the machine counts. ``limits.time`` goes by
    ``time.monotonic``, which stands still in that sleep on Linux.
    """

    def __init__(self, began: datetime | None = None, elapsed: Callable[[], float] = seconds_with_sleep) -> None:
        self._began, self._then = began or datetime.now(UTC), elapsed()
        self._elapsed = elapsed

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self._elapsed() - self._then)
