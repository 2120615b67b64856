"""When a run ends by itself. Asked of limits and standing each time, never stored."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from goalseek.decide import reached
from goalseek.manifest import Limits, Metric
from goalseek.standing import Standing
from goalseek.units import in_words, number

EXIT_CODES = {
    **dict.fromkeys(
        ("count", "for", "until", "asked", "target", "iterations", "time", "deadline", "tokens", "cost"), 0
    ),
    **dict.fromkeys(("failures", "baseline_failed", "incumbent_failed", "verifier_said_stop"), 1),
    **dict.fromkeys(("repository", "provider", "sandbox", "auth", "disk", "tampered"), 3),
    "needs_human": 5,
    "bug": 70,
}
_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Stop:
    """The end of an invocation: the contract's reason, one sentence, and what to do next."""

    reason: str
    why: str
    next: str = ""

    @property
    def exit_code(self) -> int:
        """The contract's exit code for this reason."""
        return EXIT_CODES[self.reason]


def why_stop(limits: Limits, metric: Metric, standing: Standing, now: datetime) -> Stop | None:
    """The limit of the run that is reached, or None. ``now`` is an aware time."""
    raise_it = "raise it in the manifest, or begin a new run with: goalseek iterate --new"
    spend = standing.spend
    if limits.failures is not None and standing.provider_failures >= limits.failures:
        why = f"the provider failed {standing.provider_failures} times in a row"
        return Stop("failures", why, "see: goalseek show; then: goalseek iterate --new")
    if limits.failures is not None and standing.crashes >= limits.failures:
        why = f"{standing.crashes} measurements in a row crashed"
        return Stop("failures", why, "see: goalseek log --outcome reverted; then: goalseek iterate --new")
    if standing.best and reached(metric, standing.best.value):
        why = f"the target is reached: {metric.name} {number(standing.best.value)}"
        return Stop("target", why, "take it home with: goalseek promote")
    if limits.iterations is not None and spend.iterations >= limits.iterations:
        return Stop("iterations", f"limits.iterations = {limits.iterations} is reached", raise_it)
    if limits.time is not None and spend.seconds >= limits.time:
        return Stop("time", f"limits.time = {in_words(limits.time)} is used up", raise_it)
    if limits.deadline is not None and now >= _aware(limits.deadline):
        return Stop("deadline", f"limits.deadline = {limits.deadline.isoformat()} is past", raise_it)
    return None


@dataclass(frozen=True)
class Until:
    """A condition on the best: NAME OP NUMBER over the metric and the guards."""

    name: str
    relation: str
    bound: float

    def holds(self, standing: Standing) -> bool:
        """Whether the best meets it."""
        if standing.best is None:
            return False
        value = standing.best.value if self.name == standing.metric else standing.best.guards.get(self.name)
        return value is not None and _RELATIONS[self.relation](value, self.bound)


def until(text: str, names: tuple[str, ...]) -> Until:
    """Parses ``accuracy>=0.99``. Raises ValueError with what would be right."""
    match = re.fullmatch(r"\s*(.+?)\s*(>=|<=|==|!=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*", text)
    if not match or match[1] not in names:
        raise ValueError(f"{text!r}: write NAME OP NUMBER, where NAME is one of {', '.join(names)}")
    return Until(match[1], match[2], float(match[3]))


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.astimezone(UTC)
