"""What the records tell the rule of ``noise.py``: a fold over them and nothing else, of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from goalseek.humanize import amount, format_duration
from goalseek.manifest.tables import Manifest
from goalseek.statistics.scale import Pair, representative, scale_of, spread, successive
from goalseek.values import VerifierRun

BASELINE_MOST = 5
AGREEING = 2
CONFIRMED_KEEPS = 2
PAIRS_MOST = 200
INCUMBENT_MOST = 8
OPENING = 5


@dataclass(frozen=True)
class TimedRun:
    """One run that gave a value; ``at`` counts the verifier runs of this epoch up to and with it."""

    value: float
    at: int


@dataclass(frozen=True)
class NoiseState:
    """What is known of the noise under one ruler, and of the incumbent.

    ``clock`` counts verifier runs. ``pairs`` are successive repeats of the same code, values as measured, the last
    200. ``incumbent`` are the incumbent's last eight runs, never its lucky first one, ``opening`` the first five that
    were made after it was kept, ``incumbent_runs`` how many these are by now, ``value`` what it is worth.
    ``agreed`` counts repeats that gave the same value to the last bit, ``differed`` is whether one ever did not,
    ``confirmed`` how many keeps were run again and agreed. ``tested`` are the candidates that the rule gave odds,
    ``kept`` those among them that it kept.
    """

    clock: int = 0
    all_positive: bool = True
    pairs: tuple[Pair, ...] = ()
    incumbent: tuple[TimedRun, ...] = ()
    opening: tuple[float, ...] = ()
    incumbent_runs: int = 0
    value: float | None = None
    agreed: int = 0
    differed: bool = False
    confirmed: int = 0
    kept: int = 0
    tested: int = 0
    tree: str = ""
    ruler: str = ""

    def after_candidate(self, runs: Sequence[VerifierRun], kept: bool, odds: float | None) -> NoiseState:
        """With a candidate that was decided: its runs in the order in which they were made, and the rule's odds."""
        following = self.with_runs(runs)
        tried = timed(self.clock, runs, "candidate")
        if odds is not None:
            following = replace(following, tested=self.tested + 1, kept=self.kept + kept)
        if not kept or not tried:
            return following
        return replace(
            following,
            incumbent=tried[1:][-INCUMBENT_MOST:],
            opening=(),
            incumbent_runs=0,
            value=representative([run.value for run in tried]),
            confirmed=self.confirmed + (len(tried) > 1 and not following.differed),
        )

    def with_runs(self, runs: Sequence[VerifierRun]) -> NoiseState:
        """With more runs of the incumbent, a candidate, or of something else, whatever comes of them.

        Where repeats differ for the first time, the incumbent's runs and differences from before are forgotten: they
        are of a metric that seemed not to move.
        """
        repeats = repeats_of(self, runs)
        differ = any(before != after for before, after in repeats)
        known = (
            replace(self, incumbent=(), opening=(), incumbent_runs=0, pairs=(), differed=True)
            if differ and not self.differed
            else self
        )
        fresh = timed(self.clock, runs, "incumbent")
        return replace(
            known,
            clock=self.clock + len(runs),
            all_positive=self.all_positive and all(run.value is None or run.value > 0 for run in runs),
            pairs=(known.pairs + repeats_of(known, runs))[-PAIRS_MOST:],
            incumbent=(known.incumbent + fresh)[-INCUMBENT_MOST:],
            opening=(known.opening + tuple(run.value for run in fresh))[:OPENING],
            incumbent_runs=known.incumbent_runs + len(fresh),
            agreed=self.agreed + sum(before == after for before, after in repeats),
            differed=self.differed or differ,
        )


def after_baseline(runs: Sequence[VerifierRun]) -> NoiseState:
    """The state that a baseline begins with."""
    as_incumbent = [replace(run, of="incumbent") for run in runs]
    values = values_of(runs, "candidate")
    return replace(NoiseState().with_runs(as_incumbent), value=representative(values) if values else None)


def values_of(runs: Sequence[VerifierRun], of: str) -> list[float]:
    """The values of the candidate's or the incumbent's runs that have one, in their order."""
    return [run.value for run in runs if run.of == of and run.value is not None]


def timed(clock: int, runs: Sequence[VerifierRun], of: str) -> tuple[TimedRun, ...]:
    """The candidate's or the incumbent's runs that have a value, with their place after ``clock`` runs."""
    return tuple(
        TimedRun(run.value, clock + place)
        for place, run in enumerate(runs, 1)
        if run.of == of and run.value is not None
    )


def repeats_of(state: NoiseState, runs: Sequence[VerifierRun]) -> tuple[Pair, ...]:
    """The successive repeats of the same code among ``runs``; of the incumbent, its last run before them too.

    Where the incumbent has no run that counts, what it is worth stands for one until repeats have differed.
    """
    last = [run.value for run in state.incumbent[-1:]]
    if not last and not state.differed and state.value is not None:
        last = [state.value]
    return successive(last + values_of(runs, "incumbent")) + successive(values_of(runs, "candidate"))


MOVED = 3.0  # sd; the difference of two medians of five has an sd of about 0.76


def level_moved(direction: str, state: NoiseState) -> str | None:
    """One sentence where the incumbent's last five runs are not where its first five were; None where they are.

    Each five are apart from the other, and from the runs for which it was kept.
    """
    if state.incumbent_runs < 2 * OPENING:
        return None
    scale = scale_of(direction, state.all_positive)
    sd = spread(scale, state.pairs)
    then, now = scale.middle(state.opening), scale.middle([run.value for run in state.incumbent[-OPENING:]])
    if abs(scale.x(then) - scale.x(now)) <= MOVED * sd:
        return None
    gain = scale.better_by(now, then)
    moved = f"{amount(gain, then, scale.logarithmic)} {'better' if gain > 0 else 'worse'}"
    return f"the incumbent measures {moved} than when it was kept, with the same code: the machine or the data changed"


def cost_of_deciding(manifest: Manifest, is_noisy: bool, seconds: float) -> str:
    """One sentence; ``seconds`` are what one measurement takes, ``is_noisy`` whether the same code gave two values."""
    metric = manifest.metric
    if metric.noise == "none":
        told = [f"one run a candidate, {format_duration(seconds)}, decided by plain comparison"]
    elif is_noisy or metric.noise == "always":
        most = metric.max_repeats + INCUMBENT_MOST
        told = [
            f"a candidate takes 1 run where the first is worse, {format_duration(seconds)}, and up to {most} where it "
            f"is not, {format_duration(most * seconds)}; the baseline {BASELINE_MOST}"
        ]
        if metric.settle:
            runs = 2 * metric.settle
            told.append(f"settling in the end takes {runs} runs, {format_duration(runs * seconds)}")
    else:
        told = [
            f"one run a candidate, {format_duration(seconds)}; {AGREEING} more for the baseline, and one more for each "
            f"of the first {CONFIRMED_KEEPS} that are kept"
        ]
    if manifest.holdout:
        told.append(f"the holdout takes 2 runs at least, {format_duration(2 * seconds)}")
    return "; ".join(told)
