"""The accept rule: the sequential test, or the race over cases, which asks for the next run or gives the verdict.

Wald's sequential probability ratio test (1945), with Huber's clipping (1965) and unequal variances after Welch (1947).
Nothing is stored: records (``NoiseState``) and this candidate's runs decide, so a killed session goes on where it was.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from goalseek.humanize import abbreviate, format_distinct, format_number, parse_share, pluralize
from goalseek.manifest.tables import Guard, Metric
from goalseek.phase_values import Evidence, Verdict
from goalseek.statistics import cases as by_case
from goalseek.statistics import noise
from goalseek.statistics.comparison import Comparison, compare
from goalseek.statistics.fixed_seed import MIN_CANDIDATE_RUNS, describe_fixed_seed, has_fixed_seed
from goalseek.statistics.guards import guard_violation, range_violation
from goalseek.values import Outcome, Reason, Side, VerifierRun

MIN_INCUMBENT_RUNS = 3
REUSED_IN_TURNS = 3  # the level may drift: the screen alone reuses all
SHIFT = 2.5  # sd of the difference between old and fresh runs
KEEPING_RUNS = 3  # of the candidate
WIDER = 1.2  # sd
BETA = 0.3
LEAST_ALPHA, MOST_ALPHA = 0.01, 0.5
NextStep = Side | by_case.Ask | Verdict  # whom to measure next, on which cases, or the verdict


def alpha_of(metric: Metric, state: noise.NoiseState) -> float:
    """The share of useless candidates that may be kept; it grows with the share kept of those tested."""
    if metric.alpha is not None:
        return metric.alpha
    return min(MOST_ALPHA, max(LEAST_ALPHA, (0.2 + 1.5 * state.kept) / (5 + state.tested)))


def rejection_of(metric: Metric, guards: Sequence[Guard], evidence: Evidence, count: int = 0) -> tuple[str, str] | None:
    """Reason and sentence if no comparison counts: a failure, or a value outside its range on any run.

    With ``count`` cases the metric's range is that of their mean, and guards are judged on runs of all of them.
    """
    if evidence.failure:
        return evidence.failure.reason, evidence.failure.why
    values = [] if count else noise.values_of(evidence.runs, "candidate")
    checks = [(metric.name, metric.valid, value) for value in values]
    rows = [row for row, size in zip(evidence.guard_runs, evidence.sizes, strict=False) if not count or size == count]
    checks += [(guard.name, guard.valid, row[guard.name]) for row in rows for guard in guards]
    why = next(filter(None, (range_violation(*check) for check in checks)), None)
    return (Reason.NOT_VALID, why) if why else None


class AcceptanceRule(Struct, frozen=True):
    """``lines_saved`` are the lines by which the candidate is shorter; ``order`` has the positions of all cases.

    ``names_cases``: the agent sees the command that scores them, so it is told which were lost.
    """

    metric: Metric
    guards: Sequence[Guard]
    baseline_guards: Mapping[str, float]
    state: noise.NoiseState
    lines_saved: int
    order: tuple[int, ...] = ()
    names_cases: bool = False

    def next_step(self, evidence: Evidence) -> NextStep:
        """A failure, or a value outside its range, rejects at once; an incumbent that failed is run again first.

        A guard is judged on its median: with the verdict, and from the candidate's second run on; with cases on runs of
        all of them, of which a keep needs one.
        """
        if evidence.is_incumbent_failing and not self.state.cases:  # a race asks for the same cases again
            return "incumbent"
        cases, candidate_values = self.state.cases, noise.values_of(evidence.runs, "candidate")
        if rejection := rejection_of(self.metric, self.guards, evidence, len(cases.ids) if cases else 0):
            return self._reject(() if evidence.failure else candidate_values, rejection)
        if self.state.value is None:
            raise ValueError("there is no baseline")
        runs = evidence.runs
        step = self._compare_cases(cases, runs) if cases else self._compare_runs(runs, candidate_values)
        if cases and self.guards and max(evidence.sizes, default=0) < len(cases.ids):  # no total of a part is judged
            return by_case.Ask("candidate", self.order) if isinstance(step, Verdict) and step else step
        if isinstance(step, Verdict) or len(candidate_values) > 1:
            for guard in self.guards:
                value, bound = evidence.guards.get(guard.name), self.baseline_guards.get(guard.name)
                if value is not None and (why := guard_violation(guard, value, bound)):
                    if cases and isinstance(step, Verdict):
                        return structs.replace(
                            step, outcome=Outcome.REVERTED, reason=Reason.GUARD, why=why, needed=None
                        )
                    return self._reject(candidate_values, (Reason.GUARD, why))
        return step

    def _compare_runs(self, runs: Sequence[VerifierRun], candidate_values: Sequence[float]) -> NextStep:
        metric, state = self.metric, self.state
        if metric.noise == "none":
            return self._compare_plainly(candidate_values) if candidate_values else "candidate"
        turns_noisy = not state.differed and any(before != after for before, after in noise.repeats_of(state, runs))
        if noise.is_noisy(metric, state) or turns_noisy:
            return self._compare_under_noise(runs, candidate_values, turns_noisy)
        incumbent_runs = [run for run in runs if run.of == "incumbent"]
        if state.agreed + len(noise.repeats_of(state, incumbent_runs)) < noise.AGREEING_REPEATS:
            return "incumbent"
        if not candidate_values:
            return "candidate"
        verdict = self._compare_plainly(candidate_values)
        if verdict and state.confirmed < noise.CONFIRMED_KEEPS and len(candidate_values) == 1:
            return "candidate"
        return verdict

    def _compare_cases(self, state: by_case.CaseState, runs: Sequence[VerifierRun]) -> NextStep:
        metric, sign = self.metric, 1 if self.metric.direction == "maximize" else -1
        is_noisy = noise.is_noisy(metric, self.state)
        confirms = metric.noise == "auto" and not is_noisy and self.state.confirmed < noise.CONFIRMED_KEEPS
        step = by_case.Race(metric, state, self.order, is_noisy, confirms, waits=self.lines_saved > 0).next_step(runs)
        if isinstance(step, by_case.Ask):
            return step
        incumbent, gain = step.incumbent if step.size == 1 else self.state.value, step.gain
        result = step.result(len(self.order), runs)
        assert incumbent is not None
        estimate = min(state.highest, max(state.lowest, incumbent + sign * gain))
        value = step.candidate if step.size == 1 else estimate
        if step.size == 1 and (violation := range_violation(metric.name, metric.valid, value)):
            return Verdict(Outcome.REVERTED, Reason.NOT_VALID, violation, value, incumbent, gain, cases=result)
        margin, needed = parse_share(metric.min_delta, incumbent), None
        size = f"{100 * gain:+.1f} points" if state.is_share else format_number(gain, metric.unit, sign="+")
        why = f"{size if gain else 'no difference'}, {result.text}"
        if step.is_ahead and gain < margin:
            reason, needed = Reason.BELOW_MIN_DELTA, margin
            why += f"; less than min_delta, {format_number(margin, metric.unit)}"
        elif step.is_ahead:
            reason = Reason.BETTER
        elif not any(step.differences) and step.size == 1 and self.lines_saved > 0 and not is_noisy:
            reason, why = Reason.SIMPLER, f"{why}, and {pluralize(self.lines_saved, 'line')} fewer"
        else:
            is_tie = gain == 0 and step.size == 1
            reason = Reason.TIE if is_tie else Reason.WORSE if gain < 0 else Reason.WITHIN_NOISE
            why += f"; T is {step.t_statistic:.2f}, needed {step.z:.2f}" if step.size == 1 and gain > 0 else ""
            needed = max(margin, step.needed_gain) or None
        if self.names_cases and (lost := [state.ids[case] for case in step.lost]):
            why += f"; lost: {abbreviate(lost)}"
        return Verdict(_outcome_of(reason), reason, why, value, incumbent, gain, needed=needed, cases=result)

    def _compare_plainly(self, values: Sequence[float]) -> Verdict:
        """Keep if strictly better, by ``metric.min_delta`` at least; an exact tie only if it leaves fewer lines."""
        unit, value, incumbent = self.metric.unit, noise.representative(values), self.state.value
        assert incumbent is not None
        delta = self._delta(value, incumbent)
        new, old = format_distinct(value, incumbent, unit=unit)
        margin = parse_share(self.metric.min_delta, incumbent)
        if delta < 0:
            reason, why = Reason.WORSE, f"{new} is worse than {old} by {format_number(-delta, unit)}"
        elif delta == 0 and self.lines_saved > 0:
            reason, why = Reason.SIMPLER, f"{new} as before, and {pluralize(self.lines_saved, 'line')} fewer"
        elif delta == 0:
            reason, why = Reason.TIE, f"{new} as before, and no fewer lines"
        elif delta < margin:
            gain, least = format_distinct(delta, margin, unit=unit)
            reason, why = Reason.BELOW_MIN_DELTA, f"{new} beats {old} by {gain}, less than min_delta, {least}"
        else:
            reason, why = Reason.BETTER, f"{new} beats {old} by {format_number(delta, unit)}"
        outcome = _outcome_of(reason)
        needed = margin if margin and outcome == Outcome.REVERTED else None
        return Verdict(outcome, reason, why, value, incumbent, delta, needed=needed)

    def _compare_under_noise(
        self, runs: Sequence[VerifierRun], candidate_values: Sequence[float], turns_noisy: bool
    ) -> NextStep:
        """``turns_noisy``: these runs are the first in which the same code gave two values."""
        metric, state, incumbent_now = self.metric, self.state, noise.values_of(runs, "incumbent")
        calibrating = turns_noisy or len(state.pairs) < noise.MAX_BASELINE_RUNS - 1
        reused = [] if calibrating else [run.value for run in state.incumbent if state.clock - run.at <= metric.window]
        if len(reused) + len(incumbent_now) < (noise.MAX_BASELINE_RUNS if calibrating else 1):
            return "incumbent"
        if not candidate_values:
            return "candidate"
        values_now = (*incumbent_now, *candidate_values)
        scale = noise.scale_of(metric.direction, state.all_positive and all(value > 0 for value in values_now))
        pairs = noise.successive_pairs(incumbent_now[: noise.MAX_BASELINE_RUNS]) if calibrating else state.pairs
        sd = noise.spread(scale, pairs, incumbent_now[: noise.MAX_BASELINE_RUNS] if calibrating else reused)
        first = next(index for index, run in enumerate(runs) if run.of == "candidate")
        before, fresh = noise.values_of(runs[:first], "incumbent"), noise.values_of(runs[first:], "incumbent")
        known = [] if calibrating else [run.value for run in state.incumbent]
        alpha = alpha_of(metric, state)
        bar = math.log((1 - BETA) / alpha)
        if len(candidate_values) == 1 and (values_before := (reused + before)[-noise.MAX_INCUMBENT_RUNS :]):
            known_before = (known + before)[-noise.MAX_INCUMBENT_RUNS :]
            screening = compare(scale, sd, values_before, candidate_values, known_before)
            if screening.gain < 0:
                return self._verdict(screening, Reason.WORSE, None, bar)
        old = reused[-REUSED_IN_TURNS:] + before
        if old and fresh:
            # The sd is of successive differences, which a shift does not widen.
            shift = abs(scale.x(scale.middle(old)) - scale.x(scale.middle(fresh)))
            old = [] if shift > SHIFT * sd * math.sqrt(1 / len(old) + 1 / len(fresh)) else old
        incumbent_values = (old + fresh)[-noise.MAX_INCUMBENT_RUNS :]
        known = (known + incumbent_now)[-noise.MAX_INCUMBENT_RUNS :]
        needed = min(noise.MAX_INCUMBENT_RUNS, max(MIN_INCUMBENT_RUNS, len(candidate_values)))
        if len(incumbent_values) >= MIN_INCUMBENT_RUNS:
            comparison = compare(scale, sd, incumbent_values, candidate_values, known)
            log_odds = comparison.log_odds
            is_wider = comparison.spreads[0] > WIDER**2
            least = metric.max_repeats if is_wider else min(KEEPING_RUNS, metric.max_repeats)
            is_enough = len(candidate_values) >= least and len(incumbent_values) >= needed
            if len(candidate_values) >= min(MIN_CANDIDATE_RUNS + 1, metric.max_repeats) and has_fixed_seed(
                metric, candidate_values, known
            ):
                return self._verdict(comparison, Reason.SEED_FIXED, log_odds, bar)
            if is_enough and log_odds >= bar and comparison.gain > 0:
                verdict = self._verdict(comparison, Reason.BETTER, log_odds, bar)
                if verdict and not fresh:  # reused runs may reject a candidate, but not keep it
                    return "incumbent"
                # As many runs as it may have tell whether those that agree do so by chance.
                is_open = len(candidate_values) < metric.max_repeats
                is_doubtful = is_open and has_fixed_seed(metric, candidate_values, known, metric.max_repeats)
                return "candidate" if verdict and is_doubtful else verdict
            is_spent = len(candidate_values) >= metric.max_repeats and len(incumbent_values) >= needed
            if is_spent or log_odds <= math.log(BETA / (1 - alpha)):
                return self._verdict(comparison, Reason.WITHIN_NOISE, log_odds, bar)
        return "incumbent" if len(incumbent_values) < needed else "candidate"

    def _verdict(self, comparison: Comparison, reason: Reason, log_odds: float | None, bar: float) -> Verdict:
        metric, incumbent, gain = self.metric, comparison.incumbent, comparison.gain
        odds = None if log_odds is None else math.exp(log_odds)
        why = comparison.describe(odds, self.state.value, metric.unit)
        margin, needed = parse_share(metric.min_delta, incumbent), None
        if reason == Reason.BETTER and gain < margin:
            reason, needed = Reason.BELOW_MIN_DELTA, margin
            why = f"{why}; less than min_delta, {format_number(margin, metric.unit)}"
        elif reason == Reason.SEED_FIXED:
            why = f"{describe_fixed_seed(comparison.runs[0])} ({why})"
        elif reason in (Reason.WORSE, Reason.WITHIN_NOISE):
            most = metric.max_repeats, min(noise.MAX_INCUMBENT_RUNS, max(MIN_INCUMBENT_RUNS, metric.max_repeats))
            needed = max(comparison.needed_gain(bar, most), margin)
            why = f"{why}, needed {comparison.format_size(needed, metric.unit)}" if needed else why
            reason = reason if gain > 0 else Reason.WORSE if gain < 0 else Reason.TIE
        return Verdict(_outcome_of(reason), reason, why, comparison.candidate, incumbent, gain, odds, needed)

    def _reject(self, candidate_values: Sequence[float], why: tuple[str, str]) -> Verdict:
        verdict = Verdict(Outcome.REVERTED, *why, incumbent=self.state.value)
        if not candidate_values or self.state.value is None or self.state.cases:  # the mean of a part is of other cases
            return verdict
        value = noise.representative(candidate_values)
        return structs.replace(verdict, value=value, delta=self._delta(value, self.state.value))

    def _delta(self, value: float, incumbent: float) -> float:
        return value - incumbent if self.metric.direction == "maximize" else incumbent - value


def _outcome_of(reason: Reason) -> Outcome:
    return Outcome.KEPT if reason in (Reason.SIMPLER, Reason.BETTER) else Outcome.REVERTED


def decide_on_baseline(metric: Metric, guards: Sequence[Guard], commit: str, evidence: Evidence) -> NextStep:
    """A failure or an invalid value rejects at once; else as many runs as tell whether they differ."""
    if rejection := rejection_of(metric, guards, evidence, len(evidence.case_ids)):
        return Verdict(Outcome.REVERTED, *rejection)
    if metric.cases is not None:
        return _decide_on_cases(metric, commit, evidence)
    values = noise.values_of(evidence.runs, "candidate")
    agree = len(set(values)) <= 1
    needed = noise.AGREEING_REPEATS + 1 if metric.noise == "auto" and agree else noise.MAX_BASELINE_RUNS
    if len(values) < (1 if metric.noise == "none" else needed):
        return "candidate"
    count = f", {len(values)} {'identical ' if agree else ''}runs" if len(values) > 1 else ""
    return Verdict(Outcome.BASELINE, Reason.MEASURED, f"measured at {commit[:12]}{count}", noise.representative(values))


def _decide_on_cases(metric: Metric, commit: str, evidence: Evidence) -> NextStep:
    """Two full runs tell whether the same code answers the same; an eighth of the second, whether it can be asked."""
    if not evidence.runs:
        return "candidate"
    count = len(evidence.case_ids)
    order = by_case.order_of(count, evidence.runs[0].seed)
    if metric.race == "auto" and len(evidence.runs) == 1:
        return by_case.Ask("candidate", order[: math.ceil(by_case.LOOKS[0] * count)])
    answers = by_case.ScoresByCase(by_case.scores_of(evidence.runs, "candidate"))
    is_twice, value = metric.noise != "none", by_case.mean([*answers.means.values()])
    if is_twice and (cases := answers.needed(order, 2)):
        return by_case.Ask("candidate", cases)
    if violation := range_violation(metric.name, metric.valid, value):
        return Verdict(Outcome.REVERTED, Reason.NOT_VALID, violation)
    same = f" twice{'' if answers.squares else ', each the same'}" if is_twice else ""
    return Verdict(
        Outcome.BASELINE, Reason.MEASURED, f"measured at {commit[:12]}, {pluralize(count, 'case')}{same}", value
    )
