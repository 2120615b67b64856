"""What was kept, as the commits that the agent may see."""

from __future__ import annotations

from datetime import datetime

from goalseek.humanize import number
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import Standing
from goalseek.workspace.workspace import Step


def kept_steps(history: History, standing: Standing, label: str) -> list[Step]:
    """What was kept in this epoch after the record with the sequence number ``label``, oldest first."""
    assert standing.incumbent
    if label == str(standing.incumbent.seq):
        return []
    steps: list[Step] = []
    for record in history.newest():
        if str(record.seq) == label:
            break
        if not isinstance(record, IterationRecord) or record.epoch != standing.epoch:
            continue
        if record.outcome in ("kept", "baseline"):
            steps.append(_step(record))
        if record.outcome == "baseline":
            break
    return steps[::-1]


def _step(record: IterationRecord) -> Step:
    metric = record.metric
    assert record.tree_hash and metric.value is not None
    title = record.hypothesis_summary or f"Baseline of {record.project}"
    was = f" (was {number(metric.incumbent)})" if metric.incumbent is not None else ""
    moment = int(datetime.fromisoformat(record.timestamp).timestamp())
    return Step(str(record.seq), record.tree_hash, f"{title}\n\n{metric.name}: {number(metric.value)}{was}\n", moment)
