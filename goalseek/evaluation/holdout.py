"""The holdout: a metric that no decision uses, measured seldom. Each look is recorded as begun before it is made."""

from __future__ import annotations

from dataclasses import replace

from goalseek.errors import GoalseekError
from goalseek.evaluation.measurements import (
    Evaluation,
    measure_turn,
    measurement_of,
    pinned_target,
    seconds_outside,
    unused_seed,
)
from goalseek.humanize import format_number
from goalseek.ledger.checkpoints import holdout_key
from goalseek.ledger.records import HoldoutRecord
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Holdout, Manifest, Metric, VerifyCommand
from goalseek.project.landing import landing
from goalseek.statistics.decide import rejection_of
from goalseek.values import Phase, Reason, StopReason

COMMAND = "holdout"


def due_looks(manifest: Manifest, standing: Standing, is_end: bool) -> tuple[str, ...]:
    """Which of "baseline" and "best" are to be measured now: none before a keep, and each commit once."""
    if manifest.holdout is None or standing.best is None or standing.best == standing.baseline:
        return ()
    if not is_end and manifest.holdout.when != "kept":
        return ()
    looked_at = {(look.of, look.commit_hash) for look in standing.holdout if look.reason != "begun"}
    assert standing.baseline
    targets = (("baseline", standing.baseline.commit), ("best", standing.best.commit))
    return tuple(target for target, commit in targets if (target, commit) not in looked_at)


def look_at_holdout(evaluation: Evaluation, is_end: bool) -> None:
    """Makes the looks that are due. One whose command fails is recorded as failed, and not made again."""
    for target in due_looks(evaluation.config.manifest, evaluation.project.standing, is_end):
        _look(evaluation, target)


def with_holdout(manifest: Manifest, holdout: Holdout) -> Manifest:
    """The manifest whose metric is the holdout's: its command comes last, after those whose outputs it may need."""
    command = VerifyCommand(
        **{name: getattr(holdout, name) for name in VerifyCommand.__dataclass_fields__ if name != "name"}, name=COMMAND
    )
    metric = Metric(
        name=COMMAND,
        direction=manifest.metric.direction,
        source=holdout.source,
        path=holdout.path,
        query=holdout.query,
        regex=holdout.regex,
        matches=holdout.matches,
        command=COMMAND,
        valid=holdout.valid,
        exclusive=manifest.metric.exclusive,
    )
    return replace(manifest, verify=(*manifest.verify, command), metric=metric, guard=())


def gain_of(direction: str, before: float, after: float) -> float:
    """How much better ``after`` is, in the metric's units."""
    return after - before if direction == "maximize" else before - after


def _look(evaluation: Evaluation, target: str) -> None:
    project, standing = evaluation.project, evaluation.project.standing
    assert standing.baseline and standing.best
    commit = standing.baseline if target == "baseline" else standing.best
    project.watch.on_phase(commit.iteration, Phase.HOLDOUT)
    project.write_state("running", commit.iteration, Phase.HOLDOUT)
    killed = seconds_outside(project, holdout_key(standing)).phases  # this look is charged for one that was killed
    begun = HoldoutRecord(
        seq=0,
        kind="holdout",
        project=project.repository.name,
        run_id=project.run_id,
        epoch=standing.epoch,
        timestamp=project.ledger.now(),
        look=standing.looks + 1,
        of=target,
        iteration=commit.iteration,
        commit_hash=commit.commit,
        ruler=standing.ruler,
        reason="begun",
        seconds=round(sum(killed.values()), 6),
        why=f"a look at the {target}, iteration {commit.iteration}, begins",
    )
    with landing(project) as current:
        current.append(begun)
    project.activity.phase_seconds = seconds_outside(project, holdout_key(project.standing))
    with project.activity.phase_seconds.of(Phase.HOLDOUT):
        record = _measure(evaluation, replace(begun, seconds=0.0))
    record = replace(record, timestamp=project.ledger.now())
    with landing(project) as current:
        current.append(record)
    project.activity.phase_seconds.forget()
    project.watch.on_holdout(record)


def _measure(evaluation: Evaluation, begun: HoldoutRecord) -> HoldoutRecord:
    """The record of a look that was begun, with its value or with why it failed."""
    project, config, target = evaluation.project, evaluation.config, begun.of
    standing = project.standing
    assert config.manifest.holdout and standing.baseline and standing.best
    config = replace(config, manifest=with_holdout(config.manifest, config.manifest.holdout))
    before, after = (
        replace(pinned_target(evaluation, commit.tree), config=config, own_folder=COMMAND)
        for commit in (standing.baseline, standing.best)
    )
    failed = replace(begun, reason="failed")
    try:
        index = 0 if target == "baseline" else 1
        evidence = measure_turn(project, before, after, index, unused_seed(project))
    except GoalseekError as error:
        if error.stop_reason == StopReason.TAMPERED:
            raise
        return replace(failed, why=f"the look at the {target} failed: {error.message}")
    if refusal := rejection_of(config.manifest.metric, (), evidence):
        return replace(failed, why=f"the look at the {target} failed: {refusal[1]}")
    measurement = measurement_of(evidence)
    record = replace(begun, reason=Reason.MEASURED, value=measurement.value, seconds=measurement.seconds)
    baseline_value = next((look.value for look in standing.holdout if look.of == "baseline"), None)
    if target == "baseline" or baseline_value is None:
        return replace(record, why=f"{target} {format_number(measurement.value)}")
    gain = gain_of(standing.direction, baseline_value, measurement.value)
    claimed_gain = _claimed_gain(standing)
    why = (
        f"baseline {format_number(baseline_value)}, best {format_number(measurement.value)}: a gain of "
        f"{format_number(gain)}, where the verifier's is {format_number(claimed_gain)}"
    )
    return replace(record, gap=claimed_gain - gain, why=why)


def _claimed_gain(standing: Standing) -> float:
    """The verifier's gain of best over baseline: the settled one, else by the values decided on."""
    if standing.settled:
        return gain_of(standing.direction, standing.settled.baseline, standing.settled.best)
    assert standing.baseline and standing.best
    return gain_of(standing.direction, standing.baseline.value, standing.best.value)
