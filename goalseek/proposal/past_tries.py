"""Past tries as the agent may know them: outcome, value, reason, and the output of crashes.

Output of a command that sees hidden files never gets there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from goalseek.ledger.checkpoints import CheckpointName, Checkpoints
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import CRASHED, Standing
from goalseek.manifest.tables import VerifyCommand
from goalseek.phase_values import PastIteration
from goalseek.project.project import Project
from goalseek.values import Reason

_SENTENCES = {
    "verify_failed": "the verifier failed",
    "verify_timeout": "the verifier ran past its timeout",
    "no_metric": "the measurement gave no metric",
    "not_finite": "the metric is not a finite number",
    "unmeasurable": "this candidate cannot be judged",
}


def past_try(record: IterationRecord, verify: Sequence[VerifyCommand]) -> PastIteration:
    """An iteration as the agent may know it; ``verify`` are the commands that measured it."""
    return PastIteration(
        record.iteration,
        record.outcome,
        record.reason,
        record.metric.value,
        record.changed_files,
        record.hypothesis_summary,
        why_for_agent(record, verify),
    )


def why_for_agent(record: IterationRecord, verify: Sequence[VerifyCommand]) -> str:
    """The record's sentence; only the reason for a crash whose sentence may quote a command that sees hidden files."""
    if record.reason not in CRASHED:
        return record.why
    open_commands = {command.name for command in verify if command.sees == "candidate"}
    last_command = record.verify[-1].name if record.verify else None
    is_command_failure = record.reason in (Reason.VERIFY_FAILED, Reason.VERIFY_TIMEOUT)
    is_open = last_command in open_commands if is_command_failure else len(open_commands) == len(verify)
    return record.why if is_open else _SENTENCES[record.reason]


def common_ending(texts: Sequence[str], max_lines: int = 20, max_bytes: int = 2048) -> str:
    """The last lines that all texts share, trailing spaces aside: as many as ``max_lines`` and ``max_bytes`` allow."""
    columns = [[line.rstrip() for line in text.rstrip().splitlines()] for text in texts]
    ending: list[str] = []
    size = 0
    for index in range(1, 1 + min([max_lines, *map(len, columns)] if columns else [0])):
        line = columns[0][-index]
        size += len(line.encode("utf-8", "replace")) + 1
        if size > max_bytes or any(column[-index] != line for column in columns):
            break
        ending.append(line)
    return "\n".join(reversed(ending)).strip("\n")


def crash_endings(project: Project, standing: Standing) -> list[str]:
    """The end of the output of each candidate in the present row of crashes, newest first.

    Read from the checkpointed evidence. A candidate whose evidence is gone, or that printed nothing that may be shown,
    is left out.
    """
    if standing.crashes < 2:
        return []
    endings = []
    for record in islice(_crash_records(project, standing), standing.crashes):
        if output := crash_output(project, record):
            endings.append(output)
    return endings


def newest_crash(project: Project, standing: Standing) -> IterationRecord | None:
    """The newest iteration under this ruler whose candidate crashed; None where there is none."""
    return next(_crash_records(project, standing), None)


def crash_output(project: Project, record: IterationRecord) -> str:
    """The end of the output of a crashed candidate, as far as the agent may see it; "" where its evidence is gone."""
    folder = project.loaded.runs / f"{record.iteration:04d}"
    for number in range(len(record.attempts) + 1, 0, -1):
        candidate = Checkpoints.stored_value(folder, CheckpointName("candidate", number), project.ledger.seal) or {}
        if candidate.get("commit") == record.commit_hash:
            evidence = Checkpoints.stored_value(folder, CheckpointName("evidence", number), project.ledger.seal) or {}
            return str((evidence.get("failure") or {}).get("printed") or "")
    return ""


def _crash_records(project: Project, standing: Standing) -> Iterator[IterationRecord]:
    """The iterations of this ruler whose candidates crashed, newest first."""
    return (record for record in project.ledger.recent if record.reason in CRASHED and record.epoch == standing.epoch)
