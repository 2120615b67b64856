"""Reproduction of a record: its commit measured again with the pinned ruler and seed.

Nothing is recorded: with the same seed a measurement says nothing new about the noise.
"""

import math
from collections.abc import Callable
from typing import Literal, Self

from msgspec import Struct, structs

from goalseek.errors import BAD_FINDING, USAGE, GoalseekError
from goalseek.evaluation.measurements import Target, measure_in_turn, pinned_target
from goalseek.humanize import format_distinct, format_duration, format_number, format_percent, parse_share, pluralize
from goalseek.ledger.audit import audit
from goalseek.ledger.standing import CRASHED, Standing
from goalseek.phase_values import Evidence
from goalseek.project.project import Project
from goalseek.records import IterationRecord
from goalseek.statistics.cases import order_of
from goalseek.statistics.guards import guard_violation, range_violation
from goalseek.statistics.noise import NoiseState, scale_of, spread
from goalseek.values import CommandRun, Reason

How = Literal["equal", "within", "differs"]
REPEATABILITY = 2.8  # sd of one run: two runs of the same code differ by less 19 times in 20 (ISO 5725)


class NumberDelta(Struct, frozen=True):
    name: str
    recorded: float
    again: float
    difference: float
    percent: float | None  # of the recorded number
    how: How  # "within": less than ``min_delta``, ``is_noise``, or the same bounds of a guard met
    text: str
    once_more: float | None = None  # of a second measurement, if one was made
    is_noise: bool = False


class Reproduction(Struct, frozen=True):
    how: How  # of the number that is furthest off
    text: tuple[str, ...]
    numbers: tuple[NumberDelta, ...] = ()

    @classmethod
    def of(cls, *numbers: NumberDelta) -> Self:
        how: How = max((number.how for number in numbers), key=("equal", "within", "differs").index)
        return cls(how, tuple(number.text for number in numbers), numbers)


class Rerun(Struct, frozen=True):
    iteration: int
    outcome: str
    reason: str
    commit: str
    tree: str
    ruler: str
    seed: int | None  # None if the record has none
    seconds: float
    found: Reproduction


def rerun(project: Project, number: int, on_message: Callable[[str], None]) -> Rerun:
    """Measure the commit of an iteration again with its last seed; once more if a difference may be noise.

    Raises GoalseekError if the audit fails, nothing was measured then, or another ruler than the pinned one measured
    it.
    """
    if deviations := audit(project.loaded, project.repository).deviations:
        first = deviations[0]
        message = f"the records fail the audit, so nothing is compared with them: {first.where}: {first.what}"
        raise GoalseekError(message, "goalseek audit names every difference", BAD_FINDING)
    record, standing = project.ledger.history.iteration(number), project.standing
    if record is None or standing.baseline is None:
        raise GoalseekError(f"there is no record of iteration {number}", "see: goalseek log", USAGE)
    if record.epoch != standing.epoch or record.digests.get("ruler") != standing.ruler:
        message = (
            f"iteration {number} was measured with the verifier of epoch {record.epoch}, and that of epoch "
            f"{standing.epoch} is pinned now: numbers of two verifiers are never compared"
        )
        hint = f"the pinned verifier measured iteration {standing.baseline.iteration} and those after it"
        raise GoalseekError(message, hint, USAGE)
    # The recorded guards are from the candidate's last run too.
    last_run = next((run for run in reversed(record.runs) if run.of == "candidate"), None)
    recorded = last_run.value if last_run and record.reason not in CRASHED else None
    if not record.tree_hash or (record.reason not in CRASHED and recorded is None):
        message = f"iteration {number} was never measured: {record.outcome} / {record.reason}"
        raise GoalseekError(message, "see: goalseek log", USAGE)
    assert record.commit_hash
    config = project.config((standing.baseline.tree, record.tree_hash))
    on_message(
        f"audit: measuring iteration {number} again, {record.commit_hash[:12]} ({record.outcome}, {record.reason}); "
        + (f"it took {format_duration(last_run.seconds)}" if last_run else "how long it takes is not recorded")
    )

    seed = last_run.seed if last_run else None
    asked = last_run.cases.unpacked() if last_run and last_run.cases else {}
    order = order_of(len(standing.noise.cases.ids), record.runs[0].seed) if asked and standing.noise.cases else ()
    target = pinned_target(standing, config, record.tree_hash)
    cases = tuple(case for case in order if case in asked)
    target = structs.replace(target, iteration=record.iteration, seed=seed, cases=cases)
    runs = measure_in_turn(project, (target, target))
    evidence = next(runs).evidence
    verify, noise = evidence.verify, standing.noise
    reproduction = _reproduce(target, standing, record, recorded, evidence)
    is_other = any(number.how == "differs" for number in reproduction.numbers[:1])
    if is_other and (noise.differed or not noise.agreed):
        on_message("audit: the number differs; measuring once more, to see the noise")
        second = next(runs).evidence
        verify += second.verify
        if not second.failure and (value := second.runs[0].value) is not None:
            reproduction = _judge_with_noise(reproduction, config.manifest.metric.direction, noise, value)
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


def _reproduce(
    target: Target, standing: Standing, record: IterationRecord, recorded: float | None, evidence: Evidence
) -> Reproduction:
    value = evidence.runs[0].value
    failure = f"{evidence.failure.reason}: {evidence.failure.why}" if evidence.failure else ""
    if recorded is None and value is not None:
        return Reproduction("differs", (f"it failed then ({record.reason}), and gives {format_number(value)} now",))
    if recorded is not None and value is None:
        return Reproduction("differs", (f"it was measured then, and fails now: {failure}",))
    if recorded is None or value is None:
        assert evidence.failure
        if _last_exit(record.reason, record.verify) == _last_exit(evidence.failure.reason, evidence.verify):
            return Reproduction("equal", (f"it fails again the same way: {failure}",))
        return Reproduction("differs", (f"it fails again, but otherwise: {failure}", f"recorded was: {record.why}"))
    manifest, metric = target.config.manifest, target.config.manifest.metric
    is_within = abs(value - recorded) < parse_share(metric.min_delta, recorded)
    name = f"{metric.name} of {pluralize(len(target.cases), 'case')}" if target.cases else metric.name
    numbers = [_compare_number(name, recorded, value, "less than min_delta" if is_within else "")]
    for guard in manifest.guard:
        before, after = record.guards.get(guard.name), evidence.guards[guard.name]
        if before is None:
            return Reproduction("differs", (f"{guard.name} is not in the record, and {format_number(after)} now",))
        baseline = standing.baseline.guards.get(guard.name) if standing.baseline else None
        bounds_met = {
            (range_violation(guard.name, guard.valid, side) is None, guard_violation(guard, side, baseline) is None)
            for side in (before, after)
        }
        why_within = "on the same side of its bounds" if len(bounds_met) == 1 else ""
        numbers.append(_compare_number(guard.name, before, after, why_within))
    return Reproduction.of(*numbers)


def _last_exit(reason: str, verify: tuple[CommandRun, ...]) -> tuple[str, str, int | None]:
    """The reason, last command and exit code; None for the code after a timeout, as it is chance then."""
    if not verify:
        return reason, "", None
    return reason, verify[-1].name, None if reason == Reason.VERIFY_TIMEOUT else verify[-1].exit_code


def _compare_number(name: str, recorded: float, again: float, why_within: str) -> NumberDelta:
    """``why_within`` says why a difference decides nothing; "" if it does."""
    difference = again - recorded
    if difference == 0:
        text = f"{name}: {format_number(again)} again, identical"
        return NumberDelta(name, recorded, again, 0.0, 0.0, "equal", text)
    percent = 100 * difference / abs(recorded) if recorded else None
    before, after = format_distinct(recorded, again)
    share = "" if percent is None else f", {'+' if difference > 0 else ''}{format_percent(percent / 100)}"
    text = f"{name}: recorded {before}, now {after}: {format_number(difference, sign='+')}{share}"
    text += f"; {why_within}" if why_within else ""
    return NumberDelta(name, recorded, again, difference, percent, "within" if why_within else "differs", text)


def _judge_with_noise(reproduction: Reproduction, direction: str, state: NoiseState, once_more: float) -> Reproduction:
    """The reproduction judged by a second measurement, ``once_more``, and the spread of recorded repeats."""
    first, *guards = reproduction.numbers
    if once_more == first.again:  # to the last bit: the metric is not noisy
        text = f"{first.text}; measured once more, it is the same, so the difference is not noise"
        return Reproduction.of(structs.replace(first, text=text, once_more=once_more), *guards)
    values = (first.recorded, first.again, once_more)
    scale = scale_of(direction, state.all_positive and all(value > 0 for value in values))
    limit = REPEATABILITY * spread(scale, (*state.pairs, (first.again, once_more)))
    is_noise = abs(scale.x(first.again) - scale.x(first.recorded)) <= limit
    shown = format_percent(math.expm1(limit)) if scale.logarithmic else format_number(limit)
    text = (
        f"{first.text}; measured once more {format_number(once_more)}: {first.name} is noisy, runs of the same code "
        f"differ here by up to about {shown}, and this one lies {'within' if is_noise else 'beyond'}"
    )
    how: How = "within" if is_noise else "differs"
    return Reproduction.of(structs.replace(first, text=text, once_more=once_more, how=how, is_noise=is_noise), *guards)
