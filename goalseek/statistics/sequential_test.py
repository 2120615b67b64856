"""The rule that decides under noise. It is asked what comes next, and answers with a run to make or with a verdict.

The baseline is run up to five times. If the first three agree to the last bit the metric is deterministic: one run a
candidate, keep if strictly better. Otherwise a candidate gets one run and is reverted at once if that is worse than the
incumbent's median. If it is better it is run again, in turn with fresh runs of the incumbent, until the odds of "1.5 sd
better" against "no better" are high enough to keep, low enough to revert, or eight runs are spent (revert). How high
depends on how often this session's candidates have turned out real.

The screen reuses the incumbent's last eight runs. The turns reuse its last three only, and keep when the incumbent has
been run once more than the candidate: where the level drifts, all of its runs would otherwise be older.

It is Wald's sequential probability ratio test (1945) with Huber's clipping (1965): a run counts for at most 1.5 sd.
Nothing is stored here: the answer follows from what the records tell (``NoiseState``) and from the runs that were made
for this candidate, so that a killed session goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from goalseek.humanize import format_number, in_one_line, share_of
from goalseek.manifest.tables import Guard, Metric
from goalseek.phase_values import Evidence, Verdict
from goalseek.statistics.decide import broken_guard, compare_values, rejection_of
from goalseek.statistics.noise_state import (
    AGREEING,
    BASELINE_MOST,
    CONFIRMED_KEEPS,
    INCUMBENT_MOST,
    NoiseState,
    repeats_of,
    values_of,
)
from goalseek.statistics.scale import Scale, representative, scale_of, spread, successive
from goalseek.values import VerifierRun

INCUMBENT_LEAST = 3
REUSED_IN_TURNS = 3
CANDIDATE_LEAST = 2
BETTER = 1.5  # sd
CLIP = 1.5  # sd
CAUTION = 1.2  # the sd is an estimate, and runs are reused
BETA = 0.3


@dataclass(frozen=True)
class TestParameters:
    """The manifest's word on the rule. ``alpha`` is None for "auto"; ``window`` is in verifier runs.

    Raises ValueError for fewer than two ``max_repeats``, an ``alpha`` outside (0, 0.5], or no window.
    """

    direction: str
    noise: Literal["auto", "none", "always"] = "auto"
    max_repeats: int = 8
    alpha: float | None = None
    window: int = 30
    min_delta: float | str = 0.0

    def __post_init__(self) -> None:
        if self.max_repeats < CANDIDATE_LEAST:
            raise ValueError(f"max_repeats is at least {CANDIDATE_LEAST}: one lucky run is not enough to keep")
        if self.alpha is not None and not 0 < self.alpha <= 0.5:
            raise ValueError("alpha is more than 0 and at most 0.5")
        if self.window < 1:
            raise ValueError("window is at least 1")


@dataclass(frozen=True)
class RunCandidate:
    """The candidate is to be run, again or for the first time."""


@dataclass(frozen=True)
class RunIncumbent:
    """The incumbent is to be run afresh."""


NextStep = RunCandidate | RunIncumbent | Verdict


def baseline_needs_run(terms: TestParameters, values: Sequence[float]) -> bool:
    """Whether a baseline with these values so far is to be run again."""
    if terms.noise == "none":
        return not values
    agree = len(set(values)) <= 1
    wanted = AGREEING + 1 if terms.noise == "auto" and agree else BASELINE_MOST
    return len(values) < wanted


def next_step(terms: TestParameters, state: NoiseState, runs: Sequence[VerifierRun], lines_saved: int = 0) -> NextStep:
    """What comes next for a candidate with ``runs`` so far: its own and the incumbent's, as they were made.

    Who calls has rejected a candidate that failed; a run of the incumbent without a value does not count.
    ``lines_saved`` decides between equals of a deterministic metric. Raises ValueError before the first baseline.
    """
    if state.value is None:
        raise ValueError("there is no baseline")
    if terms.noise == "none":
        return _once(terms, state.value, runs, lines_saved) if values_of(runs, "candidate") else RunCandidate()
    differed = state.differed or turns_noisy(state, runs)
    if terms.noise == "always" or differed:
        return _under_noise(terms, state, runs)
    if state.agreed + len(repeats_of(state, [run for run in runs if run.of == "incumbent"])) < AGREEING:
        return RunIncumbent()
    tried = values_of(runs, "candidate")
    if not tried:
        return RunCandidate()
    ruling = _once(terms, state.value, runs, lines_saved)
    if ruling and state.confirmed < CONFIRMED_KEEPS and len(tried) == 1:
        return RunCandidate()
    return ruling


def turns_noisy(state: NoiseState, runs: Sequence[VerifierRun]) -> bool:
    """Whether these runs are the first in which the same code gave two values."""
    return not state.differed and any(before != after for before, after in repeats_of(state, runs))


def alpha_of(terms: TestParameters, state: NoiseState) -> float:
    """The share of useless candidates that may be kept: more, the more of this session's have turned out real."""
    if terms.alpha is not None:
        return terms.alpha
    return min(0.2, max(0.02, (1 + state.kept) / (10 + state.tested)))


def _once(terms: TestParameters, incumbent: float, runs: Sequence[VerifierRun], lines_saved: int) -> Verdict:
    value = representative(values_of(runs, "candidate"))
    return compare_values(terms.direction, terms.min_delta, incumbent, value, lines_saved)


@dataclass(frozen=True)
class _Compared:
    """Both sides on the scale, and the sd that was frozen when the candidate came."""

    scale: Scale
    sd: float
    incumbent: Sequence[float]
    candidate: Sequence[float]

    def log_odds(self) -> float:
        """The logarithm of the odds of 1.5 sd better against no better."""
        middle = self.scale.x(self.incumbent_middle) - BETTER * self.sd / 2
        evidence = sum(_clipped(middle - x, self.sd) for x in self.scale.all(self.candidate)) / len(self.candidate)
        return BETTER * evidence / (CAUTION * (1 / len(self.incumbent) + 1 / len(self.candidate)))

    @property
    def incumbent_middle(self) -> float:
        """The incumbent's median."""
        return self.scale.middle(self.incumbent)

    @property
    def candidate_middle(self) -> float:
        """The candidate's median; its first run, which was lucky, is left out where there are more."""
        return self.scale.middle(self.candidate[1:] or self.candidate)

    @property
    def gain(self) -> float:
        """How much better the candidate is, in the metric's units."""
        return self.scale.better_by(self.candidate_middle, self.incumbent_middle)


def _clipped(distance: float, sd: float) -> float:
    if sd > 0:
        return min(CLIP, max(-CLIP, distance / sd))
    return math.copysign(CLIP, distance) if distance else 0.0


def _under_noise(terms: TestParameters, state: NoiseState, runs: Sequence[VerifierRun]) -> NextStep:
    tried, fresh = values_of(runs, "candidate"), values_of(runs, "incumbent")
    calibrating = turns_noisy(state, runs) or len(state.pairs) < BASELINE_MOST - 1
    reused = [] if calibrating else [run.value for run in state.incumbent if state.clock - run.at <= terms.window]
    if len(reused) + len(fresh) < (BASELINE_MOST if calibrating else 1):
        return RunIncumbent()
    if not tried:
        return RunCandidate()
    old = (reused[-REUSED_IN_TURNS:] + fresh)[-INCUMBENT_MOST:]
    scale = scale_of(terms.direction, state.all_positive and all(value > 0 for value in (*fresh, *tried)))
    pairs = successive(fresh[:BASELINE_MOST]) if calibrating else state.pairs
    sd = spread(scale, pairs, fresh[:BASELINE_MOST] if calibrating else reused)
    before = (reused + _before_the_candidate(runs))[-INCUMBENT_MOST:]
    screened = _Compared(scale, sd, before, tried[:1])
    if len(tried) == 1 and before and screened.gain < 0:
        return _ruling(terms, screened, "worse", None)
    both = _Compared(scale, sd, old, tried)
    wanted = min(INCUMBENT_MOST, max(INCUMBENT_LEAST, len(tried) + 1))
    if len(old) >= INCUMBENT_LEAST:
        log_odds, alpha = both.log_odds(), alpha_of(terms, state)
        enough = len(tried) >= CANDIDATE_LEAST and len(old) >= wanted
        if enough and log_odds >= math.log((1 - BETA) / alpha) and both.gain > 0:
            return _ruling(terms, both, "better", log_odds)
        spent = len(tried) >= terms.max_repeats and len(old) >= wanted
        if spent or log_odds <= math.log(BETA / (1 - alpha)):
            return _ruling(terms, both, "within_noise", log_odds)
    return RunIncumbent() if len(old) < wanted else RunCandidate()


def _before_the_candidate(runs: Sequence[VerifierRun]) -> list[float]:
    first = next(place for place, run in enumerate(runs) if run.of == "candidate")
    return values_of(runs[:first], "incumbent")


def _ruling(terms: TestParameters, both: _Compared, reason: str, log_odds: float | None) -> Verdict:
    incumbent, gain = both.incumbent_middle, both.gain
    counts = (len(both.candidate), len(both.incumbent))
    odds = None if log_odds is None else math.exp(log_odds)
    why = in_one_line(gain, incumbent, both.scale.logarithmic, odds, counts)
    margin = share_of(terms.min_delta, incumbent)
    if reason == "better" and gain < margin:
        reason, why = "below_min_delta", f"{why}; less than min_delta, {format_number(margin)}"
    elif reason == "within_noise" and gain <= 0:
        reason = "worse" if gain < 0 else "tie"
    return Verdict(
        "kept" if reason == "better" else "reverted", reason, why, both.candidate_middle, incumbent, gain, odds
    )


def terms_of(metric: Metric) -> TestParameters:
    """The manifest's word on the rule."""
    return TestParameters(
        metric.direction, metric.noise, metric.max_repeats, metric.alpha, metric.window, metric.min_delta
    )


def what_next(
    metric: Metric,
    guards: Sequence[Guard],
    baseline_guards: Mapping[str, float],
    state: NoiseState,
    evidence: Evidence,
    lines_saved: int,
) -> NextStep:
    """The next run that the candidate's verdict needs, or the verdict.

    A failure, and a value outside its valid range, reject at once. A guard is judged on its median: with the verdict,
    and from the candidate's second run on.
    """
    tried = values_of(evidence.runs, "candidate")
    if refusal := rejection_of(metric, guards, evidence):
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
    refusal = rejection_of(metric, guards, evidence)
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
