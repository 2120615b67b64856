"""Time and money by agent, verifier and goalseek itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from goalseek.values import Phase, Usage
from goalseek.views.report.rows import IterationRow, UsageRow
from goalseek.views.terminal_text import one_line

_PARTS: dict[str, str] = {
    **dict.fromkeys((Phase.PLAN, Phase.APPLY_CHANGE, "REPAIR", Phase.REVIEW), "agent"),
    Phase.VERIFY: "verifier",
}
_NAMED_MOST = 50
_OTHERS = "others"
_NAMELESS = "not named"


@dataclass
class Spending:
    """Active seconds of agent, verifier and goalseek, seconds of each verify command, usage by provider and model."""

    parts: dict[str, float] = field(default_factory=lambda: {"agent": 0.0, "verifier": 0.0, "goalseek": 0.0})
    commands: Counter[str] = field(default_factory=Counter)
    usage: dict[str, UsageRow] = field(default_factory=dict)
    _settling: float = 0.0

    @property
    def seconds(self) -> float:
        """All active seconds."""
        return sum(self.parts.values())

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
            self.parts[_PARTS.get(phase, "goalseek")] += seconds
        for command in row.verify:
            name = _bounded_name(command.name, 60, self.commands)
            self.commands[name] += command.seconds  # type: ignore[assignment]
        if row.usage.is_known:
            who = _bounded_name(f"{row.provider} {row.model}".strip() or _NAMELESS, 80, self.usage)
            self.usage.setdefault(who, UsageRow()).add(row.usage)

    def add_measurement(self, seconds: float, is_of_settling: bool = False) -> None:
        """Adds a run of the verifier outside an iteration, or a look at the holdout."""
        self.parts["verifier"] += seconds
        self._settling += seconds if is_of_settling else 0.0

    def add_settled(self, seconds: float) -> None:
        """Adds a settling: of its seconds only those that are not in measurement records already."""
        self.parts["verifier"] += max(0.0, seconds - self._settling)
        self._settling = 0.0


def _bounded_name(text: str, limit: int, names: Collection[str]) -> str:
    """The name of at most ``limit`` characters in a text, or another where there are too many names."""
    if text in names:
        return text
    name = one_line(text, limit)
    return name if name in names or len(names) < _NAMED_MOST else _OTHERS
