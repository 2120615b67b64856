"""What VERIFY is to do next for a candidate or a baseline: another run of one of them, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from goalseek.decide import broken_guard, refused
from goalseek.manifest.tables import Guard, Metric
from goalseek.middle import representative
from goalseek.noise import Next, Terms, baseline_needs_run, next_step
from goalseek.noise_state import NoiseState, values_of
from goalseek.phase_values import Evidence, Verdict


def terms_of(metric: Metric) -> Terms:
    """The manifest's word on the rule."""
    return Terms(metric.direction, metric.noise, metric.max_repeats, metric.alpha, metric.window, metric.min_delta)


def what_next(
    metric: Metric,
    guards: Sequence[Guard],
    baseline_guards: Mapping[str, float],
    state: NoiseState,
    evidence: Evidence,
    lines_saved: int,
) -> Next:
    """The next run that the candidate's verdict needs, or the verdict.

    A failure, and a value outside its valid range, reject at once. A guard is judged on its median: with the verdict,
    and from the candidate's second run on.
    """
    tried = values_of(evidence.runs, "candidate")
    if refusal := refused(metric, guards, evidence):
        return _rejected(metric, state, () if evidence.failure else tried, refusal)
    following = next_step(terms_of(metric), state, evidence.runs, lines_saved)
    broken = broken_guard(guards, baseline_guards, evidence)
    if broken and (isinstance(following, Verdict) or len(tried) > 1):
        return _rejected(metric, state, tried, broken)
    return following


def baseline_verdict(metric: Metric, guards: Sequence[Guard], evidence: Evidence, commit: str) -> Verdict | None:
    """What a baseline is once it was run often enough, None before; no baseline where it failed, or is not valid."""
    if (verdict := unfit(metric, guards, evidence)) is not None:
        return verdict
    values = values_of(evidence.runs, "candidate")
    if baseline_needs_run(terms_of(metric), values):
        return None
    return Verdict("baseline", "measured", f"measured at {commit[:12]}{_times(values)}", representative(values))


def unfit(metric: Metric, guards: Sequence[Guard], evidence: Evidence) -> Verdict | None:
    """Why these measurements make no baseline, as a verdict; None where they do."""
    refusal = refused(metric, guards, evidence)
    return Verdict("reverted", *refusal) if refusal else None


def _times(values: Sequence[float]) -> str:
    """How often, and whether the values agree."""
    if len(values) == 1:
        return ""
    return f", {len(values)} runs, " + ("all the same to the last bit" if len(set(values)) == 1 else "not all the same")


def _rejected(metric: Metric, state: NoiseState, tried: Sequence[float], why: tuple[str, str]) -> Verdict:
    verdict = Verdict("reverted", *why, incumbent=state.value)
    if not tried or state.value is None:
        return verdict
    value = representative(tried)
    delta = value - state.value if metric.direction == "maximize" else state.value - value
    return replace(verdict, value=value, delta=delta)
