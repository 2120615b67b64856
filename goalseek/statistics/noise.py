"""The noise of a metric: the scale for comparisons, the sd of one run, and the state folded from records."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from goalseek.humanize import better_or_worse, format_duration, format_gain
from goalseek.manifest.tables import Manifest, Metric
from goalseek.records import IterationRecord, MeasurementRecord
from goalseek.statistics.cases import CaseState, looks_of, mean
from goalseek.values import Number, Outcome, Reason, VerifierRun

Pair = tuple[Number, Number]
_CLIP = 2.5
POOLED_PAIRS = 5
MAD_TO_SD = 1.4826  # of normal values
MAX_BASELINE_RUNS = 5
AGREEING_REPEATS = 2
CONFIRMED_KEEPS = 2
MAX_PAIRS = 200
MAX_INCUMBENT_RUNS = 8
OPENING_RUNS = 5
DRIFT_LIMIT = 3.0  # sd; the difference of two medians of five has an sd of about 0.76


class Scale(Struct, frozen=True):
    """x = f(y), lower is better: f is s·log(y) if all values are positive, else s·y; s is 1 for minimize, else -1."""

    sign: int
    logarithmic: bool

    def x(self, value: float) -> float:
        return self.sign * (math.log(value) if self.logarithmic else value)

    def value(self, x: float) -> float:
        return math.exp(self.sign * x) if self.logarithmic else self.sign * x

    def better_by(self, value: float, than: float) -> float:
        """In the values' units; negative if worse."""
        return self.sign * (than - value)

    def middle(self, values: Sequence[float]) -> float:
        """The median, or the scale's mean of the middle two: 1/y has the middle of y. Raises IndexError if empty."""
        ordered = sorted(values)
        low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
        if low == high:
            return low
        return math.sqrt(low) * math.sqrt(high) if self.logarithmic else low / 2 + high / 2

    def all(self, values: Iterable[float]) -> list[float]:
        return [self.x(value) for value in values]


def scale_of(direction: str, all_positive: bool) -> Scale:
    return Scale(1 if direction == "minimize" else -1, all_positive)


def successive_pairs(values: Sequence[float]) -> tuple[Pair, ...]:
    return tuple(itertools.pairwise(values))


def spread(scale: Scale, pairs: Sequence[Pair], others: Iterable[float] = ()) -> float:
    """The sd of one run on the scale, from ``pairs`` of successive repeats of the same code.

    r are their differences over √2, so that a slow drift cancels; m = 1.4826·median|r|. The result is the larger of m
    and the root mean square of r, clipped at 2.5 m if m > 0, times 1 + 1/n for n differences; never below the smallest
    step between two values among the pairs and ``others``. It is 0 if all of these are equal.
    """
    ordered = sorted(scale.all({*(value for pair in pairs for value in pair), *others}))
    step = min((after - before for before, after in successive_pairs(ordered)), default=0.0)
    if not pairs:
        return step
    sizes = [abs(scale.x(after) - scale.x(before)) / math.sqrt(2) for before, after in pairs]
    robust = MAD_TO_SD * median(sizes)
    clipped = [min(size, _CLIP * robust) if robust > 0 else size for size in sizes]
    root_mean_square = math.sqrt(sum(size * size for size in clipped) / len(clipped))
    return max(max(robust, root_mean_square) * (1 + 1 / len(sizes)), step)


def relative_variance(scale: Scale, values: Sequence[float], sd: float) -> float:
    """The variance of one run of the code that gave these values in turn, as a multiple of sd²; 1 if ``sd`` is 0.

    ``sd`` is of all code, and counts as much as five differences do; none of these counts for more than 2.5 sd. So a
    few runs that happen to agree are no proof of a small spread.
    """
    if sd == 0:
        return 1.0
    sizes = [abs(after - before) / (math.sqrt(2) * sd) for before, after in successive_pairs(scale.all(values))]
    return (POOLED_PAIRS + sum(min(size, _CLIP) ** 2 for size in sizes)) / (POOLED_PAIRS + len(sizes))


def median(values: Sequence[float]) -> float:
    """Raises IndexError without a value."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def variance(values: Sequence[float]) -> float:
    """The sample variance, over n - 1; 0 for one value."""
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / max(1, len(values) - 1)


def robust_sd(xs: Sequence[float]) -> float:
    """1.4826 times the median distance from the median; the plain standard deviation if that is 0."""
    center = median(xs)
    robust = MAD_TO_SD * median([abs(x - center) for x in xs])
    return robust or math.sqrt(variance(xs))


def solve(rising: Callable[[float], float], result: float, highest: float) -> float:
    """The argument between 0 and ``highest`` with this result, by bisection."""
    low, high = 0.0, highest
    for _ in range(100):
        middle = (low + high) / 2
        if rising(middle) < result:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def representative(values: Sequence[float]) -> float:
    """The median, without the first run if there are more."""
    return median(values[1:] if len(values) > 1 else values)


class TimedRun(Struct, frozen=True):
    """``at`` counts the verifier runs of this epoch up to this one."""

    value: Number
    at: int


Setting = tuple[int | None, str | None]  # how many benches measure at once, on which host; None, None for a single one


def setting_of(benches: int | None, host: str | None) -> Setting:
    return (None, None) if benches in (None, 1) else (benches, host)


class NoiseState(Struct, frozen=True):
    """The noise under one ruler, and the incumbent's runs: folded from records, of bounded size.

    ``clock`` counts verifier runs. ``pairs`` are the last 200 pairs of successive repeats of the same code, values as
    measured. ``incumbent`` holds the incumbent's last eight runs, never its lucky first one; ``opening`` the first five
    after it was kept, ``incumbent_runs`` counts those since. ``value`` is the one in its record: everything shows it,
    and it stays while ``incumbent`` grows.
    ``agreed`` counts repeats that were equal to the last bit, ``differed`` says whether one ever was not, ``confirmed``
    counts keeps that were run again and agreed, ``tested`` candidates for which the rule gave odds, ``kept`` those of
    them that it kept. ``pairs`` and the incumbent's runs are all of one setting. If the metric has ``cases``, these say
    the incumbent's scores and the noise; ``pairs`` and ``incumbent`` are empty.
    """

    clock: int = 0
    all_positive: bool = True
    pairs: tuple[Pair, ...] = ()
    incumbent: tuple[TimedRun, ...] = ()
    opening: tuple[Number, ...] = ()
    incumbent_runs: int = 0
    value: Number | None = None
    agreed: int = 0
    differed: bool = False
    confirmed: int = 0
    kept: int = 0
    tested: int = 0
    tree: str = ""
    ruler: str = ""
    benches: int | None = None
    host: str | None = None
    cases: CaseState | None = None

    @property
    def setting(self) -> Setting:
        return self.benches, self.host

    def under(self, setting: Setting) -> "NoiseState":
        """Without level and spread if the setting is another, where they may differ; scores of cases stay."""
        if setting == self.setting:
            return self
        benches, host = setting
        return structs.replace(self, benches=benches, host=host, pairs=(), incumbent=(), opening=(), incumbent_runs=0)

    def after_iteration(self, record: IterationRecord, incumbent: str | None) -> "NoiseState":
        """A baseline begins anew. ``incumbent`` is the commit of the incumbent before the iteration.

        Runs of a candidate with a fixed seed count as another tree's; so do the incumbent's, if it was an older one.
        """
        runs: Sequence[VerifierRun] = record.runs
        others = {"candidate"} if record.reason == Reason.SEED_FIXED else set[str]()
        if incumbent is not None and record.base_commit_hash not in (None, incumbent):
            others.add("incumbent")
        if others:
            runs = [structs.replace(run, of="other") if run.of in others else run for run in runs]
        setting, outcome = setting_of(record.benches, record.host), record.outcome
        if outcome == Outcome.BASELINE:
            cases = CaseState(record.case_ids, looks=looks_of(runs)) if record.case_ids else None
            state = NoiseState(cases=cases).with_runs([structs.replace(run, of="incumbent") for run in runs])
            state = structs.replace(state, benches=setting[0], host=setting[1])
        else:
            before = self.under(setting) if runs else self
            state, is_kept = before.with_runs(runs), outcome == Outcome.KEPT
            if record.metric.odds is not None:
                state = structs.replace(state, tested=before.tested + 1, kept=before.kept + is_kept)
            if is_kept and (own := timed_runs(before.clock, runs, "candidate")):
                is_repeated, cases = len(own) > 1, state.cases
                if cases and before.cases:
                    is_repeated, own = cases.repeats > before.cases.repeats, ()
                    cases = cases.with_incumbent(runs, state.differed)
                confirmed = before.confirmed + (is_repeated and not state.differed)
                state = structs.replace(state, opening=(), incumbent_runs=0, confirmed=confirmed, cases=cases)
                state = structs.replace(state, incumbent=own[1:][-MAX_INCUMBENT_RUNS:])
        if outcome not in (Outcome.BASELINE, Outcome.KEPT):
            return state
        ruler = record.digests.get("ruler", self.ruler)
        return structs.replace(state, value=record.metric.value, tree=record.tree_hash or "", ruler=ruler)

    def after_measurement(self, record: MeasurementRecord) -> "NoiseState":
        """It was made alone, and is a repeat if it ran the incumbent's code."""
        is_repeat = (record.tree, record.ruler, *self.setting) == (self.tree, self.ruler, None, None)
        return self.with_runs((VerifierRun("incumbent" if is_repeat else "other", record.value, 0, 0.0, record.cases),))

    def with_runs(self, runs: Sequence[VerifierRun]) -> "NoiseState":
        if not runs:
            return self
        if self.cases:
            return self._with_cases(self.cases, runs)
        fresh = timed_runs(self.clock, runs, "incumbent")
        repeats = repeats_of(self, runs) if fresh or len(runs) > 1 else ()
        agreed = sum([before == after for before, after in repeats])
        has_difference = agreed < len(repeats)
        state = self
        if has_difference and not self.differed:  # earlier runs are of a metric that seemed not to move
            state = structs.replace(self, incumbent=(), opening=(), incumbent_runs=0, pairs=(), differed=True)
        return structs.replace(
            state,
            clock=self.clock + len(runs),
            all_positive=self.all_positive and all(run.value is None or run.value > 0 for run in runs),
            pairs=(state.pairs + (repeats if state is self else repeats_of(state, runs)))[-MAX_PAIRS:],
            incumbent=(state.incumbent + fresh)[-MAX_INCUMBENT_RUNS:],
            opening=(state.opening + tuple([run.value for run in fresh]))[:OPENING_RUNS],
            incumbent_runs=state.incumbent_runs + len(fresh),
            agreed=self.agreed + agreed,
            differed=self.differed or has_difference,
        )

    def _with_cases(self, before: CaseState, runs: Sequence[VerifierRun]) -> "NoiseState":
        cases = before.with_runs(runs)
        has_difference = cases.squares > before.squares
        if has_difference and not self.differed:
            fresh = sum(run.of == "incumbent" and run.cases is not None for run in runs)
            cases = structs.replace(cases, own=cases.own[len(cases.own) - fresh :])
        return structs.replace(
            self,
            clock=self.clock + len(runs),
            all_positive=False,
            agreed=self.agreed + (cases.repeats > before.repeats and not has_difference),
            differed=self.differed or has_difference,
            cases=cases,
        )


def is_noisy(metric: Metric, state: NoiseState) -> bool:
    """Whether runs of the same code count as different: by ``metric.noise``, or because two did differ."""
    return metric.noise == "always" or (metric.noise == "auto" and state.differed)


def values_of(runs: Sequence[VerifierRun], side: str) -> list[float]:
    """In their order, without runs that have no value."""
    return [run.value for run in runs if run.of == side and run.value is not None]


def timed_runs(clock: int, runs: Sequence[VerifierRun], side: str) -> tuple[TimedRun, ...]:
    """Numbered on from ``clock``; runs without a value count, but are left out."""
    numbered = enumerate(runs, clock + 1)
    return tuple([TimedRun(run.value, at) for at, run in numbered if run.of == side and run.value is not None])


def repeats_of(state: NoiseState, runs: Sequence[VerifierRun]) -> tuple[Pair, ...]:
    """The successive repeats of the same code among ``runs``; of the incumbent, its last run before them too.

    If the incumbent has no run that counts, its ``value`` is taken for one until repeats have differed.
    """
    last = [run.value for run in state.incumbent[-1:]]
    if not last and not state.differed and state.value is not None:
        last = [state.value]
    return successive_pairs(last + values_of(runs, "incumbent")) + successive_pairs(values_of(runs, "candidate"))


def drift_warning(direction: str, state: NoiseState) -> str | None:
    """None unless the incumbent's last five runs moved from its first five since it was kept."""
    if state.incumbent_runs < 2 * OPENING_RUNS:
        return None
    scale = scale_of(direction, state.all_positive)
    sd = spread(scale, state.pairs)
    then, now = scale.middle(state.opening), scale.middle([run.value for run in state.incumbent[-OPENING_RUNS:]])
    if abs(scale.x(then) - scale.x(now)) <= DRIFT_LIMIT * sd:
        return None
    gain = scale.better_by(now, then)
    shift = f"{format_gain(gain, then, scale.logarithmic)} {better_or_worse(gain)}"
    return f"the incumbent measures {shift} than when it was kept, with the same code: the machine or the data changed"


def cost_of_deciding(manifest: Manifest, has_differed: bool, seconds: float) -> str:
    """One sentence; ``seconds`` is the time of one measurement, ``has_differed`` that the same code gave two values."""
    metric, each = manifest.metric, format_duration(seconds)
    if metric.cases:
        part = "half" if has_differed else "third"
        some = "" if metric.race == "off" else f"about a {part} of a run if the verifier heeds $GOALSEEK_CASES, else "
        text = f"the baseline takes 2 runs, {each} each; a candidate {some}a full one"
    elif metric.noise == "none":
        text = f"one run a candidate, {each}, decided by plain comparison"
    elif has_differed or metric.noise == "always":
        limit = metric.max_repeats + MAX_INCUMBENT_RUNS
        text = (
            f"a candidate takes 1 run if it is worse, {each}, and up to {limit} if it is not, "
            f"{format_duration(limit * seconds)}; the baseline takes {MAX_BASELINE_RUNS}"
        )
        if runs := 2 * (metric.settle or 0):
            text += f"; settling at the end takes {runs} runs, {format_duration(runs * seconds)}"
    else:
        text = (
            f"each candidate is run once, {each}; the baseline is run {AGREEING_REPEATS + 1} times, and the first "
            f"{CONFIRMED_KEEPS} kept changes twice"
        )
    look = f"; the holdout takes 2 runs at least, {format_duration(2 * seconds)}" if manifest.holdout else ""
    return text + look
