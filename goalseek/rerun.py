"""An old commit measured again with the pinned ruler, and held against its record. Nothing is recorded.

Not as a measurement either: with the seed of then it says nothing new about the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from goalseek.errors import BAD_FINDING, USAGE, GoalseekError
from goalseek.humanize import in_words
from goalseek.ledger.audit import audit
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import CRASHED
from goalseek.phase_values import Evidence
from goalseek.pool import Subject, measure_subject
from goalseek.project.project import Run
from goalseek.same_again import SameAgain, same_again
from goalseek.values import VerifierRun
from goalseek.within_noise import among_noise, may_be_noise


@dataclass(frozen=True)
class Rerun:
    """What was measured again, and what came of it. ``seed`` is None where the record has none."""

    iteration: int
    outcome: str
    reason: str
    commit: str
    tree: str
    ruler: str
    seed: int | None
    seconds: float
    found: SameAgain


def rerun(run: Run, number: int, tell: Callable[[str], None]) -> Rerun:
    """Measures the commit of an iteration again, with the seed of its last run. ``tell`` is told what it will cost.

    Where another number may be noise, it is measured once more.

    Raises GoalseekError where the records do not hold, where there is nothing to compare with, and where another
    ruler than the pinned one measured it.
    """
    _refuse_deviations(run)
    record = _record(run, number)
    standing = run.standing
    assert standing.baseline and record.tree_hash and record.commit_hash
    setting = run.setting((standing.baseline.tree, record.tree_hash))
    made = _last_run(record)
    recorded = made.value if made and _succeeded(record) else None
    tell(
        f"audit: measuring iteration {number} again, {record.commit_hash[:12]} ({record.outcome}, {record.reason}); "
        + (f"it took {in_words(made.seconds)}" if made else "how long it takes is not recorded")
    )
    subject = Subject(
        setting, record.tree_hash, standing.ruler, standing.epoch, standing.baseline.tree, standing.baseline.seconds
    )
    seed = made.seed if made else None
    folder = run.places.scratch / "rerun"

    def measured(place: int) -> Evidence:
        given = -1 if seed is None else seed
        return measure_subject(run, subject, place, folder, record.tree_hash or "", given, record.iteration)

    evidence = measured(0)
    verify = evidence.verify
    found = same_again(setting.manifest, standing.baseline.guards, record, recorded, evidence)
    if may_be_noise(found, standing.noise):
        tell("audit: it is another number; measuring once more, to see whether it moves by itself")
        second = measured(1)
        verify += second.verify
        if not second.failure and (value := second.runs[0].value) is not None:
            found = among_noise(found, setting.manifest.metric.direction, standing.noise, value)
    return Rerun(
        record.iteration,
        record.outcome,
        record.reason,
        record.commit_hash,
        record.tree_hash,
        standing.ruler,
        seed,
        round(sum(command.seconds for command in verify), 6),
        found,
    )


def _refuse_deviations(run: Run) -> None:
    deviations = audit(run.loaded, run.repository).deviations
    if deviations:
        first = deviations[0]
        message = f"the records do not hold, so nothing is compared with them: {first.where}: {first.what}"
        raise GoalseekError(message, "goalseek audit names every difference", BAD_FINDING)


def _record(run: Run, number: int) -> IterationRecord:
    """The record to compare with. Raises GoalseekError where there is none that can be."""
    standing = run.standing
    record = run.ledger.history.iteration(number)
    if record is None or standing.baseline is None:
        raise GoalseekError(f"there is no record of iteration {number}", "see: goalseek log", USAGE)
    if record.epoch != standing.epoch or record.digests.get("ruler") != standing.ruler:
        message = (
            f"iteration {number} was measured with the ruler of epoch {record.epoch}, and that of epoch "
            f"{standing.epoch} is pinned now: numbers of two rulers are never compared"
        )
        hint = f"this ruler measured iteration {standing.baseline.iteration} and those after it"
        raise GoalseekError(message, hint, USAGE)
    if not record.tree_hash or not (_succeeded(record) or record.reason in CRASHED):
        message = f"iteration {number} was never measured: {record.outcome} / {record.reason}"
        raise GoalseekError(message, "see: goalseek log", USAGE)
    return record


def _succeeded(record: IterationRecord) -> bool:
    """Whether the candidate was given a number."""
    return record.reason not in CRASHED and any(run.of == "candidate" and run.value is not None for run in record.runs)


def _last_run(record: IterationRecord) -> VerifierRun | None:
    """The candidate's last run, from which the recorded guards are."""
    return next((run for run in reversed(record.runs) if run.of == "candidate"), None)
