"""Time and money, split between the agent and the verifier."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from goalseek.values import Usage
from goalseek.views.harmless import one_line
from goalseek.views.report.rows import Row, at, number_at, numbers_at, rows_at, text_at
from goalseek.views.report.words import is_told

_AGENTS = ("PLAN", "APPLY_CHANGE", "REPAIR", "REVIEW")
_VERIFIERS = ("VERIFY",)
_NAMED_MOST = 50
_OTHERS = "others"
_NAMELESS = "not named"


@dataclass
class Spending:
    """Seconds by who spent them, by verify command, and the usage by provider and model."""

    agent: float = 0.0
    verifier: float = 0.0
    goalseek: float = 0.0
    commands: Counter[str] = field(default_factory=Counter)
    usage: dict[str, Usage] = field(default_factory=dict)
    _settling: float = 0.0

    @property
    def seconds(self) -> float:
        """All active time."""
        return self.agent + self.verifier + self.goalseek

    @property
    def total(self) -> Usage:
        """What all providers cost together."""
        whole = Usage()
        for usage in self.usage.values():
            whole = whole.plus(usage)
        return whole

    def add_iteration(self, row: Row) -> None:
        """One more iteration."""
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
        if usage.tokens or is_told(usage):
            who = who or _NAMELESS
            who = who if who in self.usage or len(self.usage) < _NAMED_MOST else _OTHERS
            self.usage[who] = self.usage.get(who, Usage()).plus(usage)

    def add_measurement(self, row: Row) -> None:
        """One more run of the verifier outside an iteration, or a look at the holdout."""
        seconds = number_at(row, "seconds") or 0.0
        self.verifier += seconds
        self._settling += seconds if text_at(row, "asked_by") == "settle" else 0.0

    def add_settled(self, row: Row) -> None:
        """What was settled: its seconds are those of its measurements, which may be records of their own."""
        self.verifier += max(0.0, (number_at(row, "seconds") or 0.0) - self._settling)
        self._settling = 0.0


def _usage_of(row: Row) -> Usage:
    def count(name: str) -> int:
        return int(number_at(row, "usage", name) or 0)

    cost, about = number_at(row, "usage", "cost_usd"), number_at(row, "usage", "about_usd")
    tokens = count("input_tokens"), count("cached_tokens"), count("output_tokens")
    return Usage(*tokens, cost, at(row, "usage", "estimated") is True, about)
