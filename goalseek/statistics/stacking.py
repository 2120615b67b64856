"""Stacking: which rejected candidates of one tip are worth a try together, as one candidate without a proposal. Pure.

A gain that is too small to be recognized alone may be recognized together with others, and two halves may pay only
together. So after eight candidates of a tip, and then after every four, the nearest misses are tried together: two or
three of the best five, those whose gains add up to most. A tip that is beaten sooner needs no such help. A gain is
estimated as the mean of a normal distribution after its runs, with a prior of -0.5 sd and a deviation of 1 sd: a first
run that was a little worse counts for less than three runs.

On landscapes whose truth is known this finds about twice as much where gains are many and small, and loses nothing
where they are large; ``tests/benchmarks/search.py`` measures it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, takewhile

from goalseek.manifest.tables import Metric, Search
from goalseek.records import IterationRecord
from goalseek.statistics.noise import NoiseState, mean, median, scale_of, spread, values_of
from goalseek.values import Reason

ELIGIBLE = (Reason.WORSE, Reason.WITHIN_NOISE, Reason.TIE, Reason.BELOW_MIN_DELTA)
CANDIDATES_BEFORE = 8
CANDIDATES_BETWEEN = 4
NEAREST = 5
SIZES = (2, 3)
PRIOR_GAIN = -0.5  # sd
PRIOR_RUNS = 1  # the prior counts as much as so many runs
LEAST_GAIN = -1.5  # sd; what is farther off is no near miss
LOOK_BACK = 100
Stack = tuple[int, ...]  # the iterations whose changes are tried together, in rising order


def is_stacking(search: Search, metric: Metric, noise: NoiseState) -> bool:
    """Whether rejected candidates are tried together: by ``auto`` where the same code gave different values."""
    is_noisy = metric.noise == "always" or (metric.noise == "auto" and noise.differed)
    return search.stack == "always" or (search.stack == "auto" and is_noisy)


def next_stack(
    newest_first: Iterable[IterationRecord], direction: str, noise: NoiseState, refused: Iterable[Stack] = ()
) -> Stack:
    """The iterations to try together next; none where a proposal is due, or where no set is left.

    ``newest_first`` are the records since the last kept change, all measured against the present incumbent; only the
    last LOOK_BACK are looked at. ``refused`` are sets that no record names yet and that came to nothing.
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
    """Rejected candidates, each with the estimate of its gain in sd of one run, positive where better."""
    scale = scale_of(direction, noise.all_positive)
    gains: list[tuple[int, float, int]] = []
    for record in records:
        values, incumbent = values_of(record.runs, "candidate"), record.metric.incumbent
        if record.reason in ELIGIBLE and not record.stacked and values and incumbent is not None:
            gains.append((record.iteration, scale.x(incumbent) - mean(scale.all(values)), len(values)))
    sizes = [abs(gain) for _, gain, _ in gains if gain]
    sd = spread(scale, noise.pairs) or (median(sizes) if sizes else 1.0)
    for iteration, gain, runs in gains:
        estimate = (PRIOR_RUNS * PRIOR_GAIN + runs * gain / sd) / (PRIOR_RUNS + runs)
        if estimate >= LEAST_GAIN:
            yield iteration, estimate
