"""The product's accept rule and its stacking on landscapes whose truth is known, for a script that scores searches.

    python score_search.py --rule tests.benchmarks.search:make_rule --policy tests.benchmarks.search:make_policy

That script gives a policy the rejected tries of the present tip; here they become records, and the policy is asked as
PLAN asks it. The noise is what the rule of the same session knows of it, as in a climb.
"""

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from noise_sessions import Session, record_of, runs_of

from goalseek.manifest.tables import Metric, Search
from goalseek.phase_values import Verdict
from goalseek.records import IterationRecord, MetricResult
from goalseek.statistics.stacking import is_stacking, next_stack
from goalseek.values import Reason

METRIC = Metric(direction="minimize")
Measure = Callable[[], float]


class Rule:
    """The accept rule; each answer goes through records, as in a climb."""

    def __init__(self) -> None:
        self.session = Session(METRIC, lambda of: math.nan)

    def __call__(self, candidate: Measure, incumbent: Measure, memory: dict[str, Any]) -> bool:
        self.session.draw = lambda of: incumbent() if of == "incumbent" else candidate()
        if not self.session.records:
            self.session.baseline()
            memory["base"] = self.session.state.value
        verdict = self.session.candidate()[-1]
        assert isinstance(verdict, Verdict)
        memory["now"] = verdict.value if verdict else verdict.incumbent
        return bool(verdict)


class ScoredTry(Protocol):
    """A rejected try, as the script gives it."""

    values: tuple[float, ...]
    incumbent: float
    of: tuple[int, ...]
    clashed: bool
    repeated: bool


class Policy:
    """Stacking as PLAN asks for it: a try's iteration is its place among those of this tip, counted from 1."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._records: list[IterationRecord] = []

    def __call__(self, tries: Sequence[ScoredTry]) -> tuple[int, ...] | None:
        noise = self._rule.session.state
        if not is_stacking(Search(), METRIC, noise):
            return None
        if len(tries) < len(self._records):  # another tip
            self._records.clear()
        done = len(self._records)
        self._records += [_record_of(number, each) for number, each in enumerate(tries[done:], done + 1)]
        stack = next_stack(reversed(self._records), METRIC.direction, noise)
        return tuple(number - 1 for number in stack) or None


def _record_of(number: int, each: ScoredTry) -> IterationRecord:
    stack = tuple(place + 1 for place in each.of)
    runs = runs_of("candidate", *each.values)
    record = record_of(number, "reverted", runs, reason=Reason.WITHIN_NOISE if len(runs) > 1 else Reason.WORSE)
    metric = MetricResult("m", METRIC.direction, None, each.incumbent, None)
    if each.clashed or each.repeated:  # no iteration in a climb: the next record names it
        return replace(record, metric=metric, not_stacked=(stack,))
    return replace(record, metric=metric, stacked=stack)


_newest: list[Rule] = []


def make_rule() -> Rule:
    """A rule for one session; the policy that is made next belongs to it."""
    _newest[:] = [Rule()]
    return _newest[0]


def make_policy() -> Policy:
    """A policy for the session of the last rule."""
    return Policy(_newest[0])
