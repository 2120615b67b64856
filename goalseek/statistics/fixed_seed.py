"""Fixed seeds: whether runs that agree to the last bit do so by chance, or because a candidate fixed its seed. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from goalseek.manifest.tables import Metric
from goalseek.statistics.noise_report import robust_sd

MIN_CANDIDATE_RUNS = 2
IMPROBABLE_TIE = 0.001
_ROUNDING = 64  # units in the last place: a mean of shares is known to within so many
_ENDS_OF_SCALES = (0, 1, 100)


def has_fixed_seed(metric: Metric, candidate_values: Sequence[float], incumbent_values: Sequence[float]) -> bool:
    """Whether the candidate gives one number under every seed, though its incumbent's runs hardly ever agree so often.

    With three runs or more, those before the last were improbable to agree, and the last agrees too. False where the
    manifest allows that.
    """
    return _is_improbable(metric, candidate_values, incumbent_values, len(candidate_values) - 1)


def can_more_runs_tell(metric: Metric, candidate_values: Sequence[float], incumbent_values: Sequence[float]) -> bool:
    """Whether the candidate has given one number so far, and as many runs as it may have tell if by chance."""
    is_open = len(candidate_values) < metric.max_repeats
    return is_open and _is_improbable(metric, candidate_values, incumbent_values, metric.max_repeats - 1)


def _is_improbable(metric: Metric, values: Sequence[float], incumbent_values: Sequence[float], runs: int) -> bool:
    """Whether ``values`` agree, and so many runs of the incumbent hardly ever would.

    More than two are asked of a coarse metric only, and not at the end of a scale, where what is perfect always is.
    """
    if len(values) < MIN_CANDIDATE_RUNS or len(set(values)) > 1 or metric.allow_fixed_seed:
        return False
    is_end = values[0] in _ENDS_OF_SCALES
    return is_tie_improbable(incumbent_values, MIN_CANDIDATE_RUNS if is_end else max(runs, MIN_CANDIDATE_RUNS))


def is_tie_improbable(values: Sequence[float], runs: int = 2) -> bool:
    """Whether so many more runs of the code that gave these values would agree to the last bit less than 1 in 1,000.

    Two normal values on a grid agree with probability p = step / (2·√π·sd), and n of them with p^(n-1)·√(2^(n-1)/n). So
    no grid that is coarse enough for more may hold all the values: neither decimals that were cut off, nor shares of a
    number of examples. Nor may so many pairs of the values agree, or nearly. False for fewer than three values.
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
    coarse = 2 * math.sqrt(math.pi) * most * robust_sd(values)
    return coarse > error and not any(
        _are_multiples(differences, smallest, parts, error) for parts in range(1, int(smallest / coarse) + 1)
    )


def _are_multiples(differences: Sequence[float], whole: float, parts: int, error: float) -> bool:
    """Whether all differences are multiples of ``whole / parts``, each known to within ``error``."""
    ratios = [difference / whole for difference in differences]
    return all(abs(ratio * parts - round(ratio * parts)) <= error * (1 + ratio) * parts / whole for ratio in ratios)


def describe_fixed_seed(runs: int) -> str:
    """Why a candidate with a fixed seed is reverted, after so many runs of it."""
    return (
        f"{runs} runs under different seeds gave the same number: its seed is fixed, and its gain may be that seed's "
        "luck: draw from $GOALSEEK_SEED; metric.allow_fixed_seed = true is for who means it"
    )
