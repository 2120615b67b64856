"""Settling: baseline and best measured afresh in turn, at a run's end or on request.

Each measurement is recorded as it is made, so a killed settling makes only those that are missing.
"""

import itertools
import math
from datetime import datetime

from msgspec import structs

from goalseek.errors import USAGE, GoalseekError
from goalseek.evaluation import measurements
from goalseek.humanize import format_duration, pluralize
from goalseek.ledger.checkpoints import settle_key
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Manifest
from goalseek.project import landing
from goalseek.project.config import Config
from goalseek.project.limits import seconds_left
from goalseek.project.progress import pairs_to_settle
from goalseek.project.project import Project
from goalseek.records import SettleRecord
from goalseek.statistics.intervals import PAIRS
from goalseek.values import Outcome, Phase, Reason, StopReason, Usage


def seconds_to_settle(manifest: Manifest, standing: Standing) -> float:
    """0 if it is not needed."""
    return pairs_to_settle(manifest.metric, standing) * _seconds_of_pair(standing)


def pairs_in_time(manifest: Manifest, standing: Standing, now: datetime) -> int:
    wanted = pairs_to_settle(manifest.metric, standing)
    remaining, each = seconds_left(manifest.limits, standing, now), _seconds_of_pair(standing)
    if remaining is None or each <= 0:
        return wanted
    return min(wanted, max(0, int(remaining / each)))


def settle_at_end(project: Project, config: Config) -> None:
    """Settle if needed, in as many pairs as there is time for. A failure is a note, not an error."""
    manifest, standing = config.manifest, project.standing
    wanted = pairs_to_settle(manifest.metric, standing)
    if not wanted:
        return
    killed_seconds = measurements.seconds_outside(project, settle_key(standing)).before
    spent = standing.for_run(project.run_id).spending(killed_seconds, Usage())
    pairs = pairs_in_time(manifest, spent, project.activity.clock.now())
    later = "settle it with: goalseek settle"
    if pairs == 0:
        project.watch.on_note(f"no time is left to measure the result afresh; {later}")
        return
    if pairs != wanted:
        text = f"settling with {pluralize(pairs, 'pair')} in place of {wanted}: the time is nearly spent"
        project.watch.on_note(text)
    project.watch.on_phase(standing.last_iteration, Phase.SETTLE)
    project.show("running", standing.last_iteration, Phase.SETTLE)
    try:
        _settle(project, config, pairs)
    except GoalseekError as error:
        if error.stop_reason == StopReason.TAMPERED:
            raise
        project.watch.on_note(f"{error.message}; {error.hint or later}")


def settle_on_request(project: Project, config: Config, least: int = 0) -> None:
    """Settle, unless the metric repeats exactly; then too in ``least`` pairs: two show that it does.

    Raises GoalseekError if nothing was kept, or a tree has no number.
    """
    metric, standing = config.manifest.metric, project.standing
    is_exact = standing.keeps and not standing.noise.differed and metric.noise == "auto"
    if is_exact and not metric.cases and not least:
        project.watch.on_note("the same code always gave the same number, so one run each is enough: nothing to settle")
    else:
        _settle(project, config, max(least, 1 if is_exact else metric.settle or PAIRS))


def _settle(project: Project, config: Config, count: int) -> None:
    standing = project.standing
    baseline, best = standing.origin, standing.best
    if baseline is None or best is None or not standing.keeps:
        raise GoalseekError("nothing was kept: there is nothing to settle", "see: goalseek log", USAGE)
    duration = format_duration(count * _seconds_of_pair(standing))
    other = "" if standing.first == baseline else f" of iteration {baseline.iteration}, this verifier's first,"
    text = f"settling: baseline{other} and best afresh in turn, {pluralize(count, 'pair')}"
    project.watch.on_note(f"{text}, about {duration}")
    before_tree = measurements.origin_tree(project, config)
    before = measurements.pinned_target(standing, config, before_tree, "a", "the baseline")
    after = measurements.pinned_target(standing, config, best.tree, "b", "the best")
    for target in itertools.islice(measurements.alternate(before, after, count), len(standing.settling), None):
        # Limits count the seconds, also those of a try that is killed.
        seconds = project.activity.phase_seconds = measurements.seconds_outside(project, settle_key(project.standing))
        with seconds.of(Phase.SETTLE):
            (run,) = measurements.measure_in_turn(project, [target])
            failure = run.evidence.failure
            if failure and failure.reason == Reason.VERIFY_TIMEOUT:  # other work may have slowed it
                project.watch.on_note(f"{target.name}: {failure.why}; it is measured once more")
                (run,) = measurements.measure_in_turn(project, [run.target])
                failure = run.evidence.failure
        if failure:
            message = f"settling stopped at {target.name}: {failure.why}"
            remedy = "goalseek doctor"
            if failure.reason == Reason.VERIFY_TIMEOUT:
                last = run.evidence.verify[-1]
                remedy = f'set timeout = "{math.ceil(5 * last.seconds / 60)}m" in [[verify]] {last.name}'
            raise GoalseekError(message, f"{remedy}, then goalseek settle", StopReason.INCUMBENT_FAILED)
        number = measurements.measurement_of(run.evidence)
        charged = structs.replace(number, seconds=round(number.seconds + seconds.before, 6))
        measurements.record_measurement(project, target, charged, "settle")
        seconds.forget()
    runs = project.standing.settling[: 2 * count]
    pairs, metric = measurements.pairs_in_turn(runs), config.manifest.metric
    result = measurements.settle_pairs(metric, pairs, standing.noise.all_positive)
    record = SettleRecord(
        **project.record_head("settle", standing.epoch),
        metric=metric.name,
        direction=metric.direction,
        ruler=standing.ruler,
        baseline_commit_hash=baseline.commit,
        best_commit_hash=best.commit,
        iteration=best.iteration,
        pairs=tuple((before.value, after.value) for before, after in pairs),
        baseline=result.before,
        best=result.after,
        difference=result.difference,
        interval=result.interval,
        in_percent=result.in_percent,
        seconds=round(sum(run.seconds for run in runs), 6),
        why=result.no_gain or result.in_words(),
        unit=metric.unit,
        cases=result.cases,
        left=_left_of(project, result.difference) if metric.cases else None,
    )
    project.watch.on_record(landing.append(project, record))


def _left_of(project: Project, difference: float) -> float | None:
    """What is left of the settled difference after the luck of the cases, an estimate; None if no change tells.

    A kept change's gain is one of many, and counts for 1 - 1/T² of itself (James and Stein's shrinkage, 1961).
    """
    standing, gains, left = project.standing, 0.0, 0.0
    assert standing.origin
    for record in project.ledger.history.newest_iterations():
        if record.iteration <= standing.origin.iteration:
            break
        is_change = record.outcome == Outcome.KEPT and record.taken_back is None
        cases, gain = record.metric.cases, record.metric.delta or 0.0
        if is_change and record.iteration not in standing.taken_back and cases and cases.t:
            gains, left = gains + gain, left + gain * max(0.0, 1 - 1 / cases.t**2)
    return difference * left / gains if gains > 0 else None


def _seconds_of_pair(standing: Standing) -> float:
    return 2 * sum(standing.baseline.seconds.values()) if standing.baseline else 0.0
