"""Noise report of repeat runs of unchanged code: findings, the cost of noise in a climb, advice."""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from goalseek.humanize import abbreviate, better_or_worse, format_duration, format_number, format_percent, parse_share
from goalseek.manifest.tables import TIME_SOURCES
from goalseek.statistics.cases import mean, normal_quantile
from goalseek.statistics.noise import Scale, median, robust_sd, scale_of, solve

ITERATIONS = 100
MOST_CASES = 30
LONG_SECONDS = 5.0
LARGE_SPREAD = 0.1  # of wall times, as a share of their median
CPU_TIME = 'metric.source = "cpu"'
_OUTLIER_DISTANCE = 3.5  # robust sd from the median
# True effects in sd, and about the share of candidates with such an effect that the rule keeps; by simulation.
POWER = ((1.5, 0.5), (2.0, 0.75), (2.5, 0.88), (3.0, 0.95))


class NoiseReport(Struct, frozen=True):
    """``sd``, its 90% ``interval``, and ``drift`` are shares if ``in_percent``, else in the metric's units.

    ``drift`` is the change over all runs by the slope, positive if better, None if it is not clear. ``skew`` is
    positive if the longer tail is on the worse side, None for too few values.
    """

    values: tuple[float, ...]
    deterministic: bool
    middle: float
    in_percent: bool
    sd: float
    interval: tuple[float, float]
    outliers: tuple[float, ...]
    skew: float | None
    drift: float | None

    @property
    def sd_in_units(self) -> float:
        return self.sd * self.middle if self.in_percent else self.sd


def noise_report(direction: str, values: Sequence[float]) -> NoiseReport:
    """``values`` are in the order of measurement. Raises ValueError for fewer than two."""
    if len(values) < 2:
        raise ValueError("noise is seen in two runs at least")
    in_percent = all(value > 0 for value in values)
    scale = scale_of(direction, in_percent)
    xs = scale.all(values)
    center = median(xs)
    sd = robust_sd(xs)
    return NoiseReport(
        values=tuple(values),
        deterministic=len(set(values)) == 1,
        middle=scale.middle(values),
        in_percent=in_percent,
        sd=sd,
        interval=sd_interval(sd, len(values)),
        outliers=tuple(
            value for value, x in zip(values, xs, strict=True) if abs(x - center) > _OUTLIER_DISTANCE * sd > 0
        ),
        skew=skewness(xs) if len(xs) >= 8 and sd > 0 else None,
        drift=_drift(scale, values),
    )


def sd_interval(sd: float, count: int) -> tuple[float, float]:
    """The 90% interval of the true sd, from that of ``count`` normal values: its square is chi-squared."""
    freedom = count - 1
    low, high = chi_squared_quantile(0.95, freedom), chi_squared_quantile(0.05, freedom)
    return sd * math.sqrt(freedom / low), sd * math.sqrt(freedom / high)


def chi_squared_quantile(probability: float, freedom: int) -> float:
    shape = freedom / 2

    def distribution(value: float) -> float:
        """The regularized lower incomplete gamma function P(freedom/2, value/2), by its power series."""
        half = value / 2
        if half <= 0:
            return 0.0
        term = total = 1 / shape
        divisor = shape
        while term > total * 1e-15:
            divisor += 1
            term *= half / divisor
            total += term
        return min(1.0, total * math.exp(shape * math.log(half) - half - math.lgamma(shape)))

    return solve(distribution, probability, freedom + 50 * math.sqrt(2 * freedom) + 50)


def skewness(xs: Sequence[float]) -> float:
    """The third central moment over the second to the power 3/2. Raises ZeroDivisionError if all are equal."""
    middle = mean(xs)
    second, third = (mean([(x - middle) ** power for x in xs]) for power in (2, 3))
    return third / float(second**1.5)


def expected_false_keeps(candidates: int) -> float:
    """Keeps of useless candidates by keep-if-better: H(N+1) - 1, the records after the baseline's."""
    return math.fsum(1 / rank for rank in range(2, candidates + 2))


def false_gain(sd: float, candidates: int) -> float:
    """sd·Φ⁻¹(p), with Blom's p (1958) for the largest of N+1 normal values, the baseline's among them."""
    count = candidates + 1
    return sd * normal_quantile((count - 0.375) / (count + 0.25))


def repeats_for(sd: float, min_delta: float) -> int:
    """Repeats that make a gain D of ``min_delta`` 1.5 sd of their mean: ⌈(1.5·sd/D)²⌉. Raises ValueError if D <= 0."""
    if not min_delta > 0:
        raise ValueError("min_delta is more than zero")
    return max(1, math.ceil((1.5 * sd / min_delta) ** 2))


def _drift(scale: Scale, values: Sequence[float]) -> float | None:
    """The change from first to last along Theil and Sen's slope; None unless Kendall's test is sure of one (5%)."""
    xs, count = scale.all(values), len(values)
    steps = [(xs[later] - xs[earlier], later - earlier) for later in range(count) for earlier in range(later)]
    score = sum((step > 0) - (step < 0) for step, _ in steps)
    error = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    if abs(score) - 1 <= normal_quantile(0.975) * error:
        return None
    return -median([step / distance for step, distance in steps]) * (count - 1)


class PlannedClimb(Struct, frozen=True):
    """``seconds`` is the time of one run; ``direction`` is None if unknown. ``is_project``: there is a manifest.

    ``fixed_seed`` is a note on code that fixes a seed, or "". ``draws_seed``: its code takes ``GOALSEEK_SEED``.
    """

    direction: str | None
    seconds: float
    min_delta: float | str = 0.0
    iterations: int = ITERATIONS
    source: str | None = None
    is_project: bool = True
    fixed_seed: str = ""
    draws_seed: bool = False

    def wished_gain(self, middle: float) -> float | None:
        """``min_delta`` in the metric's units, for this median; None if none is set."""
        return parse_share(self.min_delta, middle) or None


def findings(report: NoiseReport, climb: PlannedClimb) -> list[tuple[str, str]]:
    """Pairs of a heading and a sentence."""
    count, middle = len(report.values), format_number(report.middle)
    if report.deterministic:
        text = f"{count} runs gave {middle}, equal to the last bit"
        return [("deterministic", f"{text}: one run a candidate, kept if it is strictly better")]
    low, high = (_size(report, edge) for edge in report.interval)
    outliers = "none"
    if report.outliers:
        values = abbreviate([format_number(value) for value in report.outliers])
        outliers = f"{len(report.outliers)} of {count}: {values}"
    if report.skew is None:
        skew = "eight runs or more would show it"
    else:
        error = math.sqrt(6 * count * (count - 1) / ((count - 2) * (count + 1) * (count + 3)))  # of normal values' skew
        skew = f"the longer tail is on the {_side(-report.skew, climb)} side ({abs(report.skew):.1f})"
        skew = skew if abs(report.skew) > 2 * error else "none visible"
    drift = "none visible"
    if report.drift is not None:
        shift = f"{_size(report, abs(report.drift))} {_side(report.drift, climb)}"
        drift = f"the last runs look {shift} than the first (chance does that 1 time in 20): compare runs made in turn"
    greedy = (
        f"of {climb.iterations} candidates that change nothing, keep-if-better would keep "
        f"{expected_false_keeps(climb.iterations):.1f}, and claim "
        f"{_effect(report, false_gain(report.sd, climb.iterations))} for them"
    )
    first, *rest = (f"by {_effect(report, effect * report.sd)} {100 * share:.0f}" for effect, share in POWER)
    if wished := climb.wished_gain(report.middle):
        repeats = repeats_for(report.sd_in_units, wished)
        need = "one run is enough" if repeats == 1 else f"let the command give the mean of {repeats} runs"
        min_delta = f"to see a gain of {format_number(wished)}, {need}"
    else:
        full, half = repeats_for(1.0, 1.0), repeats_for(1.0, 0.5)
        min_delta = f"none is set; a gain of one sd is seen in the mean of {full} runs, of half an sd in that of {half}"
    return [
        ("noisy", f"{count} runs gave {len(set(report.values))} values; the median is {middle}"),
        ("sd", f"{_effect(report, report.sd)}; 90% interval {low} to {high}"),
        ("outliers", outliers),
        ("skew", skew),
        ("drift", drift),
        ("greedy", greedy),
        ("the rule", f"keeps a candidate that is really better {first} times in 100, {', '.join(rest)}"),
        ("min_delta", min_delta),
    ]


def advice(report: NoiseReport, climb: PlannedClimb) -> list[str]:
    """The most useful step first."""
    if report.deterministic:
        doctor = (
            "goalseek doctor breaks every writable file, to see that the number moves"
            if climb.is_project
            else "break something that must move the number, and run this again"
        )
        doubt = (
            "identical values can also mean a parser that reads something constant, or a verifier that never reads the "
            f"candidate: {doctor}"
        )
        return [doubt, *filter(None, [climb.fixed_seed or fixed_seed_hint(climb.seconds)])]
    wide = wall_time_hint(report.values) if climb.source == "wall" else None
    suggestions = [f"{wide}: {CPU_TIME}"] if wide else []
    if not climb.draws_seed:
        seed = "seed every random generator with $GOALSEEK_SEED"
        suggestions.append(f"{seed}: every measurement gets another, so no lucky seed decides")
    suggestions += [
        "enlarge the data that it is measured on: four times as much halves the sd",
        "repeat: a climb repeats a candidate that may be better, up to metric.max_repeats times; a command that gives "
        "the mean of four runs has half the sd, at four times the cost",
    ]
    if climb.source in TIME_SOURCES:
        suggestions.append("for a time, let the command give the minimum of several runs")
    return suggestions


def wall_time_hint(values: Sequence[float]) -> str | None:
    """None unless the times differ by more than a tenth."""
    spread = (max(values) - min(values)) / median(values)
    if spread <= LARGE_SPREAD:
        return None
    return (
        f"the wall times differ by {format_percent(spread)}: if the program mostly computes, its processor time moves "
        "less on a busy machine"
    )


def fixed_seed_hint(seconds: float) -> str | None:
    """For identical values of runs that took ``seconds`` each; None if they were short."""
    if seconds < LONG_SECONDS:
        return None
    return (
        f"a run takes {format_duration(seconds)}: if it draws at random with a fixed seed, pass $GOALSEEK_SEED on, "
        "or the climb will fit that one seed"
    )


def _side(gain: float, climb: PlannedClimb) -> str:
    """Better or worse; without a direction higher or lower, as larger was then taken for better."""
    if climb.direction:
        return better_or_worse(gain)
    return "higher" if gain > 0 else "lower"


def _effect(report: NoiseReport, size: float) -> str:
    """In the metric's units, and as a share of the median if that has a meaning."""
    if not report.in_percent:
        return format_number(size, digits=3)
    return f"{format_number(size * report.middle, digits=3)} ({format_percent(size)})"


def _size(report: NoiseReport, size: float) -> str:
    return format_percent(size) if report.in_percent else format_number(size, digits=3)


def count_cases(values: Iterable[float]) -> int | None:
    """The least number of cases, at most 30, that all are shares of; None if there is none, or all are 0, ½, 1."""
    distinct = set(values)
    counts = range(2, MOST_CASES + 1)
    count = next((n for n in counts if all(0 <= x <= 1 and round(x * n) / n == x for x in distinct)), 2)
    return count if count > 2 else None
