"""What deciding costs: how many runs of the verifier the rule, settling and the holdout will take, and how long."""

from __future__ import annotations

from goalseek.humanize import in_words
from goalseek.manifest.tables import Manifest
from goalseek.noise_state import AGREEING, BASELINE_MOST, CONFIRMED_KEEPS, INCUMBENT_MOST


def cost_of_deciding(manifest: Manifest, is_noisy: bool, seconds: float) -> str:
    """One sentence; ``seconds`` are what one measurement takes, ``is_noisy`` whether the same code gave two values."""
    metric = manifest.metric
    if metric.noise == "none":
        told = [f"one run a candidate, {in_words(seconds)}, decided by plain comparison"]
    elif is_noisy or metric.noise == "always":
        most = metric.max_repeats + INCUMBENT_MOST
        told = [
            f"a candidate takes 1 run where the first is worse, {in_words(seconds)}, and up to {most} where it is not, "
            f"{in_words(most * seconds)}; the baseline {BASELINE_MOST}"
        ]
        if metric.settle:
            runs = 2 * metric.settle
            told.append(f"settling in the end takes {runs} runs, {in_words(runs * seconds)}")
    else:
        told = [
            f"one run a candidate, {in_words(seconds)}; {AGREEING} more for the baseline, and one more for each of the "
            f"first {CONFIRMED_KEEPS} that are kept"
        ]
    if manifest.holdout:
        told.append(f"the holdout takes 2 runs at least, {in_words(2 * seconds)}")
    return "; ".join(told)
