"""The history as ``log`` prints it: a line an iteration, in columns that fit the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from goalseek.humanize import ago, ago_in_short, number
from goalseek.ledger.records import IterationRecord
from goalseek.views.cells import cut
from goalseek.views.harmless import one_line
from goalseek.views.style import OUTCOME_COLORS, Paint

_WIDE = 110
_WITH_OUTCOME = 78
_LEAST_TAIL = 12


@dataclass(frozen=True)
class HistoryLines:
    """``width`` is the terminal's in cells; None for a file or a pipe, which gets whole lines.

    A narrow terminal gets short times; a narrower one no outcome beside the reason, which says it too.
    """

    paint: Paint
    width: int | None
    now: datetime

    def header(self, metric: str) -> str:
        """The columns' names."""
        name = one_line(metric, 9)
        return self.paint(self._head("", "when", "outcome", "reason", name) + "why; title", "bold")

    def line(self, record: IterationRecord) -> str:
        """``  12   2 h ago  kept      better            0.981  0.981 beats 0.975 by 0.006; title``."""
        is_wide = self.width is None or self.width >= _WIDE
        when = (ago if is_wide else ago_in_short)(record.timestamp, self.now)
        value = "-" if record.metric.value is None else number(record.metric.value)
        head = self._head(str(record.iteration), when, record.outcome, record.reason, value)
        tail = one_line(record.why + (f"; {record.hypothesis_summary}" if record.hypothesis_summary else ""))
        if self.width is not None:
            tail = cut(tail, max(self.width - len(head), _LEAST_TAIL))
        color = OUTCOME_COLORS[record.outcome]
        return self.paint(head, color) + (self.paint(tail, "grey") if color == "grey" else tail)

    def _head(self, iteration: str, when: str, outcome: str, reason: str, value: str) -> str:
        if self.width is None or self.width >= _WIDE:
            return f"{iteration:>5}  {when:>10}  {outcome:<8}  {reason:<16} {value:>11}  "
        told = f"{outcome:<8} " if self.width >= _WITH_OUTCOME else ""
        return f"{iteration:>4} {when:>4} {told}{reason:<15} {value:>9}  "
