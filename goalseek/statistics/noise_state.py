"""Noise state: what the sequential test knows of the noise and the incumbent. Folded from records, of bounded size."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from goalseek.humanize import better_or_worse, format_duration, format_gain
from goalseek.manifest.tables import Manifest
from goalseek.records import IterationRecord
from goalseek.statistics.scale import Pair, scale_of, spread, successive_pairs
from goalseek.values import Number, Outcome, Reason, VerifierRun

MAX_BASELINE_RUNS = 5
AGREEING_REPEATS = 2
CONFIRMED_KEEPS = 2
MAX_PAIRS = 200
MAX_INCUMBENT_RUNS = 8
OPENING_RUNS = 5
DRIFT_LIMIT = 3.0  # sd; the difference of two medians of five has an sd of about 0.76


class TimedRun(Struct, frozen=True):
    """One run that gave a value; ``at`` counts the verifier runs of this epoch up to and with it."""

    value: Number
    at: int


Setting = tuple[int | None, str | None]  # how many benches measure at once, on which host; None, None for a single one


def setting_of(benches: int | None, host: str | None) -> Setting:
    return (None, None) if benches in (None, 1) else (benches, host)


class NoiseState(Struct, frozen=True):
    """What is known of the noise under one ruler, and of the incumbent.

    ``clock`` counts verifier runs. ``pairs`` are the last 200 pairs of successive repeats of the same code, values as
    measured. ``incumbent`` are the incumbent's last eight runs, never its lucky first one; ``opening`` are the first
    five made after it was kept, ``incumbent_runs`` counts those made since. ``value`` is the one in the incumbent's
    record: everything shows this one for it, and it stays the same while ``incumbent`` grows.
    ``agreed`` counts repeats that gave the same value to the last bit, ``differed`` says whether one ever did not,
    ``confirmed`` counts keeps that were run again and agreed. ``tested`` counts the candidates for which the rule
    gave odds, ``kept`` those among them that it kept. ``pairs`` and the incumbent's runs are all of one setting.
    """

    clock: int = 0
    all_positive: bool = True
    pairs: tuple[Pair, ...] = ()
    incumbent: tuple[TimedRun, ...] = ()
    opening: tuple[Number, ...] = ()
    incumbent_runs: int = 0
    value: Number | None = None
    agreed: int = 0
    differed: bool = False
    confirmed: int = 0
    kept: int = 0
    tested: int = 0
    tree: str = ""
    ruler: str = ""
    benches: int | None = None
    host: str | None = None

    @property
    def setting(self) -> Setting:
        return self.benches, self.host

    def under(self, setting: Setting) -> NoiseState:
        """What of it counts under this setting: under another one neither level nor spread need be the same."""
        if setting == self.setting:
            return self
        benches, host = setting
        return structs.replace(self, benches=benches, host=host, pairs=(), incumbent=(), opening=(), incumbent_runs=0)

    def after_iteration(self, record: IterationRecord, incumbent: str | None) -> NoiseState:
        """With a recorded iteration; a baseline begins anew. ``incumbent`` is the commit of the incumbent before it.

        The runs of a candidate that fixed its seed count as another tree's; and those of the incumbent, if the
        candidate was begun before the last keep and was measured against an older one.
        """
        runs: Sequence[VerifierRun] = record.runs
        others = {"candidate"} if record.reason == Reason.SEED_FIXED else set[str]()
        if incumbent is not None and record.base_commit_hash not in (None, incumbent):
            others.add("incumbent")
        if others:
            runs = [VerifierRun("other" if run.of in others else run.of, run.value, 0, 0.0) for run in runs]
        setting, outcome = setting_of(record.benches, record.host), record.outcome
        if outcome == Outcome.BASELINE:
            state = NoiseState().with_runs([VerifierRun("incumbent", run.value, 0, 0.0) for run in runs])
            state = structs.replace(state, benches=setting[0], host=setting[1])
        else:
            before = self.under(setting) if runs else self
            state, is_kept = before.with_runs(runs), outcome == Outcome.KEPT
            if record.metric.odds is not None:
                state = structs.replace(state, tested=before.tested + 1, kept=before.kept + is_kept)
            if is_kept and (own := timed_runs(before.clock, runs, "candidate")):
                confirmed = before.confirmed + (len(own) > 1 and not state.differed)
                state = structs.replace(state, opening=(), incumbent_runs=0, confirmed=confirmed)
                state = structs.replace(state, incumbent=own[1:][-MAX_INCUMBENT_RUNS:])
        if outcome not in (Outcome.BASELINE, Outcome.KEPT):
            return state
        ruler = record.digests.get("ruler", self.ruler)
        return structs.replace(state, value=record.metric.value, tree=record.tree_hash or "", ruler=ruler)

    def after_measurement(self, value: float, code: tuple[str, str]) -> NoiseState:
        """With a run outside an iteration, made alone, which is a repeat if it ran the incumbent's code."""
        is_repeat = code == (self.tree, self.ruler) and self.setting == (None, None)
        side = "incumbent" if is_repeat else "other"
        return self.with_runs((VerifierRun(side, value, 0, 0.0),))

    def with_runs(self, runs: Sequence[VerifierRun]) -> NoiseState:
        """With more runs of the incumbent, of a candidate or of another tree, whatever their verdict.

        Where repeats differ for the first time, the incumbent's runs and differences from before are forgotten: they
        are of a metric that seemed not to move.
        """
        if not runs:
            return self
        fresh = timed_runs(self.clock, runs, "incumbent")
        repeats = repeats_of(self, runs) if fresh or len(runs) > 1 else ()
        agreed = sum([before == after for before, after in repeats])
        has_difference = agreed < len(repeats)
        state = self
        if has_difference and not self.differed:
            state = structs.replace(self, incumbent=(), opening=(), incumbent_runs=0, pairs=(), differed=True)
        return structs.replace(
            state,
            clock=self.clock + len(runs),
            all_positive=self.all_positive and all(run.value is None or run.value > 0 for run in runs),
            pairs=(state.pairs + (repeats if state is self else repeats_of(state, runs)))[-MAX_PAIRS:],
            incumbent=(state.incumbent + fresh)[-MAX_INCUMBENT_RUNS:],
            opening=(state.opening + tuple([run.value for run in fresh]))[:OPENING_RUNS],
            incumbent_runs=state.incumbent_runs + len(fresh),
            agreed=self.agreed + agreed,
            differed=self.differed or has_difference,
        )


def values_of(runs: Sequence[VerifierRun], side: str) -> list[float]:
    """The values of the candidate's or the incumbent's runs that have one, in their order."""
    return [run.value for run in runs if run.of == side and run.value is not None]


def timed_runs(clock: int, runs: Sequence[VerifierRun], side: str) -> tuple[TimedRun, ...]:
    """The candidate's or the incumbent's runs that have a value, numbered on from ``clock``."""
    numbered = enumerate(runs, clock + 1)
    return tuple([TimedRun(run.value, at) for at, run in numbered if run.of == side and run.value is not None])


def repeats_of(state: NoiseState, runs: Sequence[VerifierRun]) -> tuple[Pair, ...]:
    """The successive repeats of the same code among ``runs``; of the incumbent, its last run before them too.

    Where the incumbent has no run that counts, its ``value`` is taken for one until repeats have differed.
    """
    last = [run.value for run in state.incumbent[-1:]]
    if not last and not state.differed and state.value is not None:
        last = [state.value]
    return successive_pairs(last + values_of(runs, "incumbent")) + successive_pairs(values_of(runs, "candidate"))


def drift_warning(direction: str, state: NoiseState) -> str | None:
    """One sentence where the incumbent's last five runs are not where its first five were; None where they are.

    The two sets of five share no run with each other, nor with the runs for which it was kept.
    """
    if state.incumbent_runs < 2 * OPENING_RUNS:
        return None
    scale = scale_of(direction, state.all_positive)
    sd = spread(scale, state.pairs)
    then, now = scale.middle(state.opening), scale.middle([run.value for run in state.incumbent[-OPENING_RUNS:]])
    if abs(scale.x(then) - scale.x(now)) <= DRIFT_LIMIT * sd:
        return None
    gain = scale.better_by(now, then)
    shift = f"{format_gain(gain, then, scale.logarithmic)} {better_or_worse(gain)}"
    return f"the incumbent measures {shift} than when it was kept, with the same code: the machine or the data changed"


def cost_of_deciding(manifest: Manifest, is_noisy: bool, seconds: float) -> str:
    """One sentence; ``seconds`` are what one measurement takes, ``is_noisy`` whether the same code gave two values."""
    metric = manifest.metric
    if metric.noise == "none":
        sentences = [f"one run a candidate, {format_duration(seconds)}, decided by plain comparison"]
    elif is_noisy or metric.noise == "always":
        limit = metric.max_repeats + MAX_INCUMBENT_RUNS
        sentences = [
            f"a candidate takes 1 run where the first is worse, {format_duration(seconds)}, and up to {limit} where it "
            f"is not, {format_duration(limit * seconds)}; the baseline {MAX_BASELINE_RUNS}"
        ]
        if metric.settle:
            runs = 2 * metric.settle
            sentences.append(f"settling in the end takes {runs} runs, {format_duration(runs * seconds)}")
    else:
        sentences = [
            f"each candidate is run once, {format_duration(seconds)}; the baseline is run {AGREEING_REPEATS + 1} "
            f"times, and the first {CONFIRMED_KEEPS} kept changes twice"
        ]
    if manifest.holdout:
        sentences.append(f"the holdout takes 2 runs at least, {format_duration(2 * seconds)}")
    return "; ".join(sentences)
