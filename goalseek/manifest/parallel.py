"""How many proposals and measurements a manifest has at once, and the variables that each bench gives its commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from goalseek.errors import GoalseekError
from goalseek.humanize import pluralize
from goalseek.manifest.fields import MOST_AT_ONCE
from goalseek.manifest.tables import TIME_SOURCES, Manifest

MOST_AUTO_AGENTS = 8


def one_bench_reason(manifest: Manifest) -> str:
    """Why only one measurement at a time gives a number that counts; "" where several may be made at once."""
    metric = manifest.metric
    if metric.source in TIME_SOURCES:
        return "times are measured one at a time: one bench"
    if metric.exclusive != "none":
        return f'metric.exclusive = "{metric.exclusive}" allows one measurement at a time: one bench'
    return ""


def benches_of(manifest: Manifest, jobs: int | None) -> int:
    """How many measurements are made at once; ``jobs`` is what ``iterate --jobs`` asks for, None without it."""
    return 1 if one_bench_reason(manifest) else jobs or manifest.parallel.benches


def agents_of(
    manifest: Manifest, jobs: int | None, median_proposal: float | None, median_measurement: float | None
) -> int:
    """How many proposals are made at once; ``jobs`` is what ``iterate --jobs`` asks for, None without it.

    With "auto" as many as keep every bench at work: benches * (1 + ``median_proposal`` / ``median_measurement``), the
    medians being seconds of this climb's iterations, None where it has none yet; at most 8, at least one a bench.
    """
    agents, benches = jobs or manifest.parallel.agents, benches_of(manifest, jobs)
    if agents != "auto":
        return agents
    if not median_proposal or not median_measurement:
        return benches
    busy = benches * (1 + median_proposal / median_measurement)
    return max(benches, round(min(busy, MOST_AUTO_AGENTS)))


def slot_variables(manifest: Manifest, slot: int) -> dict[str, str]:
    """The variables that tell verify commands which bench they run on; ``slot`` is its number, counted from 0."""
    own = {name: values[slot] for name, values in manifest.parallel.slots.items()}
    return {**own, "GOALSEEK_SLOT": str(slot)}


def refuse_jobs(manifest: Manifest, jobs: int | None) -> None:
    """Raises GoalseekError for a number that ``--jobs`` does not take, and for a bench without a value in a slot."""
    if jobs is not None and not 1 <= jobs <= MOST_AT_ONCE:
        raise GoalseekError(f"--jobs {jobs}: a number from 1 to {MOST_AT_ONCE}", "--jobs 4")
    for name, why in slot_faults(manifest.parallel.slots, benches_of(manifest, jobs)):
        raise GoalseekError(f"--jobs {jobs}: parallel.slots.{name} {why}", "add values there, or ask for fewer jobs")


def slot_faults(slots: Mapping[str, tuple[str, ...]], benches: int) -> Iterator[tuple[str, str]]:
    """What is wrong with ``parallel.slots`` where there are so many benches: each variable with the reason."""
    for name, values in slots.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield name, f"{name!r} is no name of a variable: letters, digits and _, such as CUDA_VISIBLE_DEVICES"
        elif name.startswith("GOALSEEK_"):
            yield name, "goalseek sets the variables that begin with GOALSEEK_ itself: choose another name"
        elif len(values) < benches:
            given, asked = pluralize(len(values), "value"), pluralize(benches, "bench", "benches")
            yield name, f"has {given} for {asked}: give each bench its own"
