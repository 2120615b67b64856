"""Runs of code that does not change: the incumbent's under the pinned ruler, or HEAD's before there is a climb.

They are one pool with all other runs of that tree: what was made before counts, and what is made here is recorded.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from goalseek.baseline import failed_baseline
from goalseek.phase_values import Failure
from goalseek.pool import (
    Measurement,
    Subject,
    baseline_subject,
    incumbent_subject,
    measure_subject,
    measurement_of,
    record_measurement,
)
from goalseek.process import held_back
from goalseek.project.opening import check_fit
from goalseek.project.project import Run
from goalseek.statistics.sequential_test import unfit
from goalseek.values import VerifierRun

FAILURES_MOST = 3


def unchanged_subject(run: Run) -> Subject:
    """What is to be run again and again; ``known`` are its runs so far, but the lucky one for which it was kept.

    Raises GoalseekError where repository and manifest do not fit.
    """
    check_fit(run)
    standing = run.standing
    if standing.baseline is None:
        return baseline_subject(run, run.fresh_setting())
    subject = incumbent_subject(run, run.setting())
    return replace(subject, known=tuple(_runs_before(run, subject)))


def unchanged_runs(run: Run, subject: Subject, count: int) -> Iterator[Measurement | Failure]:
    """Gives ``count`` runs, each as soon as it is known: the newest that were made before, then new ones, recorded.

    A run that failed does not count; after three of them no more are made. Raises GoalseekError where the first run of
    all fails.
    """
    known = subject.known[-count:]
    yield from known
    seeds = {made.seed for made in subject.known}
    values = failures = 0
    while len(known) + values < count and failures < FAILURES_MOST:
        seed = _unused_seed(run, seeds)
        seeds.add(seed)
        folder = run.places.scratch / "trial"
        evidence = measure_subject(run, subject, 0, folder, seed=seed)
        manifest = subject.setting.manifest
        verdict = unfit(manifest.metric, manifest.guard, evidence)
        if verdict is None:
            made = measurement_of(evidence)
            values += 1
            with held_back():
                record_measurement(run, subject, made, "noise")
            yield made
            continue
        if not known and not values:
            raise failed_baseline(verdict, folder)
        failures += 1
        yield Failure(verdict.reason, verdict.why)


def _unused_seed(run: Run, used: set[int | None]) -> int:
    """Another seed than all that were used for this tree, made as every measurement outside an iteration has it."""
    iteration = run.standing.last_iteration + 1
    seeds = (run.seal.seed(run.run_id, iteration, -(run.standing.seq + 2 + place)) for place in itertools.count())
    return next(seed for seed in seeds if seed not in used)


def _runs_before(run: Run, subject: Subject) -> Iterator[Measurement]:
    """The incumbent's runs in the order in which they were recorded."""
    standing = run.standing
    assert standing.incumbent
    kept = run.ledger.history.iteration(standing.incumbent.iteration)
    found: list[tuple[int, Sequence[VerifierRun]]] = []
    if kept:
        own = [made for made in kept.runs if made.of == "candidate"]
        found.append((kept.seq, own if kept.outcome == "baseline" else own[1:]))
    for record in run.recent:
        if record.seq > standing.incumbent.seq:
            found.append((record.seq, [made for made in record.runs if made.of == "incumbent"]))
    for pooled in standing.pooled(subject.tree, subject.ruler):
        found.append((pooled.seq, [VerifierRun("incumbent", pooled.value, pooled.seed, pooled.seconds)]))
    for _, runs in sorted(found, key=lambda item: item[0]):
        for made in runs:
            if made.value is not None:
                yield Measurement(made.value, {}, (), made.seconds, made.seed, before=True)
