"""What the agent may be told of a try: never what a command printed that sees hidden files."""

from __future__ import annotations

from collections.abc import Sequence

from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import CRASHED
from goalseek.manifest.tables import VerifyCommand
from goalseek.phase_values import PastTry

_INSTEAD = {
    "verify_failed": "the verifier failed",
    "verify_timeout": "the verifier ran past its timeout",
    "no_metric": "the measurement gave no metric",
    "not_finite": "the metric is not a finite number",
    "unmeasurable": "this candidate cannot be judged",
}


def past_try(record: IterationRecord, verify: Sequence[VerifyCommand]) -> PastTry:
    """An iteration as the next proposal may know it; ``verify`` are the commands that measured it."""
    return PastTry(
        record.iteration,
        record.outcome,
        record.reason,
        record.metric.value,
        record.changed_files,
        record.hypothesis_summary,
        why_for_agent(record, verify),
    )


def why_for_agent(record: IterationRecord, verify: Sequence[VerifyCommand]) -> str:
    """The record's sentence; of a crash that a command with hidden files may speak in, the reason only."""
    if record.reason not in CRASHED:
        return record.why
    open_ones = {command.name for command in verify if command.sees == "candidate"}
    ended_in = record.verify[-1].name if record.verify else None
    is_of_command = record.reason in ("verify_failed", "verify_timeout")
    is_open = ended_in in open_ones if is_of_command else len(open_ones) == len(verify)
    return record.why if is_open else _INSTEAD[record.reason]


def common_ending(texts: Sequence[str], lines_most: int = 20, bytes_most: int = 2048) -> str:
    """The last lines that all the texts have in common, spaces at their ends aside; the newest end of it that fits."""
    columns = [[line.rstrip() for line in text.rstrip().splitlines()] for text in texts]
    ending: list[str] = []
    size = 0
    for place in range(1, 1 + min([lines_most, *map(len, columns)] if columns else [0])):
        line = columns[0][-place]
        size += len(line.encode("utf-8", "replace")) + 1
        if size > bytes_most or any(column[-place] != line for column in columns):
            break
        ending.append(line)
    return "\n".join(reversed(ending)).strip("\n")
