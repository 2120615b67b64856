"""Findings and advice of ``goalseek noise``: what repeat runs of unchanged code show, what their noise costs a climb,
and what to do about it, in words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from goalseek.humanize import abbreviate, better_or_worse, format_duration, format_number, format_percent, parse_share
from goalseek.statistics.noise_report import NoiseReport, expected_false_keeps, false_gain, power_line, repeats_for
from goalseek.statistics.scale import median

ITERATIONS = 100
MOST_CASES = 30
LONG_SECONDS = 5.0
LARGE_SPREAD = 0.1  # of wall times, as a share of their median


class PlannedClimb(Struct, frozen=True):
    """The climb that the figures are for: the metric, the iterations planned, the ``seconds`` that one run takes.

    ``direction`` is None where nobody said which is better. ``is_time`` says that the number is a time, ``is_wall``
    that it is wall time; ``is_project`` says that there is a manifest. ``fixed_seed`` is a note on code that fixes a
    seed, "" where none is known. ``draws_seed`` says that its code takes ``GOALSEEK_SEED`` already.
    """

    direction: str | None
    seconds: float
    min_delta: float | str = 0.0
    iterations: int = ITERATIONS
    is_time: bool = False
    is_wall: bool = False
    is_project: bool = True
    fixed_seed: str = ""
    draws_seed: bool = False

    def wished_gain(self, middle: float) -> float | None:
        """``min_delta`` in the metric's units, for a metric with this median; None where none is set."""
        return parse_share(self.min_delta, middle) or None


def findings(report: NoiseReport, climb: PlannedClimb) -> list[tuple[str, str]]:
    """What the values show, and what their noise costs the climb, as pairs of a heading and a sentence."""
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
        skew = skew if abs(report.skew) > 2 * error else "none that shows"
    drift = "none that shows"
    if report.drift is not None:
        shift = f"{_size(report, abs(report.drift))} {_side(report.drift, climb)}"
        drift = f"the last runs look {shift} than the first (chance does that 1 time in 20): compare runs made in turn"
    greedy = (
        f"of {climb.iterations} candidates that change nothing, keep-if-better would keep "
        f"{expected_false_keeps(climb.iterations):.1f}, and claim "
        f"{_effect(report, false_gain(report.sd, climb.iterations))} for them"
    )
    first, *rest = (f"by {_effect(report, effect)} {100 * share:.0f}" for effect, share in power_line(report.sd))
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
    """What to do about the noise, the most useful step first."""
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
    wide = wall_time_hint(report.values) if climb.is_wall else None
    suggestions = [f"{wide}: {CPU_TIME}"] if wide else []
    if not climb.draws_seed:
        seed = "seed all that draws at random with $GOALSEEK_SEED"
        suggestions.append(f"{seed}: every measurement gets another, so no lucky seed decides")
    suggestions += [
        "enlarge the data that it is measured on: four times as much halves the sd",
        "repeat: a climb does so for what may be better, up to metric.max_repeats times; a command that gives the mean "
        "of four runs has half the sd, at four times the cost",
    ]
    if climb.is_time:
        suggestions.append("for a time, let the command give the minimum of several runs")
    return suggestions


CPU_TIME = 'metric.source = "cpu"'


def wall_time_hint(values: Sequence[float]) -> str | None:
    """A hint at processor time, for wall times that differ by more than a tenth; None for others."""
    spread = (max(values) - min(values)) / median(values)
    if spread <= LARGE_SPREAD:
        return None
    return (
        f"the wall times differ by {format_percent(spread)}: where the program mostly computes, its processor time "
        "moves less on a busy machine"
    )


def fixed_seed_hint(seconds: float) -> str | None:
    """A hint at a fixed seed, for identical values of runs that took ``seconds`` each; None where they were short."""
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
    """In the metric's units, and as a share of the median where that has a meaning."""
    if not report.in_percent:
        return format_number(size, digits=3)
    return f"{format_number(size * report.middle, digits=3)} ({format_percent(size)})"


def _size(report: NoiseReport, size: float) -> str:
    return format_percent(size) if report.in_percent else format_number(size, digits=3)


def count_cases(values: Iterable[float]) -> int | None:
    """The least number of cases, at most 30, of which all these numbers are exact shares; None where there is none.

    Also None where they tell too little: all are 0, 1/2 or 1.
    """
    distinct = set(values)
    counts = range(2, MOST_CASES + 1)
    count = next((n for n in counts if all(0 <= x <= 1 and round(x * n) / n == x for x in distinct)), 2)
    return count if count > 2 else None
