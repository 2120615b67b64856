"""Reproduction of a record: its commit measured again with the pinned ruler and seed, and compared with the record.

Nothing is recorded, not even the measurement: with the same seed it says nothing new about the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from goalseek.errors import BAD_FINDING, USAGE, GoalseekError
from goalseek.evaluation.measurements import Evaluation, measure_target, pinned_target, unused_seed
from goalseek.humanize import format_duration, format_number, format_percent, parse_share
from goalseek.ledger.audit import audit
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import CRASHED, Standing
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Evidence
from goalseek.project.project import Project
from goalseek.statistics.guards import guard_violation, range_violation
from goalseek.statistics.noise_state import NoiseState
from goalseek.statistics.scale import scale_of, spread
from goalseek.values import CommandRun, Reason

How = Literal["equal", "within", "differs"]
REPEATABILITY = 2.8  # sd of one run: two runs of the same code differ by less 19 times in 20 (ISO 5725)


@dataclass(frozen=True)
class NumberDelta:
    """One number, ``recorded`` and measured ``again``: ``difference`` in its units, ``percent`` of the recorded one.

    ``within``: a metric's difference is less than ``min_delta`` or ``is_noise``; a guard meets the same bounds.
    ``once_more`` is the value of a second measurement, where one was made.
    """

    name: str
    recorded: float
    again: float
    difference: float
    percent: float | None
    how: How
    text: str
    once_more: float | None = None
    is_noise: bool = False


@dataclass(frozen=True)
class Reproduction:
    """The result of the comparison; ``how`` is that of the number that is furthest off, ``text`` has its lines."""

    how: How
    text: tuple[str, ...]
    numbers: tuple[NumberDelta, ...] = ()

    @classmethod
    def of(cls, *numbers: NumberDelta) -> Reproduction:
        """The comparison of these numbers."""
        how: How = max((number.how for number in numbers), key=("equal", "within", "differs").index)
        return cls(how, tuple(number.text for number in numbers), numbers)


@dataclass(frozen=True)
class Rerun:
    """What was measured again, and the reproduction. ``seed`` is None where the record has none."""

    iteration: int
    outcome: str
    reason: str
    commit: str
    tree: str
    ruler: str
    seed: int | None
    seconds: float
    found: Reproduction


def rerun(project: Project, number: int, on_message: Callable[[str], None]) -> Rerun:
    """Measures the commit of an iteration again, with the seed of its last run. ``on_message`` gets what it will cost.

    Where a different number may be noise, it is measured once more.

    Raises GoalseekError where the audit of the records fails, where there is nothing to compare with, and where
    another ruler than the pinned one measured it.
    """
    _refuse_deviations(project)
    record, standing = _record(project, number), project.standing
    assert standing.baseline and record.tree_hash and record.commit_hash
    config = project.config((standing.baseline.tree, record.tree_hash))
    # The recorded guards are from the candidate's last run.
    last_run = next((run for run in reversed(record.runs) if run.of == "candidate"), None)
    on_message(
        f"audit: measuring iteration {number} again, {record.commit_hash[:12]} ({record.outcome}, {record.reason}); "
        + (f"it took {format_duration(last_run.seconds)}" if last_run else "how long it takes is not recorded")
    )
    target, seed = pinned_target(Evaluation(project, config), record.tree_hash), last_run.seed if last_run else None

    def measure(number: int) -> Evidence:
        seed_now = unused_seed(project, number, record.iteration) if seed is None else seed
        return measure_target(project, target, seed_now, iteration=record.iteration)

    evidence = measure(0)
    verify = evidence.verify
    reproduction = compare_with_record(config.manifest, standing, record, evidence)
    if _may_be_noise(reproduction, standing.noise):
        on_message("audit: it is another number; measuring once more, to see whether it moves by itself")
        second = measure(1)
        verify += second.verify
        if not second.failure and (value := second.runs[0].value) is not None:
            reproduction = _judge_with_noise(reproduction, config.manifest.metric.direction, standing.noise, value)
    return Rerun(
        record.iteration,
        record.outcome,
        record.reason,
        record.commit_hash,
        record.tree_hash,
        standing.ruler,
        seed,
        round(sum(command.seconds for command in verify), 6),
        reproduction,
    )


def _refuse_deviations(project: Project) -> None:
    deviations = audit(project.loaded, project.repository).deviations
    if deviations:
        first = deviations[0]
        message = f"the records do not hold, so nothing is compared with them: {first.where}: {first.what}"
        raise GoalseekError(message, "goalseek audit names every difference", BAD_FINDING)


def _record(project: Project, number: int) -> IterationRecord:
    """The record to compare with. Raises GoalseekError where there is none that can be."""
    standing = project.standing
    record = project.ledger.history.iteration(number)
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


def compare_with_record(
    manifest: Manifest, standing: Standing, record: IterationRecord, evidence: Evidence
) -> Reproduction:
    """Compares evidence with the record, which has a value or a failure."""
    value = evidence.runs[0].value
    recorded = next((run.value for run in reversed(record.runs) if run.of == "candidate"), None)
    if recorded is None or not _succeeded(record):
        return _compare_failures(record, evidence, value)
    if value is None:
        return Reproduction("differs", (f"it was measured then, and fails now: {_format_failure(evidence)}",))
    assert standing.baseline
    metric = manifest.metric
    is_within = abs(value - recorded) < parse_share(metric.min_delta, recorded)
    numbers = [_compare_number(metric.name, recorded, value, is_within, "less than min_delta")]
    for guard in manifest.guard:
        before, after = record.guards.get(guard.name), evidence.guards[guard.name]
        if before is None:
            return Reproduction("differs", (f"{guard.name} is not in the record, and {format_number(after)} now",))
        baseline = standing.baseline.guards.get(guard.name)
        bounds_met = {
            (range_violation(guard.name, guard.valid, side) is None, guard_violation(guard, side, baseline) is None)
            for side in (before, after)
        }
        numbers.append(
            _compare_number(guard.name, before, after, len(bounds_met) == 1, "on the same side of its bounds")
        )
    return Reproduction.of(*numbers)


def _compare_failures(record: IterationRecord, evidence: Evidence, value: float | None) -> Reproduction:
    if not evidence.failure:
        assert value is not None
        return Reproduction("differs", (f"it failed then ({record.reason}), and gives {format_number(value)} now",))
    if _ending(record.reason, record.verify) == _ending(evidence.failure.reason, evidence.verify):
        return Reproduction("equal", (f"it fails again the same way: {_format_failure(evidence)}",))
    return Reproduction(
        "differs", (f"it fails again, but otherwise: {_format_failure(evidence)}", f"recorded was: {record.why}")
    )


def _format_failure(evidence: Evidence) -> str:
    assert evidence.failure
    return f"{evidence.failure.reason}: {evidence.failure.why}"


def _ending(reason: str, verify: tuple[CommandRun, ...]) -> tuple[str, str, int | None]:
    """The reason, the last command and its exit code; None for the code after a timeout, as it is chance then."""
    if not verify:
        return reason, "", None
    return reason, verify[-1].name, None if reason == Reason.VERIFY_TIMEOUT else verify[-1].exit_code


def _compare_number(name: str, recorded: float, again: float, is_within: bool, why_within: str) -> NumberDelta:
    difference = again - recorded
    if difference == 0:
        return NumberDelta(
            name, recorded, again, 0.0, 0.0, "equal", f"{name}: {format_number(again)} again, to the last bit"
        )
    percent = 100 * difference / abs(recorded) if recorded else None
    shown = [format_number(recorded), format_number(again)]
    if shown[0] == shown[1]:
        shown = [repr(recorded), repr(again)]
    share = "" if percent is None else f", {percent:+.3g}%"
    text = f"{name}: recorded {shown[0]}, now {shown[1]}: {difference:+.6g}{share}"
    text += f"; {why_within}" if is_within else ""
    return NumberDelta(name, recorded, again, difference, percent, "within" if is_within else "differs", text)


def _may_be_noise(reproduction: Reproduction, state: NoiseState) -> bool:
    """Whether the metric differs, and repeats of the same code have differed too or were never made."""
    metric = next(iter(reproduction.numbers), None)
    return metric is not None and metric.how == "differs" and (state.differed or not state.agreed)


def _judge_with_noise(reproduction: Reproduction, direction: str, state: NoiseState, once_more: float) -> Reproduction:
    """The reproduction judged with the value ``once_more`` of a second measurement and the spread of recorded repeats.

    Where both measurements give the same value to the last bit, the metric is not noisy, and the number differs.
    """
    first, *guards = reproduction.numbers
    if once_more == first.again:
        text = f"{first.text}; measured once more it is the same again, so this is no noise"
        return Reproduction.of(replace(first, text=text, once_more=once_more), *guards)
    values = (first.recorded, first.again, once_more)
    scale = scale_of(direction, state.all_positive and all(value > 0 for value in values))
    limit = REPEATABILITY * spread(scale, (*state.pairs, (first.again, once_more)))
    is_noise = abs(scale.x(first.again) - scale.x(first.recorded)) <= limit
    shown = format_percent(math.expm1(limit)) if scale.logarithmic else format_number(limit)
    text = (
        f"{first.text}; measured once more {format_number(once_more)}: {first.name} is noisy, runs of the same code "
        f"differ here by up to about {shown}, and this one lies {'within' if is_noise else 'beyond'}"
    )
    how: How = "within" if is_noise else first.how
    return Reproduction.of(replace(first, text=text, once_more=once_more, how=how, is_noise=is_noise), *guards)
