"""The holdout: a number that nobody climbs, looked at seldom; each look is written as begun before it is made."""

from __future__ import annotations

from dataclasses import replace

from goalseek.errors import GoalseekError
from goalseek.evaluation.measurements import Target, measure_subject, measurement_of, took_outside
from goalseek.humanize import format_number
from goalseek.ledger.checkpoints import holdout_key
from goalseek.ledger.records import HoldoutRecord
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.manifest.tables import Holdout, Manifest, Metric, VerifyCommand
from goalseek.phase_values import Side
from goalseek.project.config import Config
from goalseek.project.project import Project, write_state
from goalseek.statistics.decide import rejection_of

COMMAND = "holdout"


def looks_owed(manifest: Manifest, standing: Standing, is_end: bool) -> tuple[str, ...]:
    """Which of "baseline" and "best" are to be looked at now: nothing before a keep, each commit once."""
    if manifest.holdout is None or standing.best is None or standing.best == standing.baseline:
        return ()
    if not is_end and manifest.holdout.when != "kept":
        return ()
    seen = {(look.of, look.commit_hash) for look in standing.holdout if look.reason != "begun"}
    assert standing.baseline
    wanted = (("baseline", standing.baseline.commit), ("best", standing.best.commit))
    return tuple(of for of, commit in wanted if (of, commit) not in seen)


def look(project: Project, config: Config, is_end: bool) -> None:
    """Makes the looks that are owed. One whose command fails is recorded as that, and not made again."""
    for of in looks_owed(config.manifest, project.standing, is_end):
        _look(project, config, of)


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


def _look(project: Project, config: Config, of: str) -> None:
    standing = project.standing
    assert config.manifest.holdout and standing.baseline and standing.best
    mark = standing.baseline if of == "baseline" else standing.best
    project.watch.on_phase(mark.iteration, "HOLDOUT")
    write_state(project, "running", mark.iteration, "HOLDOUT")
    before = took_outside(
        project, holdout_key(standing)
    ).phases  # the last look was killed, and this one is charged for it
    begun = HoldoutRecord(
        seq=0,
        kind="holdout",
        project=project.repository.name,
        run_id=project.run_id,
        epoch=standing.epoch,
        timestamp=project.ledger.now(),
        look=standing.looks + 1,
        of=of,
        iteration=mark.iteration,
        commit_hash=mark.commit,
        ruler=standing.ruler,
        reason="begun",
        seconds=round(sum(before.values()), 6),
        why=f"a look at the {of}, iteration {mark.iteration}, begins",
    )
    project.measured.add(project.ledger.append(begun))
    project.took = took_outside(project, holdout_key(project.standing))
    with project.took.of("HOLDOUT"):
        made = _measured(project, config, config.manifest.holdout, mark, replace(begun, seconds=0.0))
    made = replace(made, timestamp=project.ledger.now())
    project.measured.add(project.ledger.append(made))
    project.took.forget()
    project.watch.on_holdout(made)


def _measured(
    project: Project, config: Config, holdout: Holdout, mark: MeasuredCommit, begun: HoldoutRecord
) -> HoldoutRecord:
    """What came of a look."""
    standing, of = project.standing, begun.of
    assert standing.baseline
    below = replace(config, manifest=with_holdout(config.manifest, holdout))
    baseline = standing.baseline
    subject = Target(below, mark.tree, standing.ruler, standing.epoch, baseline.tree, baseline.seconds)
    side: Side = "candidate" if of == "baseline" else "incumbent"
    try:
        evidence = measure_subject(project, subject, 0, project.places.scratch / COMMAND, of=side, own_folder=COMMAND)
    except GoalseekError as error:
        if error.stop_reason == "tampered":
            raise
        return replace(begun, reason="failed", why=f"the look at the {of} failed: {error.message}")
    if refusal := rejection_of(below.manifest.metric, (), evidence):
        return replace(begun, reason="failed", why=f"the look at the {of} failed: {refusal[1]}")
    found = measurement_of(evidence)
    made = replace(begun, reason="measured", value=found.value, seconds=found.seconds)
    before = next((look.value for look in standing.holdout if look.of == "baseline"), None)
    if of == "baseline" or before is None:
        return replace(made, why=f"{of} {format_number(found.value)}")
    own = gain_of(standing.direction, before, found.value)
    claimed = _claimed(standing)
    why = (
        f"baseline {format_number(before)}, best {format_number(found.value)}: a gain of {format_number(own)}, "
        f"where the verifier's is {format_number(claimed)}"
    )
    return replace(made, gap=claimed - own, why=why)


def _claimed(standing: Standing) -> float:
    """The verifier's gain: as it was settled, else as it was decided."""
    if standing.settled:
        return gain_of(standing.direction, standing.settled.baseline, standing.settled.best)
    assert standing.baseline and standing.best
    return gain_of(standing.direction, standing.baseline.value, standing.best.value)
