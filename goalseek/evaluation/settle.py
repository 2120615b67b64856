"""Settling: baseline and best measured afresh in turn, at a run's end or on request, and their difference recorded.

Each measurement is recorded as it is made, so that a killed settling goes on with those that are missing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from goalseek.errors import USAGE, GoalseekError
from goalseek.evaluation.measurements import (
    Evaluation,
    bench_in_turn,
    measure_turn,
    measurement_of,
    pairs_in_turn,
    pinned_target,
    record_measurement,
    seconds_outside,
    unused_seed,
)
from goalseek.humanize import format_duration, pluralize
from goalseek.ledger.checkpoints import settle_key
from goalseek.ledger.records import SettleRecord
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Manifest
from goalseek.project.landing import landing
from goalseek.project.limits import seconds_left
from goalseek.project.project import Project
from goalseek.statistics.intervals import PAIRS, settle
from goalseek.values import Phase, StopReason, Usage

ASKED_BY = "settle"


def needs_settling(manifest: Manifest, standing: Standing) -> bool:
    """Whether to settle: something was kept, the metric is noisy, and the best is not settled yet."""
    if standing.best is None or standing.best == standing.baseline or not manifest.metric.settle:
        return False
    is_noisy = standing.noise.differed or manifest.metric.noise == "always"
    return is_noisy and standing.settled is None


def seconds_to_settle(manifest: Manifest, standing: Standing) -> float:
    """Seconds that settling would take; 0 where it is not needed."""
    if not needs_settling(manifest, standing):
        return 0.0
    assert manifest.metric.settle
    return 2 * manifest.metric.settle * _seconds_each(standing)


def pairs_in_time(manifest: Manifest, standing: Standing, now: datetime) -> int:
    """How many pairs fit into what is left of the run's time."""
    assert manifest.metric.settle
    remaining = seconds_left(manifest.limits, standing, now)
    each = 2 * _seconds_each(standing)
    if remaining is None or each <= 0:
        return manifest.metric.settle
    return min(manifest.metric.settle, max(0, int(remaining / each)))


def settle_at_end(evaluation: Evaluation) -> SettleRecord | None:
    """Settles where that is needed, with as many pairs as there is time for. A failure is a note, not an error."""
    project, manifest = evaluation.project, evaluation.config.manifest
    if not needs_settling(manifest, project.standing):
        return None
    spent = project.standing.for_run(project.run_id).spending(killed_seconds(project), Usage())
    pairs = pairs_in_time(manifest, spent, project.activity.clock.now())
    later = "settle it with: goalseek report --settle"
    if pairs == 0:
        project.watch.on_note(f"no time is left to measure the result afresh; {later}")
        return None
    if pairs != manifest.metric.settle:
        project.watch.on_note(
            f"settling with {pluralize(pairs, 'pair')} in place of {manifest.metric.settle}: the time is nearly spent"
        )
    project.watch.on_phase(project.standing.last_iteration, Phase.SETTLE)
    project.write_state("running", project.standing.last_iteration, Phase.SETTLE)
    try:
        return settle_now(evaluation, pairs)
    except GoalseekError as error:
        if error.stop_reason == StopReason.TAMPERED:
            raise
        project.watch.on_note(f"{error.message}; {later}")
        return None


def settle_on_request(evaluation: Evaluation) -> SettleRecord | None:
    """Settles because a person asks for it; None with a note for a metric that never moved.

    Raises GoalseekError where nothing was kept, and where one of the two has no number any more.
    """
    project, metric = evaluation.project, evaluation.config.manifest.metric
    standing = project.standing
    if standing.best and standing.best != standing.baseline and not standing.noise.differed and metric.noise == "auto":
        project.watch.on_note("the metric never moved: its difference is exact, and there is nothing to settle")
        return None
    return settle_now(evaluation, metric.settle or PAIRS)


def settle_now(evaluation: Evaluation, pairs: int) -> SettleRecord:
    """Measures baseline and best afresh in turn, and records the difference.

    Raises GoalseekError where nothing was kept, and where one of the two has no number any more.
    """
    project, standing = evaluation.project, evaluation.project.standing
    baseline, best = standing.baseline, standing.best
    if baseline is None or best is None or best == baseline:
        raise GoalseekError("nothing was kept: there is nothing to settle", "see: goalseek log", USAGE)
    seconds = 2 * pairs * _seconds_each(standing)
    project.watch.on_note(
        f"settling: baseline and best afresh in turn, {pluralize(pairs, 'pair')}, about {format_duration(seconds)}"
    )
    for index in range(len(standing.settling), 2 * pairs):
        _measure(evaluation, index)
    with landing(project) as current:
        record = current.append(_record(evaluation, 2 * pairs))
    assert isinstance(record, SettleRecord)
    project.watch.on_settled(record)
    return record


def _measure(evaluation: Evaluation, index: int) -> None:
    """Measures baseline or best, whose turn it is, and records the measurement."""
    project, standing = evaluation.project, evaluation.project.standing
    assert standing.baseline and standing.best
    baseline, best = (pinned_target(evaluation, commit.tree) for commit in (standing.baseline, standing.best))
    before = killed_seconds(project)
    project.activity.phase_seconds = seconds_outside(project, settle_key(standing))
    with project.activity.phase_seconds.of(Phase.SETTLE):
        evidence = measure_turn(project, baseline, best, index, unused_seed(project))
    target, named = (baseline, "the baseline") if bench_in_turn(index) == "a" else (best, "the best")
    if evidence.failure:
        message = f"settling stopped: {named}, measured again, has no number: {evidence.failure.why}"
        raise GoalseekError(message, "goalseek doctor", StopReason.INCUMBENT_FAILED)
    measurement = measurement_of(evidence)
    record_measurement(project, target, replace(measurement, seconds=round(measurement.seconds + before, 6)), ASKED_BY)
    project.activity.phase_seconds.forget()


def killed_seconds(project: Project) -> float:
    """Seconds of the next measurement of a settling that was killed or failed; its record is charged with them."""
    return sum(seconds_outside(project, settle_key(project.standing)).phases.values())


def _record(evaluation: Evaluation, count: int) -> SettleRecord:
    project, metric = evaluation.project, evaluation.config.manifest.metric
    baseline, best = project.standing.baseline, project.standing.best
    assert baseline and best
    measurements = project.standing.settling[:count]
    pairs = tuple(pairs_in_turn([record.value for record in measurements]))
    result = settle(metric.direction, pairs)
    return SettleRecord(
        seq=0,
        kind="settle",
        project=project.repository.name,
        run_id=project.run_id,
        epoch=project.standing.epoch,
        timestamp=project.ledger.now(),
        metric=metric.name,
        direction=metric.direction,
        ruler=project.standing.ruler,
        baseline_commit_hash=baseline.commit,
        best_commit_hash=best.commit,
        iteration=best.iteration,
        pairs=pairs,
        baseline=result.before,
        best=result.after,
        difference=result.difference,
        interval=result.interval,
        in_percent=result.in_percent,
        seconds=round(sum(record.seconds for record in measurements), 6),
        why=result.in_words(),
    )


def _seconds_each(standing: Standing) -> float:
    return sum(standing.baseline.seconds.values()) if standing.baseline else 0.0
