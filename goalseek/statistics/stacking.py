"""Stacking: rejected candidates of one tip that are tried together, as one candidate without a proposal.

Small gains may be recognized only together, and two halves may pay only together. On landscapes of known truth it finds
about twice as much if gains are many and small, and loses nothing if they are large (``tests/benchmarks/search.py``).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, takewhile

from goalseek.manifest.tables import Metric, Search
from goalseek.records import IterationRecord
from goalseek.statistics.cases import mean
from goalseek.statistics.noise import NoiseState, is_noisy, median, scale_of, spread, values_of
from goalseek.values import Reason

ELIGIBLE = (Reason.WORSE, Reason.WITHIN_NOISE, Reason.TIE, Reason.BELOW_MIN_DELTA)
CANDIDATES_BEFORE = 8  # a tip that is beaten sooner needs no help
CANDIDATES_BETWEEN = 4
NEAREST = 5
SIZES = (2, 3)
PRIOR_GAIN = -0.5  # sd; the prior is normal, with a deviation of 1 sd
PRIOR_RUNS = 1  # the prior counts as much as so many runs
LEAST_GAIN = -1.5  # sd; below it, no near miss
LOOK_BACK = 100
Stack = tuple[int, ...]  # the iterations whose changes are tried together, in rising order


def is_stacking(search: Search, metric: Metric, noise: NoiseState) -> bool:
    """``auto`` stacks if the same code gave different values."""
    return search.stack == "always" or (search.stack == "auto" and is_noisy(metric, noise))


def next_stack(
    newest_first: Iterable[IterationRecord], direction: str, noise: NoiseState, refused: Iterable[Stack] = ()
) -> Stack:
    """Empty if a proposal is due, or no set is left.

    ``newest_first`` are the records since the last kept change; ``refused`` are sets that came to nothing, in no
    record.
    """
    records = list(islice(newest_first, LOOK_BACK))
    since_stack = list(takewhile(lambda record: not record.stacked, records))
    needed = CANDIDATES_BETWEEN if len(since_stack) < len(records) else CANDIDATES_BEFORE
    if sum(bool(values_of(record.runs, "candidate")) for record in since_stack) < needed:
        return ()
    known = {*refused, *(record.stacked for record in records)}
    known.update(stack for record in records for stack in record.not_stacked)
    gains = dict(_near_misses(records, direction, noise))
    nearest = sorted(gains, key=lambda iteration: (-gains[iteration], iteration))[:NEAREST]
    sets = [chosen for size in SIZES for chosen in combinations(nearest, size) if tuple(sorted(chosen)) not in known]
    return tuple(sorted(max(sets, key=lambda chosen: sum(gains[iteration] for iteration in chosen), default=())))


def _near_misses(records: Sequence[IterationRecord], direction: str, noise: NoiseState) -> Iterator[tuple[int, float]]:
    """Iterations with the posterior mean of their gain, in sd of one run; positive if better.

    With cases, that is the sd of the mean difference on all of them; a share of them counts as that share of a run.
    """
    scale = scale_of(direction, noise.all_positive)
    gains: list[tuple[int, float, float]] = []
    for record in records:
        values, incumbent, cases = values_of(record.runs, "candidate"), record.metric.incumbent, record.metric.cases
        if record.reason not in ELIGIBLE or record.stacked or not values or incumbent is None:
            continue
        if cases:
            share = cases.run / cases.of
            gains.append((record.iteration, cases.t / math.sqrt(share), share))
        else:
            gains.append((record.iteration, scale.x(incumbent) - mean(scale.all(values)), len(values)))
    sizes = [abs(gain) for _, gain, _ in gains if gain]
    sd = 1.0 if noise.cases else spread(scale, noise.pairs) or (median(sizes) if sizes else 1.0)
    for iteration, gain, runs in gains:
        estimate = (PRIOR_RUNS * PRIOR_GAIN + runs * gain / sd) / (PRIOR_RUNS + runs)
        if estimate >= LEAST_GAIN:
            yield iteration, estimate
