"""The ends of an invocation (not of the run): its own bounds, and a request to stop from another process."""

import json
import operator
import re
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from goalseek.disk import read_object, remove_if_exists, write_atomic
from goalseek.errors import LOCKED, GoalseekError
from goalseek.humanize import did_you_mean, format_duration, pluralize
from goalseek.ledger.standing import Standing
from goalseek.locks import Holder, lock_holder
from goalseek.project.limits import BudgetUse
from goalseek.values import Stop, StopReason

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_REQUEST_FILE = "stop.json"
_HOLDER_WAIT_SECONDS = 1.0
STOPPABLE_SECONDS = 300.0
GO_ON = "the same command goes on"


class Until(Struct, frozen=True):
    """A condition on the best: NAME OP NUMBER over the metric and the guards."""

    name: str
    relation: str
    bound: float

    def holds(self, standing: Standing) -> bool:
        if standing.best is None:
            return False
        value = standing.best.value if self.name == standing.metric else standing.best.guards.get(self.name)
        return value is not None and _RELATIONS[self.relation](value, self.bound)


class Ends(Struct, frozen=True):
    """The bounds of one invocation, not of the run."""

    count: int | None = None
    seconds: float | None = None
    until: Until | None = None

    def spendings(self, count: int, seconds: float) -> tuple[BudgetUse, ...]:
        rows = ((StopReason.ITERATIONS, count, self.count), (StopReason.TIME, seconds, self.seconds))
        return tuple(BudgetUse(name, spent, most, "now") for name, spent, most in rows if most is not None)

    def reached(self, standing: Standing, count: int, seconds: float) -> Stop | None:
        if self.until is not None and self.until.holds(standing):
            return Stop(StopReason.UNTIL, f"{self.until.name} {self.until.relation} {self.until.bound:g} holds", GO_ON)
        if self.count is not None and count >= self.count:
            done = f"{pluralize(count, 'iteration')} done" if self.count else "no try waits any more"
            return Stop(StopReason.COUNT, done, GO_ON)
        if self.seconds is not None and seconds >= self.seconds:
            return Stop(StopReason.FOR, f"{format_duration(self.seconds)} are over", GO_ON)
        return None


def parse_until(text: str, names: tuple[str, ...]) -> Until:
    """Parse ``accuracy>=0.99``. Raises ValueError with the right form."""
    match = re.fullmatch(r"\s*(.+?)\s*(>=|<=|==|!=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*", text)
    if not match:
        raise ValueError(f"{text!r}: write, for example, '{names[0]}>=0.99'; the name is one of {', '.join(names)}")
    if match[1] not in names:
        near = did_you_mean(match[1], names) or f"the name is one of {', '.join(names)}"
        raise ValueError(f"{text!r}: no number is called {match[1]!r}; {near}")
    return Until(match[1], match[2], float(match[3]))


def request_stop(own: Path) -> Holder | None:
    """Ask the climb at work to stop, and return the lock's holder; None if nobody holds it.

    ``own`` is the project's folder in the common git directory, which all worktrees share. Raises GoalseekError if the
    holder is no climb, as only a climb looks for requests.
    """
    deadline = time.monotonic() + _HOLDER_WAIT_SECONDS
    while (holder := lock_holder(own)) and not holder.pid and time.monotonic() < deadline:
        time.sleep(0.02)
    if holder is None:
        return None
    if not holder.is_climbing:
        command, explanation = "another command", "another version of goalseek began it; to end it"
        if holder.doing:
            command, explanation = f"goalseek {holder.doing}", "it ends by itself; to end it at once"
        hint = f"{explanation}: {holder.stop_hint}" if holder.pid else "try again"
        raise GoalseekError(f"{command} is at work, and goalseek stop cannot end it: {holder}", hint, LOCKED)
    write_atomic(own / _REQUEST_FILE, json.dumps(_request_for(holder)) + "\n", durable=True)
    return holder


def take_stop_request(own: Path) -> Stop | None:
    """The stop requested of this process, or None. Removes the request, also one of an earlier run."""
    path = own / _REQUEST_FILE
    if not path.exists():
        return None
    request = read_object(path)  # empty if it is torn
    remove_if_exists(path)
    holder = lock_holder(own)
    if holder is None or request != _request_for(holder):
        return None
    return Stop(StopReason.ASKED, "goalseek stop asked for it", GO_ON)


def _request_for(holder: Holder) -> dict[str, str]:
    return {"holder": str(holder)}


def read_pending_run(own: Path) -> str:
    """The id of the run that begins with the next iteration, or began last; "" if there is none."""
    try:
        return (own / "run").read_text().strip()
    except OSError:
        return ""
