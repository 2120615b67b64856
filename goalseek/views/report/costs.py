"""Time and money by agent, verifier and goalseek itself, and the noise that the measured runs show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from msgspec import structs

from goalseek.statistics.noise_state import NoiseState, baseline_state
from goalseek.statistics.scale import scale_of, spread
from goalseek.values import Outcome, Phase, Usage, VerifierRun
from goalseek.views.report.rows import Row, number_at, numbers_at, rows_at, text_at, value_at
from goalseek.views.terminal_text import one_line

_AGENTS = (Phase.PLAN, Phase.APPLY_CHANGE, "REPAIR", Phase.REVIEW)
_VERIFIERS = (Phase.VERIFY,)
_NAMED_MOST = 50
_OTHERS = "others"
_NAMELESS = "not named"


class Part(NamedTuple):
    """The seconds of one part of the time, its share in percent, and where it begins among the shares."""

    name: str
    seconds: float
    share: float
    start: float


@dataclass
class Spending:
    """Active seconds of agent, verifier and goalseek, seconds of each verify command, usage by provider and model."""

    agent: float = 0.0
    verifier: float = 0.0
    goalseek: float = 0.0
    commands: Counter[str] = field(default_factory=Counter)
    usage: dict[str, Usage] = field(default_factory=dict)
    _settling: float = 0.0

    @property
    def seconds(self) -> float:
        """All active seconds."""
        return self.agent + self.verifier + self.goalseek

    @property
    def parts(self) -> Iterator[Part]:
        """Agent, verifier and goalseek; the seconds must not be zero."""
        start = 0.0
        for name, seconds in (("agent", self.agent), ("verifier", self.verifier), ("goalseek", self.goalseek)):
            share = 100 * seconds / self.seconds
            yield Part(name, seconds, share, start)
            start += share

    @property
    def total(self) -> Usage:
        """The usage of all providers together."""
        whole = Usage()
        for usage in self.usage.values():
            whole = whole.plus(usage)
        return whole

    def add_iteration(self, row: Row) -> None:
        """Adds an iteration."""
        for phase, seconds in numbers_at(row, "seconds").items():
            if phase in _AGENTS:
                self.agent += seconds
            elif phase in _VERIFIERS:
                self.verifier += seconds
            else:
                self.goalseek += seconds
        for command in rows_at(row, "verify"):
            name = one_line(text_at(command, "name"), 60)
            name = name if name in self.commands or len(self.commands) < _NAMED_MOST else _OTHERS
            self.commands[name] += number_at(command, "seconds") or 0.0  # type: ignore[assignment]
        who = one_line(f"{text_at(row, 'provider')} {text_at(row, 'model')}".strip(), 80)
        usage = _usage_of(row)
        if usage.tokens or usage.has_cost:
            who = who or _NAMELESS
            who = who if who in self.usage or len(self.usage) < _NAMED_MOST else _OTHERS
            self.usage[who] = self.usage.get(who, Usage()).plus(usage)

    def add_measurement(self, row: Row) -> None:
        """Adds a run of the verifier outside an iteration, or a look at the holdout."""
        seconds = number_at(row, "seconds") or 0.0
        self.verifier += seconds
        self._settling += seconds if text_at(row, "asked_by") == "settle" else 0.0

    def add_settled(self, row: Row) -> None:
        """Adds a settling: of its seconds only those that are not in measurement records already."""
        self.verifier += max(0.0, (number_at(row, "seconds") or 0.0) - self._settling)
        self._settling = 0.0


def _usage_of(row: Row) -> Usage:
    def count(name: str) -> int:
        return int(number_at(row, "usage", name) or 0)

    cost, about = number_at(row, "usage", "cost_usd"), number_at(row, "usage", "about_usd")
    tokens = count("input_tokens"), count("cached_tokens"), count("output_tokens")
    return Usage(*tokens, cost, value_at(row, "usage", "estimated") is True, about)


Band = tuple[float, float]


class ObservedNoise:
    """The noise of a climb, from its repeated runs. A key that a record lacks is ignored."""

    def __init__(self) -> None:
        self.state = NoiseState()

    @property
    def differed(self) -> bool:
        """Whether the same code ever gave two numbers."""
        return self.state.differed

    @property
    def agreed(self) -> int:
        """How many repeats gave the same number to the last bit."""
        return self.state.agreed

    def add_iteration(self, row: Row) -> None:
        """Adds the runs of the candidate and of the incumbent in an iteration."""
        runs, outcome = tuple(_runs(row)), text_at(row, "outcome")
        if outcome == Outcome.BASELINE:
            self.state = baseline_state(runs)
        else:
            self.state = self.state.after_candidate(runs, outcome == Outcome.KEPT, number_at(row, "metric", "odds"))
        if outcome in (Outcome.BASELINE, Outcome.KEPT):
            ruler = text_at(row, "digests", "ruler") or self.state.ruler
            self.state = structs.replace(self.state, tree=text_at(row, "tree_hash"), ruler=ruler)

    def add_measurement(self, row: Row) -> None:
        """Adds a run outside an iteration; it counts as a repeat if it measured the incumbent."""
        value = number_at(row, "value")
        if value is not None:
            is_incumbent = (text_at(row, "tree"), text_at(row, "ruler")) == (self.state.tree, self.state.ruler)
            run = VerifierRun("incumbent" if is_incumbent else "other", value, 0, 0.0)
            self.state = self.state.with_runs((run,))

    def bands(self, direction: str, values: Sequence[float | None]) -> tuple[Band | None, ...]:
        """For each value the interval of one standard deviation of a single run; None where no run ever differed."""
        if not self.differed:
            return (None,) * len(values)
        sd_of = cache(lambda in_percent: spread(scale_of(direction, in_percent), self.state.pairs))
        return tuple(None if value is None else _band(value, sd_of, self.state.all_positive) for value in values)


def _band(value: float, sd_of: Callable[[bool], float], all_positive: bool) -> Band | None:
    in_percent = all_positive and value > 0
    sd = sd_of(in_percent)
    try:
        low, high = (value * math.exp(-sd), value * math.exp(sd)) if in_percent else (value - sd, value + sd)
    except OverflowError:
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _runs(row: Row) -> Iterator[VerifierRun]:
    for run in rows_at(row, "runs"):
        yield VerifierRun(text_at(run, "of"), number_at(run, "value"), 0, 0.0)
