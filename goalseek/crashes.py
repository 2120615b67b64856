"""How the last candidates crashed: what the failed commands printed, as far as the agent may see it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from goalseek.ledger.checkpoints import Memory, named
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import CRASHED, Standing
from goalseek.project.project import Run


def crash_endings(run: Run, standing: Standing) -> list[str]:
    """The end of the output of each candidate in the present row of crashes, newest first.

    It is found in the evidence that its iteration stored; one that is gone, or printed nothing that may be shown, is
    left out.
    """
    if standing.crashes < 2:
        return []
    found = []
    for record in islice(_crashed(run, standing), standing.crashes):
        if printed := printed_by(run, record):
            found.append(printed)
    return found


def last_crashed(run: Run, standing: Standing) -> IterationRecord | None:
    """The newest iteration of this ruler whose candidate crashed."""
    return next(_crashed(run, standing), None)


def printed_by(run: Run, record: IterationRecord) -> str:
    """The end of what a crashed candidate's command printed, as far as the agent may see it; "" where it is gone."""
    folder = run.loaded.runs / f"{record.iteration:04d}"
    for number in range(len(record.attempts) + 1, 0, -1):
        candidate = Memory.value_of(folder, named("candidate", number), run.seal) or {}
        if candidate.get("commit") == record.commit_hash:
            evidence = Memory.value_of(folder, named("evidence", number), run.seal) or {}
            return str((evidence.get("failure") or {}).get("printed") or "")
    return ""


def _crashed(run: Run, standing: Standing) -> Iterator[IterationRecord]:
    """The iterations of this ruler whose candidates crashed, newest first."""
    return (record for record in run.recent if record.reason in CRASHED and record.epoch == standing.epoch)
