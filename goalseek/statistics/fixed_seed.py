"""Fixed seeds: whether runs agree to the last bit by chance, or because a candidate fixed its seed."""

import itertools
import math
from collections.abc import Sequence

from goalseek.manifest.tables import Metric
from goalseek.statistics.noise import median, robust_sd

MIN_CANDIDATE_RUNS = 2
IMPROBABLE_TIE = 0.001
_ROUNDING = 64  # units in the last place: a mean of shares is known to within so many
_ENDS_OF_SCALES = (0, 1, 100)


def has_fixed_seed(
    metric: Metric, values: Sequence[float], incumbent_values: Sequence[float], runs: int | None = None
) -> bool:
    """Whether the candidate gave one number under every seed, though its incumbent's runs hardly ever agree so often.

    From three runs on, those before the last were improbable to agree, and the last agrees too; ``runs`` is how many
    there are, or will be. More than two before the last are asked of a coarse metric only, and not at the end of a
    scale, where a perfect value always is.
    """
    if len(values) < MIN_CANDIDATE_RUNS or len(set(values)) > 1 or metric.allow_fixed_seed:
        return False
    agreeing = 0 if values[0] in _ENDS_OF_SCALES else (runs or len(values)) - 1
    # The noise of a time or a loss shrinks with it: a far smaller one agrees because its decimals are cut.
    middle = median(list(map(abs, incumbent_values))) if metric.direction == "minimize" and incumbent_values else 0.0
    share = min(1.0, abs(values[0]) / middle) if middle and values[0] else 1.0
    return is_tie_improbable(incumbent_values, max(agreeing, MIN_CANDIDATE_RUNS), share)


def is_tie_improbable(values: Sequence[float], runs: int = 2, share: float = 1.0) -> bool:
    """Whether ``runs`` more runs with ``share`` of the noise of these values agree less than 1 time in 1,000.

    Two normal values on a grid agree with probability p = step / (2·√π·sd), and n of them with p^(n-1)·√(2^(n-1)/n). So
    no grid coarse enough for more may hold all the values (cut decimals, shares of a number of examples), nor may so
    many pairs of them agree, or nearly. False for fewer than three values.
    """
    ordered = sorted(values)
    error = _ROUNDING * math.ulp(max(map(abs, ordered), default=0.0))
    distinct = ordered[:1] + [after for before, after in itertools.pairwise(ordered) if after - before > error]
    if len(distinct) < 3 or not math.isfinite(distinct[-1] - distinct[0]):
        return False
    most = (IMPROBABLE_TIE * math.sqrt(runs / 2 ** (runs - 1))) ** (1 / (runs - 1))
    tied = sum(abs(one - other) <= error for one, other in itertools.combinations(values, 2))
    if tied > most * math.comb(len(values), 2):
        return False
    differences = [value - distinct[0] for value in distinct[1:]]
    smallest = min(after - before for before, after in itertools.pairwise(distinct))
    coarse = 2 * math.sqrt(math.pi) * most * share * robust_sd(values)
    ratios = [difference / smallest for difference in differences]

    def is_grid(parts: int) -> bool:  # each difference is known to within ``error``
        tolerance = error * parts / smallest
        return all(abs(ratio * parts - round(ratio * parts)) <= tolerance * (1 + ratio) for ratio in ratios)

    return coarse > error and not any(map(is_grid, range(1, int(smallest / coarse) + 1)))


def describe_fixed_seed(runs: int) -> str:
    return (
        f"{runs} runs under different seeds gave the same number: its seed is fixed, and its gain may be that seed's "
        "luck: draw from $GOALSEEK_SEED; set metric.allow_fixed_seed = true to allow this"
    )
