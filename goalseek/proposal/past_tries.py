"""Past tries as the agent may know them: outcome, value, reason, and the output of crashes.

Output of a command that sees hidden files never gets there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from goalseek.ledger.checkpoints import CheckpointName, Checkpoints
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import CRASHED, PROVIDER_FAILED, Standing
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


def read_history(project: Project, best_iteration: int, verify: Sequence[VerifyCommand]) -> tuple[PastIteration, ...]:
    """The recent tries under the present ruler, newest first, with the best one always in.

    An iteration in which the provider failed is no try.
    """
    recent = (record for record in project.ledger.recent if record.epoch == project.standing.epoch)
    records = [record for record in recent if record.reason not in PROVIDER_FAILED]
    if best_iteration not in [record.iteration for record in records]:
        best = project.ledger.history.iteration(best_iteration)
        records += [best] if best else []
    return tuple(past_try(record, verify) for record in records)


def past_try(record: IterationRecord, verify: Sequence[VerifyCommand]) -> PastIteration:
    """An iteration as the agent may know it; ``verify`` are the commands that measured it."""
    return PastIteration(
        record.iteration,
        record.outcome,
        record.reason,
        record.metric.value,
        record.changed_files,
        record.hypothesis_summary,
        _why_for_agent(record, verify),
    )


def _why_for_agent(record: IterationRecord, verify: Sequence[VerifyCommand]) -> str:
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


def read_crashes(project: Project, standing: Standing) -> tuple[str, int, str]:
    """How the output of the present row of crashes ended alike, the iteration of the last crash, and how that ended.

    Read from the checkpointed evidence; "" where that is gone or may not be shown, 0 where nothing crashed.
    """
    crashed = (record for record in project.ledger.recent if record.reason in CRASHED)
    newest = list(islice((record for record in crashed if record.epoch == standing.epoch), max(standing.crashes, 1)))
    if not newest:
        return "", 0, ""
    outputs = [_crash_output(project, record) for record in newest]
    endings = list(filter(None, outputs))
    return common_ending(endings) if len(endings) > 1 else "", newest[0].iteration, outputs[0]


def _crash_output(project: Project, record: IterationRecord) -> str:
    """The end of the output of a crashed candidate, as far as the agent may see it."""
    folder = project.loaded.runs / f"{record.iteration:04d}"
    for number in range(len(record.attempts) + 1, 0, -1):
        candidate = Checkpoints.stored_value(folder, CheckpointName("candidate", number), project.ledger.seal) or {}
        if candidate.get("commit") == record.commit_hash:
            evidence = Checkpoints.stored_value(folder, CheckpointName("evidence", number), project.ledger.seal) or {}
            return str((evidence.get("failure") or {}).get("printed") or "")
    return ""
