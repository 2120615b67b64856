"""The accept rule by plain comparison: from what was measured and the incumbent, a verdict with its reason. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goalseek.humanize import format_distinct, format_number, parse_share, pluralize
from goalseek.manifest.tables import Guard, Metric
from goalseek.phase_values import Evidence, Verdict
from goalseek.statistics.guards import guard_violation, range_violation
from goalseek.values import Outcome, Reason


def rejection_of(metric: Metric, guards: Sequence[Guard], evidence: Evidence) -> tuple[str, str] | None:
    """The reason, and one sentence, why no comparison counts: a failure, or a value outside its range on any run."""
    if evidence.failure:
        return evidence.failure.reason, evidence.failure.why
    values = [run.value for run in evidence.runs if run.of == "candidate" and run.value is not None]
    checks = [(metric.name, metric.valid, value) for value in values]
    checks += [(guard.name, guard.valid, run[guard.name]) for run in evidence.guard_runs for guard in guards]
    why = next(filter(None, (range_violation(*check) for check in checks)), None)
    return (Reason.NOT_VALID, why) if why else None


def guard_rejection(
    guards: Sequence[Guard], baseline: Mapping[str, float], evidence: Evidence
) -> tuple[str, str] | None:
    """The reason, and one sentence, where the median of a guard breaks its bound."""
    medians = evidence.guards
    for guard in guards:
        if guard.name in medians and (why := guard_violation(guard, medians[guard.name], baseline.get(guard.name))):
            return Reason.GUARD, why
    return None


def compare_values(metric: Metric, incumbent: float, value: float, lines_saved: int) -> Verdict:
    """Keep if strictly better, by ``metric.min_delta`` at least.

    An exact tie is kept only where it leaves fewer lines in the writable files (``lines_saved`` > 0).
    """
    unit = metric.unit
    delta = incumbent - value if metric.direction == "minimize" else value - incumbent
    new, old = format_distinct(value, incumbent, unit=unit)
    margin = parse_share(metric.min_delta, incumbent)

    def verdict(outcome: Outcome, reason: Reason, why: str) -> Verdict:
        needed = margin if margin and outcome == Outcome.REVERTED else None
        return Verdict(outcome, reason, why, value, incumbent, delta, needed=needed)

    if delta < 0:
        return verdict(Outcome.REVERTED, Reason.WORSE, f"{new} is worse than {old} by {format_number(-delta, unit)}")
    if delta == 0:
        if lines_saved > 0:
            lines = pluralize(lines_saved, "line")
            return verdict(Outcome.KEPT, Reason.SIMPLER, f"{new} as before, and {lines} fewer")
        return verdict(Outcome.REVERTED, Reason.TIE, f"{new} as before, and no fewer lines")
    if delta < margin:
        gain, least = format_distinct(delta, margin, unit=unit)
        why = f"{new} beats {old} by {gain}, less than min_delta, {least}"
        return verdict(Outcome.REVERTED, Reason.BELOW_MIN_DELTA, why)
    return verdict(Outcome.KEPT, Reason.BETTER, f"{new} beats {old} by {format_number(delta, unit)}")
