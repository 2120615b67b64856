"""Time and money by agent, verifier and goalseek itself, and the noise that the measured runs show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from goalseek.statistics.noise_state import NoiseState
from goalseek.statistics.scale import scale_of, spread
from goalseek.values import Phase, Usage
from goalseek.views.report.rows import IterationRow, UsageRow
from goalseek.views.terminal_text import one_line

_AGENTS = frozenset((Phase.PLAN, Phase.APPLY_CHANGE, "REPAIR", Phase.REVIEW))
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
    usage: dict[str, UsageRow] = field(default_factory=dict)
    _settling: float = 0.0

    @property
    def seconds(self) -> float:
        """All active seconds."""
        return self.agent + self.verifier + self.goalseek

    @property
    def parts(self) -> Iterator[Part]:
        """Agent, verifier and goalseek; the seconds must not be zero."""
        start = 0.0
        for name in ("agent", "verifier", "goalseek"):
            seconds = getattr(self, name)
            share = 100 * seconds / self.seconds
            yield Part(name, seconds, share, start)
            start += share

    @property
    def total(self) -> Usage:
        """The usage of all providers together."""
        whole = UsageRow()
        for usage in self.usage.values():
            whole.add(usage)
        return whole.usage()

    def add_iteration(self, row: IterationRow) -> None:
        """Adds an iteration."""
        for phase, seconds in row.seconds.items():
            if phase in _AGENTS:
                self.agent += seconds
            elif phase == Phase.VERIFY:
                self.verifier += seconds
            else:
                self.goalseek += seconds
        for command in row.verify:
            name = _bounded_name(command.name, 60, self.commands)
            self.commands[name] += command.seconds  # type: ignore[assignment]
        if row.usage.is_known:
            who = _bounded_name(f"{row.provider} {row.model}".strip() or _NAMELESS, 80, self.usage)
            self.usage.setdefault(who, UsageRow()).add(row.usage)

    def add_measurement(self, seconds: float, is_of_settling: bool = False) -> None:
        """Adds a run of the verifier outside an iteration, or a look at the holdout."""
        self.verifier += seconds
        self._settling += seconds if is_of_settling else 0.0

    def add_settled(self, seconds: float) -> None:
        """Adds a settling: of its seconds only those that are not in measurement records already."""
        self.verifier += max(0.0, seconds - self._settling)
        self._settling = 0.0


def _bounded_name(text: str, limit: int, names: Collection[str]) -> str:
    """The name of at most ``limit`` characters in a text, or another where there are too many names."""
    if text in names:
        return text
    name = one_line(text, limit)
    return name if name in names or len(names) < _NAMED_MOST else _OTHERS


Band = tuple[float, float]


def noise_bands(noise: NoiseState, direction: str, values: Sequence[float | None]) -> tuple[Band | None, ...]:
    """For each value the interval of one standard deviation of a single run; None where no run ever differed."""
    if not noise.differed:
        return (None,) * len(values)
    sd_of = cache(lambda in_percent: spread(scale_of(direction, in_percent), noise.pairs))
    return tuple(None if value is None else _band(value, sd_of, noise.all_positive) for value in values)


def _band(value: float, sd_of: Callable[[bool], float], all_positive: bool) -> Band | None:
    in_percent = all_positive and value > 0
    sd = sd_of(in_percent)
    try:
        low, high = (value * math.exp(-sd), value * math.exp(sd)) if in_percent else (value - sd, value + sd)
    except OverflowError:
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None
