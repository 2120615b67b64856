"""What ends an invocation, not the run: so many iterations, so many seconds, a condition on the best."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from goalseek.humanize import counted, in_words
from goalseek.ledger.standing import Standing
from goalseek.limits import Spending
from goalseek.values import Stop

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


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


@dataclass(frozen=True)
class Ends:
    """What ends an invocation, not the run: so many iterations, so many seconds, a condition on the best."""

    count: int | None = None
    seconds: float | None = None
    until: Until | None = None

    def spendings(self, count: int, seconds: float) -> tuple[Spending, ...]:
        """What is spent of the invocation's own bounds."""
        found = []
        if self.count is not None:
            found.append(Spending("iterations", count, self.count, "now"))
        if self.seconds is not None:
            found.append(Spending("time", seconds, self.seconds, "now"))
        return tuple(found)

    def reached(self, standing: Standing, count: int, seconds: float) -> Stop | None:
        """What of it has come, after so many iterations and seconds of the invocation; or None."""
        go_on = "the same command goes on"
        if self.until is not None and self.until.holds(standing):
            return Stop("until", f"{self.until.name} {self.until.relation} {self.until.bound:g} holds", go_on)
        if self.count is not None and count >= self.count:
            return Stop("count", f"{counted(count, 'iteration')} done", go_on)
        if self.seconds is not None and seconds >= self.seconds:
            return Stop("for", f"{in_words(self.seconds)} are over", go_on)
        return None


def until(text: str, names: tuple[str, ...]) -> Until:
    """Parses ``accuracy>=0.99``. Raises ValueError with what would be right."""
    match = re.fullmatch(r"\s*(.+?)\s*(>=|<=|==|!=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*", text)
    if not match or match[1] not in names:
        raise ValueError(f"{text!r}: write NAME OP NUMBER, where NAME is one of {', '.join(names)}")
    return Until(match[1], match[2], float(match[3]))
