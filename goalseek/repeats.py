"""One measurement made of several runs of the commands: ``metric.repeats`` of them, by ``metric.aggregate``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from goalseek.measure import Sample, measure
from goalseek.sandbox.pipes import Sink
from goalseek.verifier import Verifier

AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {"median": median, "mean": fmean, "min": min, "max": max}


def measure_repeatedly(
    verifier: Verifier, tree: str, seed: int, iteration: int, log: Sink, artifacts: Path | None
) -> Sample:
    """Measures a tree as often as one measurement needs it; the first that fails ends it.

    Guards are brought together as the metric is. Of several runs, each keeps its run folder in ``artifacts/k``.
    """
    metric = verifier.manifest.metric
    if metric.repeats == 1:
        return measure(verifier, tree, seed, iteration, log, artifacts)
    made: list[Sample] = []
    for place in range(metric.repeats):
        one = seed_of_repeat(seed, place)
        log.write(f"[repeat {place + 1} of {metric.repeats}, seed {one}]\n".encode())
        sample = measure(verifier, tree, one, iteration, log, artifacts / str(place + 1) if artifacts else None)
        made.append(sample)
        if sample.failure:
            break
        log.write(f"[{metric.name} = {sample.value!r}]\n".encode())
    return together(made, seed, AGGREGATES[metric.aggregate])


def together(made: Sequence[Sample], seed: int, aggregate: Callable[[Sequence[float]], float]) -> Sample:
    """Several samples as one; a failure, which is the last, is that of all."""
    verify = tuple(command for sample in made for command in sample.verify)
    seconds = round(sum(sample.seconds for sample in made), 6)
    if made[-1].failure:
        return Sample(None, {}, verify, seed, seconds, made[-1].failure)
    value = aggregate([sample.value for sample in made if sample.value is not None])
    guards = {name: aggregate([sample.guards[name] for sample in made]) for name in made[0].guards}
    return Sample(value, guards, verify, seed, seconds)


def seed_of_repeat(seed: int, place: int) -> int:
    """The seed of a repeat, made from its measurement's, which is that of the first. 0 to 2**31 - 1."""
    if place == 0:
        return seed
    return int(hashlib.sha256(f"{seed} {place}".encode()).hexdigest()[:8], 16) & 0x7FFFFFFF
