"""The numbers of proposals and measurements at once."""

from goalseek.manifest.tables import TIME_SOURCES, Manifest

MOST_AUTO_AGENTS = 8


def one_bench_reason(manifest: Manifest) -> str:
    """The reason why only one measurement at a time counts; "" if several may run."""
    metric = manifest.metric
    if metric.source in TIME_SOURCES:
        return "times are measured one at a time: one bench"
    if metric.exclusive != "none":
        return f'metric.exclusive = "{metric.exclusive}" allows one measurement at a time: one bench'
    return ""


def benches_of(manifest: Manifest, jobs: int | None) -> int:
    """``jobs`` is the value of ``iterate --jobs``, None without it."""
    return 1 if one_bench_reason(manifest) else jobs or manifest.parallel.benches


def agents_of(
    manifest: Manifest, jobs: int | None, median_proposal: float | None, median_measurement: float | None
) -> int:
    """With "auto", as many as keep every bench at work: benches * (1 + ``median_proposal`` / ``median_measurement``).

    Medians are seconds of this climb's iterations, None without any. At least one a bench, else at most 8.
    """
    agents, benches = jobs or manifest.parallel.agents, benches_of(manifest, jobs)
    if agents != "auto":
        return agents
    if not median_proposal or not median_measurement:
        return benches
    busy = benches * (1 + median_proposal / median_measurement)
    return max(benches, round(min(busy, MOST_AUTO_AGENTS)))
