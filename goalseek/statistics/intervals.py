"""The final claim: the difference of two trees measured afresh in turn, with Student's 95% interval.

It is unbiased, because no run that led to a decision counts.
"""

import functools
import math
from collections.abc import Sequence

from goalseek.case_scores import CaseScores
from goalseek.records import SettledDifference
from goalseek.statistics.cases import ScoresByCase, mean
from goalseek.statistics.noise import Pair, median, scale_of, solve, spread, variance

PAIRS = 5
CONFIDENCE = 0.95
CasePair = tuple[CaseScores | None, CaseScores | None]
NEAR_ZERO = 0.1  # of the other value
_PANELS = 400


def is_share(direction: str, before: float, after: float) -> bool:
    """Whether a difference is a share of ``before``, and not in the metric's units.

    It is not if a value is zero or less, or a minimized one near zero: later ones are too, so claims stay of one kind.
    """
    low, high = sorted((before, after))
    return low > 0 and (direction == "maximize" or low > NEAR_ZERO * high)


def settle(
    direction: str,
    pairs: Sequence[tuple[float, float]],
    all_positive: bool = True,
    unit: str = "",
    cases: Sequence[CasePair] = (),
) -> SettledDifference:
    """The difference of pairs (before, after). Raises ValueError without a pair.

    If each run has ``cases``, it is the mean over cases of the difference of their mean scores, and so is the interval:
    for cases like these. It does not know that the best was chosen on them.

    As a share (``is_share``) the mean is of differences of logarithms: the smaller value for minimize, or the larger
    for maximize, over the other. ``all_positive``: every value of the climb was more than zero.
    """
    if not pairs:
        raise ValueError("nothing was measured")
    before, after = median([pair[0] for pair in pairs]), median([pair[1] for pair in pairs])
    has_cases = bool(cases) and all(map(all, cases))
    positive = all_positive and not has_cases and all(value > 0 for pair in pairs for value in pair)
    positive = positive and is_share(direction, before, after)
    scale = scale_of(direction, positive)
    gains = [scale.x(before) - scale.x(after) for before, after in pairs]
    if has_cases:
        first, last = (ScoresByCase(filter(None, side)).means for side in zip(*cases, strict=True))
        gains = [scale.better_by(last[case], score) for case, score in first.items() if case in last]
    count, gain = len(gains), mean(gains)

    def in_units(gain: float) -> float:
        return -scale.sign * math.expm1(-scale.sign * gain) if positive else gain

    interval = None
    if count > 1:
        reach = student_quantile((1 + CONFIDENCE) / 2, count - 1) * math.sqrt(variance(gains) / count)
        interval = (in_units(gain - reach), in_units(gain + reach))
    of_cases = count if has_cases else None
    return SettledDifference(len(pairs), before, after, in_units(gain), interval, positive, unit, of_cases)


def standard_errors(
    direction: str,
    pairs: Sequence[tuple[float, float]],
    repeats: Sequence[Pair],
    all_positive: bool = True,
    sd: float | None = None,
) -> float:
    """By how many standard errors of their mean the second values of ``pairs`` are better; infinite without noise.

    ``repeats``, successive runs of the same code, give the noise if ``sd`` does not. Raises ZeroDivisionError without a
    pair.
    """
    scale = scale_of(direction, all_positive and all(value > 0 for pair in pairs for value in pair))
    gain = mean([scale.x(before) - scale.x(after) for before, after in pairs])
    error = (spread(scale, repeats) if sd is None else sd) * math.sqrt(2 / len(pairs))
    if error:
        return gain / error
    return math.copysign(math.inf, gain) if gain else 0.0


@functools.cache
def student_quantile(probability: float, freedom: int) -> float:
    """The t below which a share of ``probability`` lies, to nine digits. Raises ValueError outside (0, 1)."""
    if not 0 < probability < 1 or freedom < 1:
        raise ValueError("a probability between 0 and 1, and at least one degree of freedom")
    if probability < 0.5:
        return -student_quantile(1 - probability, freedom)
    log_constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi) / 2

    def distribution(angle: float) -> float:
        """1/2 + the probability of 0 < t < √freedom·tan(angle), of density cos(angle)^(freedom-1): Simpson's rule."""
        width = angle / _PANELS
        heights = [math.cos(width * index) ** (freedom - 1) for index in range(_PANELS + 1)]
        area = width / 3 * (heights[0] + 4 * sum(heights[1::2]) + 2 * sum(heights[2:-1:2]) + heights[-1])
        return 0.5 + area * math.exp(log_constant)

    return math.sqrt(freedom) * math.tan(solve(distribution, probability, math.pi / 2))
