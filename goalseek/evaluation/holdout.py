"""The holdout: a metric that no decision uses, measured seldom. Each look is recorded as begun before it is made."""

from __future__ import annotations

from msgspec import structs

from goalseek.errors import GoalseekError
from goalseek.evaluation.measurements import (
    Evaluation,
    measure_in_turn,
    origin_tree,
    pinned_target,
    seconds_outside,
)
from goalseek.humanize import format_distinct, format_number
from goalseek.ledger.checkpoints import holdout_key
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.manifest.tables import Holdout, Manifest
from goalseek.phase_values import Failure
from goalseek.project.landing import landing
from goalseek.records import HoldoutRecord
from goalseek.values import Phase, Reason, StopReason


def due_looks(manifest: Manifest, standing: Standing, is_end: bool) -> tuple[str, ...]:
    """Which of "baseline" and "best" are to be measured now: none before a keep, and each commit once."""
    if manifest.holdout is None or standing.best is None or not standing.keeps:
        return ()
    if not is_end and manifest.holdout.when != "kept":
        return ()
    looked_at = {(look.of, look.commit_hash) for look in standing.holdout if look.reason != "begun"}
    assert standing.origin
    targets = (("baseline", standing.origin.commit), ("best", standing.best.commit))
    return tuple(target for target, commit in targets if (target, commit) not in looked_at)


def look_at_holdout(evaluation: Evaluation, is_end: bool) -> None:
    """Makes the looks that are due. One whose command fails is recorded as failed, and not made again."""
    for side in due_looks(evaluation.config.manifest, evaluation.project.standing, is_end):
        _look(evaluation, side)


def with_holdout(manifest: Manifest, holdout: Holdout) -> Manifest:
    """The manifest of a look: the holdout's command runs last, after those whose outputs it may need."""
    command = next(command for command in manifest.verify if command.name == holdout.command)
    metric = structs.replace(manifest.metric, command=holdout.command)
    if holdout.query is not None:
        metric = structs.replace(metric, source="json", query=holdout.query, regex=None)
    if holdout.regex is not None:
        source = metric.source if metric.source in ("stdout", "stderr") else "stdout"
        metric = structs.replace(metric, source=source, query=None, regex=holdout.regex)
    return structs.replace(manifest, verify=(*manifest.commands, command), metric=metric, guard=(), holdout=None)


def gain_of(direction: str, before: float, after: float) -> float:
    """How much better ``after`` is, in the metric's units."""
    return after - before if direction == "maximize" else before - after


def _look(evaluation: Evaluation, side: str) -> None:
    """One look at ``side``, the baseline or the best; it is charged for one that was killed."""
    project, standing = evaluation.project, evaluation.project.standing
    assert standing.origin and standing.best
    commit = standing.origin if side == "baseline" else standing.best
    project.watch.on_phase(commit.iteration, Phase.HOLDOUT)
    project.show("running", commit.iteration, Phase.HOLDOUT)
    killed_seconds = seconds_outside(project, holdout_key(standing)).before
    begun = HoldoutRecord(
        seq=0,
        kind="holdout",
        project=project.repository.name,
        run_id=project.run_id,
        epoch=standing.epoch,
        timestamp=project.ledger.now(),
        look=standing.looks + 1,
        of=side,
        iteration=commit.iteration,
        commit_hash=commit.commit,
        ruler=standing.ruler,
        reason="begun",
        seconds=round(killed_seconds, 6),
        why=f"a look at the {side}, iteration {commit.iteration}, begins",
    )
    with landing(project) as current:
        current.append(begun)
    seconds = project.activity.phase_seconds = seconds_outside(project, holdout_key(project.standing))
    with seconds.of(Phase.HOLDOUT):
        record = _measure(evaluation, commit, structs.replace(begun, seconds=0.0))
    record = structs.replace(record, timestamp=project.ledger.now())
    with landing(project) as current:
        current.append(record)
    seconds.forget()
    project.watch.on_holdout(record)


def _measure(evaluation: Evaluation, commit: MeasuredCommit, begun: HoldoutRecord) -> HoldoutRecord:
    """The record of a look that was begun, with its value or with why it failed."""
    project, config, side = evaluation.project, evaluation.config, begun.of
    standing = project.standing
    assert config.manifest.holdout and standing.origin and standing.best
    holdout = config.manifest.holdout
    config = structs.replace(config, manifest=with_holdout(config.manifest, holdout))
    tree = origin_tree(evaluation) if side == "baseline" else commit.tree
    target = pinned_target(standing, config, tree, "a" if side == "baseline" else "b")
    failed = structs.replace(begun, reason="failed")
    try:
        (run,) = measure_in_turn(project, [structs.replace(target, own_folder=holdout.command)])
    except GoalseekError as error:
        if error.stop_reason == StopReason.TAMPERED:
            raise
        return structs.replace(failed, why=f"the look at the {side} failed: {error.message}")
    number = run.number
    if isinstance(number, Failure):
        return structs.replace(failed, why=f"the look at the {side} failed: {number.why}")
    value, unit = number.value, config.manifest.metric.unit
    record = structs.replace(begun, reason=Reason.MEASURED, value=value, seconds=number.seconds)
    baseline_value = next((look.value for look in standing.holdout if look.of == "baseline"), None)
    if side == "baseline" or baseline_value is None:
        return structs.replace(record, why=f"{side} {format_number(value, unit)}")
    claim = standing.settled
    claimed_values = (claim.baseline, claim.best) if claim else (standing.origin.value, standing.best.value)
    claimed_gain = gain_of(standing.direction, *claimed_values)
    gain = gain_of(standing.direction, baseline_value, value)
    before, after = format_distinct(baseline_value, value, unit=unit)
    why = (
        f"baseline {before}, best {after}: a gain of "
        f"{format_number(gain, unit)}, where the verifier's is {format_number(claimed_gain, standing.unit)}"
    )
    return structs.replace(record, gap=claimed_gain - gain, why=why)
