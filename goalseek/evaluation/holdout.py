"""The holdout: a metric that no decision uses, measured seldom. Each look is recorded as begun before it is made."""

import math

from msgspec import structs

from goalseek.errors import GoalseekError
from goalseek.evaluation import measurements
from goalseek.humanize import format_distinct, format_number, pluralize
from goalseek.ledger.checkpoints import holdout_key
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Holdout, Manifest
from goalseek.phase_values import Failure
from goalseek.project import landing
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.records import HoldoutRecord
from goalseek.statistics.noise import scale_of
from goalseek.values import Phase, Reason, StopReason
from goalseek.workspace.places import BenchName

SPREAD = 0.6  # of the difference that a change makes to a case, for scores between 0 and 1


def due_looks(manifest: Manifest, standing: Standing, is_end: bool) -> tuple[str, ...]:
    """The due ones of "baseline" and "best": none before a keep, and each commit once."""
    if manifest.holdout is None or standing.best is None or not standing.keeps:
        return ()
    if not is_end and manifest.holdout.when != "kept":
        return ()
    looked_at = {(look.of, look.commit_hash) for look in standing.holdout if look.reason != "begun"}
    assert standing.origin
    targets = (("baseline", standing.origin.commit), ("best", standing.best.commit))
    return tuple(target for target, commit in targets if (target, commit) not in looked_at)


def with_holdout(manifest: Manifest, holdout: Holdout) -> Manifest:
    """The manifest of a look: the holdout's command runs last, as it may need outputs of others."""
    command = next(command for command in manifest.verify if command.name == holdout.command)
    metric = structs.replace(manifest.metric, command=holdout.command)
    if holdout.query is not None:
        metric = structs.replace(metric, source="json", query=holdout.query, regex=None, cases=None)
    if holdout.regex is not None:
        source = metric.source if metric.source in ("stdout", "stderr") else "stdout"
        metric = structs.replace(metric, source=source, query=None, regex=holdout.regex, cases=None)
    return structs.replace(manifest, verify=(*manifest.commands, command), metric=metric, guard=(), holdout=None)


def look_at_holdout(project: Project, config: Config, is_end: bool) -> None:
    """Make the due looks. One whose command fails is recorded as failed, and not made again."""
    for side in due_looks(config.manifest, project.standing, is_end):
        standing = project.standing
        assert config.manifest.holdout and standing.origin and standing.best
        holdout, manifest = config.manifest.holdout, with_holdout(config.manifest, config.manifest.holdout)
        bench: BenchName = "a" if side == "baseline" else "b"
        commit = standing.origin if side == "baseline" else standing.best
        project.watch.on_phase(commit.iteration, Phase.HOLDOUT)
        project.show("running", commit.iteration, Phase.HOLDOUT)
        begun = HoldoutRecord(
            **project.record_head("holdout", standing.epoch),
            look=standing.looks + 1,
            of=side,
            iteration=commit.iteration,
            commit_hash=commit.commit,
            ruler=standing.ruler,
            reason="begun",
            # It is charged for a look that was killed.
            seconds=round(measurements.seconds_outside(project, holdout_key(standing)).before, 6),
            why=f"a look at the {side}, iteration {commit.iteration}, begins",
        )
        landing.append(project, begun)
        tree = measurements.origin_tree(project, config) if side == "baseline" else commit.tree
        target = measurements.pinned_target(standing, structs.replace(config, manifest=manifest), tree, bench)
        seconds = project.activity.phase_seconds = measurements.seconds_outside(project, holdout_key(project.standing))
        with seconds.of(Phase.HOLDOUT):
            try:
                (run,) = measurements.measure_in_turn(project, [structs.replace(target, own_folder=holdout.command)])
                number = run.number
            except GoalseekError as error:
                if error.stop_reason in (StopReason.TAMPERED, StopReason.CLUSTER):
                    raise
                number = Failure("failed", error.message)
        if isinstance(number, Failure):
            why = f"the look at the {side} failed: {number.why}"
            record = structs.replace(begun, seconds=0.0, reason="failed", why=why)
        else:
            gap, why = _compare_gains(standing, side, number.value, manifest.metric.unit)
            if (count := len(run.evidence.case_ids)) and standing.noise.cases and standing.noise.cases.is_share:
                likely = format_number(SPREAD / math.sqrt(count), digits=2)
                why += f"; of a gain on {pluralize(count, 'case')} the standard error is about {likely}"
            figures = {"value": number.value, "gap": gap, "seconds": number.seconds}
            record = structs.replace(begun, reason=Reason.MEASURED, why=why, **figures)
        record = structs.replace(record, timestamp=project.ledger.now())
        landing.append(project, record)
        seconds.forget()
        project.watch.on_record(record)


def _compare_gains(standing: Standing, side: str, value: float, unit: str) -> tuple[float | None, str]:
    """The verifier's gain less the holdout's (None before both sides have a value), and a sentence."""
    baseline_value = next((look.value for look in standing.holdout if look.of == "baseline"), None)
    if side == "baseline" or baseline_value is None:
        return None, f"{side} {format_number(value, unit)}"
    assert standing.origin and standing.best
    better_by, claim = scale_of(standing.direction, all_positive=False).better_by, standing.settled
    before, after = (claim.baseline, claim.best) if claim else (standing.origin.value, standing.best.value)
    claimed_gain, gain = better_by(after, before), better_by(value, baseline_value)
    first, last = format_distinct(baseline_value, value, unit=unit)
    text = f"baseline {first}, best {last}: a gain of {format_number(gain, unit)}; the verifier's gain is"
    return claimed_gain - gain, f"{text} {format_number(claimed_gain, standing.unit)}"
