"""How many proposals and measurements a manifest has at once."""

from __future__ import annotations

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
    """``jobs`` is what ``iterate --jobs`` asks for, None without it."""
    return 1 if one_bench_reason(manifest) else jobs or manifest.parallel.benches


def agents_of(
    manifest: Manifest, jobs: int | None, median_proposal: float | None, median_measurement: float | None
) -> int:
    """``jobs`` is as for ``benches_of``.

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
