"""What the agent may be told of a try: never what a command printed that sees hidden files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from goalseek.ledger.checkpoints import Checkpoints, named
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import CRASHED, Standing
from goalseek.manifest.tables import VerifyCommand
from goalseek.phase_values import PastTry
from goalseek.project.project import Project

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


def crash_endings(project: Project, standing: Standing) -> list[str]:
    """The end of the output of each candidate in the present row of crashes, newest first.

    It is found in the evidence that its iteration stored; one that is gone, or printed nothing that may be shown, is
    left out.
    """
    if standing.crashes < 2:
        return []
    found = []
    for record in islice(_crashed(project, standing), standing.crashes):
        if printed := printed_by(project, record):
            found.append(printed)
    return found


def last_crashed(project: Project, standing: Standing) -> IterationRecord | None:
    """The newest iteration of this ruler whose candidate crashed."""
    return next(_crashed(project, standing), None)


def printed_by(project: Project, record: IterationRecord) -> str:
    """The end of what a crashed candidate's command printed, as far as the agent may see it; "" where it is gone."""
    folder = project.loaded.runs / f"{record.iteration:04d}"
    for number in range(len(record.attempts) + 1, 0, -1):
        candidate = Checkpoints.value_of(folder, named("candidate", number), project.seal) or {}
        if candidate.get("commit") == record.commit_hash:
            evidence = Checkpoints.value_of(folder, named("evidence", number), project.seal) or {}
            return str((evidence.get("failure") or {}).get("printed") or "")
    return ""


def _crashed(project: Project, standing: Standing) -> Iterator[IterationRecord]:
    """The iterations of this ruler whose candidates crashed, newest first."""
    return (record for record in project.recent if record.reason in CRASHED and record.epoch == standing.epoch)
