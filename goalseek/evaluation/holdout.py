"""The holdout: a metric that no decision uses, measured seldom. Each look is recorded as begun before it is made."""

from __future__ import annotations

from dataclasses import replace

from goalseek.errors import GoalseekError
from goalseek.evaluation.measurements import Target, measure_target, measurement_of, seconds_outside
from goalseek.humanize import format_number
from goalseek.ledger.checkpoints import holdout_key
from goalseek.ledger.records import HoldoutRecord
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.manifest.tables import Holdout, Manifest, Metric, VerifyCommand
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.statistics.decide import rejection_of
from goalseek.values import Phase, Reason, StopReason
from goalseek.workspace.places import BenchName

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


def look_at_holdout(project: Project, config: Config, is_end: bool) -> None:
    """Makes the looks that are due. One whose command fails is recorded as failed, and not made again."""
    for target in due_looks(config.manifest, project.standing, is_end):
        _look(project, config, target)


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


def _look(project: Project, config: Config, target: str) -> None:
    standing = project.standing
    assert config.manifest.holdout and standing.baseline and standing.best
    mark = standing.baseline if target == "baseline" else standing.best
    project.watch.on_phase(mark.iteration, Phase.HOLDOUT)
    project.write_state("running", mark.iteration, Phase.HOLDOUT)
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
        iteration=mark.iteration,
        commit_hash=mark.commit,
        ruler=standing.ruler,
        reason="begun",
        seconds=round(sum(killed.values()), 6),
        why=f"a look at the {target}, iteration {mark.iteration}, begins",
    )
    project.ledger.append(begun)
    project.activity.phase_seconds = seconds_outside(project, holdout_key(project.standing))
    with project.activity.phase_seconds.of(Phase.HOLDOUT):
        record = _measure(project, config, config.manifest.holdout, mark, replace(begun, seconds=0.0))
    record = replace(record, timestamp=project.ledger.now())
    project.ledger.append(record)
    project.activity.phase_seconds.forget()
    project.watch.on_holdout(record)


def _measure(
    project: Project, config: Config, holdout: Holdout, mark: MeasuredCommit, begun: HoldoutRecord
) -> HoldoutRecord:
    """The record of a look that was begun, with its value or with why it failed."""
    standing, target = project.standing, begun.of
    assert standing.baseline
    holdout_config = replace(config, manifest=with_holdout(config.manifest, holdout))
    baseline = standing.baseline
    subject = Target(holdout_config, mark.tree, standing.ruler, standing.epoch, baseline.tree, baseline.seconds)
    bench: BenchName = "a" if target == "baseline" else "b"
    try:
        evidence = measure_target(
            project, subject, 0, project.places.scratch / COMMAND, bench=bench, own_folder=COMMAND
        )
    except GoalseekError as error:
        if error.stop_reason == StopReason.TAMPERED:
            raise
        return replace(begun, reason="failed", why=f"the look at the {target} failed: {error.message}")
    if refusal := rejection_of(holdout_config.manifest.metric, (), evidence):
        return replace(begun, reason="failed", why=f"the look at the {target} failed: {refusal[1]}")
    measurement = measurement_of(evidence)
    record = replace(begun, reason=Reason.MEASURED, value=measurement.value, seconds=measurement.seconds)
    baseline_value = next((look.value for look in standing.holdout if look.of == "baseline"), None)
    if target == "baseline" or baseline_value is None:
        return replace(record, why=f"{target} {format_number(measurement.value)}")
    gain = gain_of(standing.direction, baseline_value, measurement.value)
    claimed_gain = _claimed_gain(standing)
    why = (
        f"baseline {format_number(baseline_value)}, best {format_number(measurement.value)}: "
        f"a gain of {format_number(gain)}, "
        f"where the verifier's is {format_number(claimed_gain)}"
    )
    return replace(record, gap=claimed_gain - gain, why=why)


def _claimed_gain(standing: Standing) -> float:
    """The verifier's gain of best over baseline: the settled one, else by the values decided on."""
    if standing.settled:
        return gain_of(standing.direction, standing.settled.baseline, standing.settled.best)
    assert standing.baseline and standing.best
    return gain_of(standing.direction, standing.baseline.value, standing.best.value)
