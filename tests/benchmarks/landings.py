"""Whether what lands of several at once is as honest as with one: simulated climbs in which winners spoil each other.

    python tests/benchmarks/landings.py [--climbs 200] [--decided 60] [--seed 1]

The rule is the product's, by its records, and so is what the queue does: a candidate is merged onto the tip when a
bench is free for it, and measured against that. If another one has landed by the time it has won, it is merged onto the
new tip and measured again from nothing, three times at most; only the last measurement decides. 15% of the candidates
help, 40% harm, the others do nothing, in units of one standard deviation of one run. Whatever lands spoils each helpful
change that was proposed before it with a chance of 15%: on the tip that change harms.

Printed is how many landed changes are truly no better than the tip they landed on: with one agent and one bench, with four
of each, and with four of each that land as they were measured. A number that is exact must have none of them, a noisy
one no more with four than with one, within two standard errors. Then: what lands in the same time with one bench for
so many agents, a proposal taking as long as two runs.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev

from msgspec import structs

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from noise_sessions import next_step, record_of, runs_of

from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Metric, Parallel
from goalseek.phase_values import Evidence, Verdict
from goalseek.statistics.acceptance import decide_on_baseline
from goalseek.values import Outcome, Reason, VerifierRun

METRIC = Metric(direction="minimize")
MOST_ROUNDS = Parallel().landings
LEVEL = 300.0
PROPOSAL = 2  # runs of the verifier


@dataclass
class Candidate:
    """A change: by how much it helps on the tip that it stands on, and what is known of it there."""

    number: int
    gain: float
    landed_before: int
    standing: Standing = field(default_factory=Standing)
    truth: float = 0.0
    runs: list[VerifierRun] = field(default_factory=list)
    rounds: int = 0


@dataclass
class Climb:
    """A climb of so many agents and benches; ``landed`` are the true gains of what landed, on the tip of then."""

    draw: random.Random
    agents: int
    benches: int
    sd: float
    spoil: float = 0.15
    is_again: bool = True
    landed: list[float] = field(default_factory=list)
    decided: int = 0
    again: int = 0
    outrun: int = 0
    truth: float = 0.0
    standing: Standing = field(default_factory=Standing)
    begun: int = 0

    def run(self, decided: int | None = None, ticks: int | None = None) -> Climb:
        """Climbs until so many candidates are decided, or for so many runs of the verifier by the clock."""
        self._measure_baseline()
        proposals = [(self._propose(), self._duration()) for _ in range(self.agents)]
        waiting: list[Candidate] = []
        measured: list[Candidate] = []
        tick = 0
        while self.decided < decided if decided is not None else tick < (ticks or 0):
            tick += 1
            for candidate in sorted(measured, key=lambda one: one.number):
                if self._measure(candidate):
                    measured.remove(candidate)
                    if candidate.rounds:
                        waiting.append(candidate)
            if not (self.is_alone and measured):  # alone an agent waits for the verdict, and knows the tip
                proposals = [(candidate, left - 1) for candidate, left in proposals]
            done = [candidate for candidate, left in proposals if left <= 0]  # each holds its slot until it has a bench
            for candidate in sorted([*waiting, *done], key=lambda one: one.number)[: self.benches - len(measured)]:
                self._move(candidate)
                measured.append(candidate)
                if candidate in waiting:
                    waiting.remove(candidate)
                else:
                    (index,) = (index for index, (one, _) in enumerate(proposals) if one is candidate)
                    proposals[index] = (self._propose(), self._duration())
        return self

    @property
    def is_alone(self) -> bool:
        return self.agents == self.benches == 1

    def _measure_baseline(self) -> None:
        values: list[float] = []
        while decide_on_baseline(METRIC, (), "", Evidence(runs_of("candidate", *values))) == "candidate":
            values.append(self._value(0.0))
        self.standing = Standing().after(record_of(0, "baseline", runs_of("candidate", *values)))

    def _propose(self) -> Candidate:
        self.begun += 1
        kind = self.draw.random()
        gain = self.draw.uniform(0.25, 3.0) if kind < 0.15 else -self.draw.uniform(0.25, 4.0) if kind < 0.55 else 0.0
        return Candidate(self.begun, gain, len(self.landed))

    def _duration(self) -> int:
        return self.draw.randint(1, 2 * PROPOSAL - 1)

    def _value(self, truth: float) -> float:
        return LEVEL - truth + self.draw.gauss(0, self.sd)

    def _move(self, candidate: Candidate) -> None:
        """Merges it onto the tip, where it is measured from nothing."""
        if self.is_alone:
            candidate.landed_before = len(self.landed)
        self._spoil(candidate)
        candidate.standing, candidate.truth, candidate.runs = self.standing, self.truth, []

    def _spoil(self, candidate: Candidate) -> None:
        """What has landed since it was proposed, or moved, may have spoiled it."""
        since, candidate.landed_before = len(self.landed) - candidate.landed_before, len(self.landed)
        if candidate.gain > 0 and any(self.draw.random() < self.spoil for _ in range(since)):
            candidate.gain = -self.draw.uniform(0.25, 4.0)

    def _measure(self, candidate: Candidate) -> bool:
        """One more run for it; whether it leaves the bench then. ``rounds`` stays 0 where it is decided."""
        step = next_step(METRIC, candidate.standing.noise, candidate.runs)
        if not isinstance(step, Verdict):
            truth = candidate.truth + (candidate.gain if step == "candidate" else 0.0)
            candidate.runs += runs_of(step, self._value(truth))
            step = next_step(METRIC, candidate.standing.noise, candidate.runs)
        if not isinstance(step, Verdict):
            return False
        is_outdated = candidate.landed_before < len(self.landed)
        if step and is_outdated and self.is_again:
            candidate.rounds += 1
            if candidate.rounds < MOST_ROUNDS:
                self.again += 1
                return True
            self.outrun += 1
            step = Verdict(Outcome.REVERTED, Reason.OUTRUN, "")
        self._decide(candidate, step)
        return True

    def _decide(self, candidate: Candidate, verdict: Verdict) -> None:
        candidate.rounds = 0
        self.decided += 1
        if verdict:
            self._spoil(candidate)  # nothing where the tip is its own
            self.landed.append(candidate.gain)
            self.truth += candidate.gain
        assert candidate.standing.incumbent
        record = record_of(candidate.number, verdict.outcome, candidate.runs, verdict.odds, reason=verdict.reason)
        self.standing = self.standing.after(
            structs.replace(
                record, base_commit_hash=candidate.standing.incumbent.commit, benches=self.benches, host="here"
            )
        )


@dataclass(frozen=True)
class Share:
    """The share of those that are truly no better than the tip, among what landed in some climbs."""

    value: float
    error: float

    @classmethod
    def of(cls, climbs: Sequence[Climb]) -> Share:
        """Each climb is one draw: what lands in it is not independent."""
        landed = sum(len(climb.landed) for climb in climbs)
        false = [sum(gain <= 0 for gain in climb.landed) for climb in climbs]
        share = sum(false) / landed
        rest = [count - share * len(climb.landed) for count, climb in zip(false, climbs, strict=True)]
        return cls(share, math.sqrt(sum(one * one for one in rest)) / landed)


ARMS = {
    "one of each": (1, 1, True),
    "four of each": (4, 4, True),
    "four, landing as measured": (4, 4, False),
}


def compare(sd: float, climbs: int, decided: int, seed: int) -> dict[str, list[Climb]]:
    """The climbs of each arm; climb i has the same seed in all of them."""
    return {
        name: [
            Climb(random.Random(seed + 7919 * number), agents, benches, sd, is_again=is_again).run(decided)
            for number in range(climbs)
        ]
        for name, (agents, benches, is_again) in ARMS.items()
    }


def is_honest(sd: float, one: Share, four: Share) -> bool:
    """Whether four of each land no more that is no better than one of each does."""
    if not sd:
        return four.value == 0
    return four.value - one.value <= 2 * math.hypot(one.error, four.error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--climbs", type=int, default=200)
    parser.add_argument("--decided", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name, sd in (("exact", 0.0), ("noisy", 1.0)):
        print(f"{name:<28} landed  no better      again  outrun   gain")
        shares = {}
        for arm, climbs in compare(sd, options.climbs, options.decided, options.seed).items():
            share = shares[arm] = Share.of(climbs)
            landed, again, outrun, gain = (
                fmean(values)
                for values in zip(*((len(one.landed), one.again, one.outrun, one.truth) for one in climbs), strict=True)
            )
            false = f"{100 * share.value:5.2f} ± {100 * share.error:.2f}%"
            print(f"  {arm:<26} {landed:6.2f} {false:>15} {again:6.2f} {outrun:7.3f} {gain:6.1f}", flush=True)
        one, four = shares["one of each"], shares["four of each"]
        words = "honest" if is_honest(sd, one, four) else "NOT HONEST"
        difference, error = four.value - one.value, math.hypot(one.error, four.error)
        print(f"  {words}: four land {100 * difference:+.2f} ± {100 * error:.2f}% more that is no better than one does")
    print("agents on one bench, 300 runs    landed          gain")
    for agents in (1, 2, 4, 8, 16):
        made = [
            Climb(random.Random(options.seed + 7919 * number), agents, 1, 1.0).run(ticks=300)
            for number in range(options.climbs)
        ]
        figures = ([float(len(one.landed)) for one in made], [one.truth for one in made])
        landed, gain = (f"{fmean(each):6.2f} ± {stdev(each) / len(each) ** 0.5:.2f}" for each in figures)
        print(f"  {agents:<26} {landed:>10} {gain:>14}", flush=True)


if __name__ == "__main__":
    main()
