"""When a run ends by itself. Asked of limits and standing each time, never stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from goalseek.humanize import format_duration, format_number, pluralize
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Limits, Manifest, Metric
from goalseek.process import seconds_with_sleep
from goalseek.statistics.bounds import guard_warning
from goalseek.values import Stop, Usage

SPENT_IN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("PLAN", "APPLY_CHANGE"), ("iterations", "time", "tokens", "cost")),
    "VERIFY": ("time",),
    "REVIEW": ("time", "tokens", "cost"),
}
ENDS_THE_RUN = ("target", "iterations", "time", "deadline", "tokens", "cost", "needs_human")
NEAR = 0.75
PACE_OF = 5
RAISE = "raise it in the manifest"
NEW = "goalseek iterate --new"


def why_stop(
    limits: Limits,
    metric: Metric,
    standing: Standing,
    now: datetime,
    usual: float | None = None,
    reserved: float = 0.0,
) -> Stop | None:
    """The limit of the run that is reached, or None. ``now`` is an aware time.

    ``usual`` is how many seconds an iteration takes: one that cannot end in time is not to be begun. ``reserved`` are
    seconds that the end of the run needs for itself.
    """
    return (
        _why_failed(limits, standing)
        or _why_reached(metric, standing)
        or _why_stagnant(limits, standing)
        or _why_spent(limits, standing, usual, reserved=reserved)
        or _why_late(limits, now, usual, reserved)
    )


def reached(metric: Metric, value: float) -> bool:
    """Whether the target is reached."""
    if metric.target is None:
        return False
    return value >= metric.target if metric.direction == "maximize" else value <= metric.target


def limit_before_phase(
    phase: str, limits: Limits, standing: Standing, now: datetime, call: Usage | None = None
) -> Stop | None:
    """The budget or the deadline that is reached before a phase begins which would spend more of it, or None.

    ``standing`` has what the iteration has spent so far. VERIFY asks no provider: it may spend time only. ``call`` is
    what the provider's answer to the phase usually takes: one that cannot fit is not asked for.
    """
    if phase not in SPENT_IN:
        return None
    spent = _why_spent(limits, standing, None, SPENT_IN[phase]) or _why_late(limits, now, None)
    return spent or (_why_too_dear(limits, standing, call) if call and phase != "VERIFY" else None)


def seconds_left(limits: Limits, standing: Standing, now: datetime) -> float | None:
    """How long the run may go on: until its deadline, or as much active time as is left. None for as long as it likes.

    ``standing`` is as this run's limits see it.
    """
    left = [budget.most - budget.spent for budget in _budgets(limits, standing) if budget.reason == "time"]
    if limits.deadline is not None:
        left.append((_aware(limits.deadline) - now).total_seconds())
    return max(min(left), 0.0) if left else None


def budget_warnings(limits: Limits, standing: Standing) -> dict[str, str]:
    """A sentence, by budget, for each of which three quarters are spent, and for one that nobody can check."""
    told = {
        budget.named: f"three quarters of {budget.named} are spent: {budget.shown(budget.spent)}"
        for budget in _budgets(limits, standing)
        if NEAR * budget.most <= budget.spent < budget.most
    }
    usage = standing.spend.usage
    if limits.cost_usd is not None and standing.spend.iterations and usage.cost_usd is None:
        why = "the provider does not report what it costs" if usage.about_usd is None else "a subscription pays"
        told["cost_usd unknown"] = f"limits.cost_usd cannot end this run: {why}"
    return told


@dataclass(frozen=True)
class Spending:
    """What is spent of one bound: "time" in seconds, "iterations", "tokens", "cost" in dollars.

    ``of`` is whose it is: "", the run's; "all runs"; or "now", this invocation's.
    """

    name: str
    spent: float
    most: float
    of: str = ""


def budget_use(limits: Limits, standing: Standing) -> tuple[Spending, ...]:
    """What is spent of each budget that is set."""
    return tuple(
        Spending(budget.reason, budget.spent, budget.most, "all runs" if budget.key.startswith("limits.total") else "")
        for budget in _budgets(limits, standing)
    )


def pace(newest_first: Iterable[IterationRecord]) -> float | None:
    """The usual seconds of an iteration: the median of the last five. None where there was none but baselines."""
    tries = (record for record in newest_first if record.outcome != "baseline")
    seconds = [sum(record.seconds.values()) for record in islice(tries, PACE_OF)]
    if not seconds:
        return None
    from statistics import median

    return median(seconds)


@dataclass(frozen=True)
class _Budget:
    """One limit on what is spent: its key, the reason where it is reached, and how its numbers are shown."""

    key: str
    reason: str
    spent: float
    most: float
    shown: Callable[[float], str]
    following: str

    @property
    def named(self) -> str:
        """As it stands in the manifest: ``limits.tokens = 2000000``."""
        return f"{self.key} = {self.shown(self.most)}"


def _budgets(limits: Limits, standing: Standing) -> Iterator[_Budget]:
    """The budgets that are set: of the run, then of all runs together."""
    of_run = ("limits", limits, standing.spend, f"{RAISE}, or begin a new run with: {NEW}")
    for table, budget, spend, following in (of_run, ("limits.total", limits.total, standing.total, RAISE)):
        rows: tuple[tuple[str, str, float, float | None, Callable[[float], str]], ...] = (
            ("iterations", "iterations", spend.iterations, budget.iterations, _whole),
            ("time", "time", spend.seconds, budget.time, format_duration),
            ("tokens", "tokens", spend.tokens, budget.tokens, _whole),
            ("cost_usd", "cost", round(spend.usage.cost_usd or 0.0, 9), budget.cost_usd, format_number),
        )
        for key, reason, spent, most, shown in rows:
            if most is not None:
                yield _Budget(f"{table}.{key}", reason, spent, most, shown, following)


def _why_failed(limits: Limits, standing: Standing) -> Stop | None:
    if limits.failures is None:
        return None
    if standing.provider_failures >= limits.failures:
        why = f"the provider failed {pluralize(standing.provider_failures, 'time')} in a row"
        return Stop("failures", why, f"see: goalseek show; then: {NEW}")
    if standing.crashes >= limits.failures:
        why = f"{pluralize(standing.crashes, 'measurement')} in a row crashed"
        return Stop("failures", why, f"see: goalseek log --outcome reverted; then: {NEW}")
    return None


def _why_reached(metric: Metric, standing: Standing) -> Stop | None:
    if standing.best is None or not reached(metric, standing.best.value):
        return None
    why = f"the target is reached: {metric.name} {format_number(standing.best.value)}"
    return Stop("target", why, "take it home with: goalseek promote")


def _why_stagnant(limits: Limits, standing: Standing) -> Stop | None:
    if limits.stagnation_stop is None or standing.stagnation < limits.stagnation_stop:
        return None
    since = pluralize(standing.stagnation, "iteration")
    why = f"nothing was kept in {since} (limits.stagnation_stop = {limits.stagnation_stop})"
    look = f'see: goalseek log --last {min(standing.stagnation, 20)}; say what to try: goalseek direct "..."'
    return Stop("needs_human", why, f"{look}; then: {NEW}; or take the best home: goalseek promote")


def _why_spent(
    limits: Limits,
    standing: Standing,
    usual: float | None,
    reasons: tuple[str, ...] = SPENT_IN["PLAN"],
    reserved: float = 0.0,
) -> Stop | None:
    for budget in _budgets(limits, standing):
        if budget.reason in reasons and budget.spent >= budget.most:
            why = f"{budget.named} is reached, {budget.shown(budget.spent)} spent"
            return Stop(budget.reason, why, budget.following)
        left = budget.most - budget.spent
        if budget.reason == "time" and usual is not None and usual + reserved > left:
            told = f"{budget.named} leaves {format_duration(left)}{_too_short(usual, reserved)}"
            return Stop("time", told, budget.following)
    return None


def _why_too_dear(limits: Limits, standing: Standing, call: Usage) -> Stop | None:
    takes = {"tokens": call.tokens, "cost": call.cost_usd or 0.0}
    for budget in _budgets(limits, standing):
        needed, left = takes.get(budget.reason, 0), budget.most - budget.spent
        if needed > left:
            why = f"{budget.named} leaves {budget.shown(left)}; a call takes about {budget.shown(needed)}"
            return Stop(budget.reason, f"{why} and would not fit", budget.following)
    return None


def _why_late(limits: Limits, now: datetime, usual: float | None, reserved: float = 0.0) -> Stop | None:
    if limits.deadline is None:
        return None
    named = f"limits.deadline = {limits.deadline.isoformat()}"
    following = f"{RAISE}, then: goalseek iterate"
    left = (_aware(limits.deadline) - now).total_seconds()
    if left <= 0:
        return Stop("deadline", f"{named} is past", following)
    if usual is not None and usual + reserved > left:
        return Stop("deadline", f"{named} leaves {format_duration(left)}{_too_short(usual, reserved)}", following)
    return None


def _too_short(usual: float, reserved: float) -> str:
    kept = f", with {format_duration(reserved)} kept for settling," if reserved else ""
    return f"; an iteration takes about {format_duration(usual)}{kept} and could not end before that"


def _whole(count: float) -> str:
    return str(int(count))


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.astimezone(UTC)


def broken_guard_of(manifest: Manifest, standing: Standing) -> str:
    """What a person should know where the incumbent breaks a bound of a guard, which the ruler does not pin; or ""."""
    if standing.incumbent is None or standing.baseline is None:
        return ""
    who = "the baseline" if standing.incumbent == standing.baseline else "the incumbent"
    return guard_warning(manifest.guard, who, standing.incumbent.guards, standing.baseline.guards)


@dataclass(frozen=True)
class Clock:
    """A clock that was set at ``began`` (aware), when ``elapsed`` showed ``then`` seconds.

    The machine's clock, set back or forward after that, does not move it: a deadline comes neither sooner nor later.
    A laptop that sleeps does: its deadline comes nearer while it sleeps. What is spent as ``limits.time`` is counted
    by ``time.monotonic``, which on Linux stands still in that sleep.
    """

    began: datetime
    then: float
    elapsed: Callable[[], float]

    @classmethod
    def started(
        cls,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        elapsed: Callable[[], float] = seconds_with_sleep,
    ) -> Clock:
        """A clock that is set by the machine's now."""
        return cls(wall(), elapsed(), elapsed)

    def now(self) -> datetime:
        """An aware time."""
        return self.began + timedelta(seconds=self.elapsed() - self.then)
