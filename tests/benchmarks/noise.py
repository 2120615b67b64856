"""What the rule under noise reaches on simulated climbs whose truth is known, beside plain keep-if-better.

    python tests/benchmarks/noise.py [--sessions 100] [--seed 1] [--only S2,S3]

A program that scores rules by itself takes the rule from here as ``noise:make``.

Printed for each scenario: greedy, the rule, and the bound that the rule must keep. The unit of gain is one standard
deviation of one run; lower values are better. In S1 no candidate does anything; in S2 15% help, and a proposal costs as
much time as five verifier runs (S2/5) or none (S2/0); S3 are timings, skewed, with outliers and drift, and in S3n
nothing is to be found; S4 is deterministic; S4q is S2/0 with values in steps of one unit. In S6 half of the candidates bring
a spread of their own, half, twice or four times as large, which the incumbent has once they are kept; in S7 the machine is busy
now and then, for 3 to 10 runs that are 1 to 4 units worse; in S8 it is busy for 15 to 60 runs that are 6 units worse, then idle
for as many. In S6n, S7n and S8n nothing is to be found. "settled" is what five fresh pairs claim.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from noise_sessions import Session

from goalseek.manifest.tables import Metric

TERMS = Metric(direction="minimize")
PAIRS = 5
Measure = Callable[[], float]


@dataclass(frozen=True)
class Scenario:
    """How the truth and its noise are drawn; a session ends after so many candidates, or so many runs."""

    helps: float = 0.15
    harms: float = 0.40
    level: float = 300.0
    noise: str = "gaussian"
    step: float = 0.0
    candidates: int | None = None
    runs: int | None = None
    proposal: int = 0
    spreads: tuple[float, ...] = (1.0,)
    busy: float = 0.0
    spells: float = 0.0

    @property
    def unit(self) -> float:
        return 0.03 if self.noise == "timing" else 1.0


SPREADS = (1.0, 1.0, 1.0, 0.5, 2.0, 4.0)
SCENARIOS = {
    "S1-60": Scenario(0, 0, 10.0, candidates=60),
    "S1-300": Scenario(0, 0, 10.0, candidates=300),
    "S2/0": Scenario(runs=300),
    "S2/5": Scenario(runs=1800, proposal=5),
    "S3": Scenario(level=1.0, noise="timing", runs=300),
    "S3n": Scenario(0, 0, 1.0, "timing", candidates=300),
    "S6": Scenario(runs=300, spreads=SPREADS),
    "S6n": Scenario(0, 0, candidates=60, spreads=SPREADS),
    "S7": Scenario(runs=300, busy=0.04),
    "S7n": Scenario(0, 0, candidates=60, busy=0.04),
    "S8": Scenario(runs=300, spells=6.0),
    "S8n": Scenario(0, 0, candidates=60, spells=6.0),
    "S4": Scenario(noise="none", runs=300),
    "S4q": Scenario(step=1.0, runs=300),
}


@dataclass(frozen=True)
class Bound:
    """What the rule must reach; None where nothing is asked."""

    false_most: float | None = None
    share_most: float | None = None
    gain_least: float | None = None
    claim_most: float | None = None
    settled_most: float | None = None
    runs_most: float | None = None

    def __str__(self) -> str:
        named = (("false ≤ ", self.false_most), ("share ≤ ", self.share_most), ("gain ≥ ", self.gain_least))
        more = (("claim ≤ ", self.claim_most), ("settled ±", self.settled_most), ("runs ≤ ", self.runs_most))
        return ", ".join(f"{name}{bound:g}" for name, bound in (*named, *more) if bound is not None)

    def holds(self, cell: Cell) -> bool:
        upper = [(cell.false, self.false_most), (cell.share, self.share_most), (cell.claim, self.claim_most)]
        upper += [(abs(cell.settled), self.settled_most), (cell.runs, self.runs_most)]
        lower = self.gain_least is None or cell.gain >= self.gain_least
        return lower and all(bound is None or value <= bound for value, bound in upper)


BOUNDS = {
    "S1-60": Bound(false_most=0.5, claim_most=10, settled_most=2),
    "S1-300": Bound(false_most=1.0, claim_most=18, settled_most=1),
    "S2/0": Bound(share_most=16, gain_least=27),
    "S2/5": Bound(share_most=16, gain_least=44.5),
    "S3": Bound(share_most=15, gain_least=27),
    "S3n": Bound(false_most=0.9),
    "S6": Bound(share_most=18, gain_least=13),
    "S6n": Bound(false_most=0.45),
    "S7": Bound(gain_least=21),
    "S7n": Bound(false_most=0.4),
    "S8": Bound(share_most=16, gain_least=15),
    "S8n": Bound(false_most=0.4),
    "S4": Bound(runs_most=1.05),
    "S4q": Bound(),
}


class Spent(Exception):
    """The session's verifier runs are spent."""


@dataclass
class Verifier:
    """Measures a true gain, in units, through the scenario's noise, of a code with ``spread`` times its sd."""

    scenario: Scenario
    random: random.Random
    made: int = 0
    allowed: int | None = None
    wander: float = 0.0
    phase: float = 0.0
    busy_runs: int = 0
    busy_by: float = 0.0
    spell_left: int = 0
    is_spell: bool = False

    def measure(self, gain: float, spread: float = 1.0) -> float:
        if self.allowed is not None and self.made >= self.allowed:
            raise Spent
        self.made += 1
        scenario, draw = self.scenario, self.random
        if scenario.noise == "timing":
            self.wander += draw.gauss(0, 0.1)
            turn = 2 * math.pi * self.made / 200
            drift = self.wander + 1.5 * (math.sin(self.phase + turn) - math.sin(self.phase))
            value = scenario.level * math.exp(scenario.unit * (drift - gain))
            value *= 1 + scenario.unit * math.exp(0.8 * draw.gauss(0, 1)) / 1.304
            return value * draw.uniform(1.2, 3) if draw.random() < 0.05 else value
        value = scenario.level - gain + (spread * draw.gauss(0, 1) if scenario.noise == "gaussian" else 0.0)
        value += self.wait_for_others() if scenario.busy else 0.0
        value += self.wait_for_spell() if scenario.spells else 0.0
        return round(value / scenario.step) * scenario.step if scenario.step else value

    def wait_for_others(self) -> float:
        """By how much the next run is worse because the machine is busy."""
        if not self.busy_runs and self.random.random() < self.scenario.busy:
            self.busy_runs, self.busy_by = self.random.randint(3, 10), self.random.uniform(1, 4)
        if not self.busy_runs:
            return 0.0
        self.busy_runs -= 1
        return self.busy_by

    def wait_for_spell(self) -> float:
        """By how much the next run is worse because the machine is busy for long; the first spell is drawn."""
        if not self.spell_left:
            self.is_spell = not self.is_spell if self.made > 1 else self.random.random() < 0.5
            self.spell_left = self.random.randint(15, 60)
        self.spell_left -= 1
        return self.scenario.spells * self.is_spell


class Rule:
    """The rule under test; each answer goes through records, as in a climb."""

    def __init__(self) -> None:
        self.session = Session(TERMS, lambda of: math.nan)

    def __call__(self, candidate: Measure, incumbent: Measure) -> bool:
        self.session.draw = lambda of: incumbent() if of == "incumbent" else candidate()
        if not self.session.records:
            self.session.baseline()
        return bool(self.session.candidate()[-1])

    @property
    def claims(self) -> list[float]:
        baseline = median(run.value for run in self.session.records[0].runs if run.value is not None)
        return [baseline, *(ruling.value for ruling in self.session.rulings if ruling and ruling.value is not None)]


def make() -> Callable[[Measure, Measure, dict[str, float]], bool]:
    """The rule for a program that scores rules; it writes what it claims for baseline and incumbent into ``memory``."""
    rule = Rule()

    def decide(candidate: Measure, incumbent: Measure, memory: dict[str, float]) -> bool:
        kept = rule(candidate, incumbent)
        memory["base"], memory["now"] = rule.claims[0], rule.claims[-1]
        return kept

    return decide


@dataclass
class Greedy:
    claims: list[float] = field(default_factory=list)

    def __call__(self, candidate: Measure, incumbent: Measure) -> bool:
        if not self.claims:
            self.claims = [incumbent()]
        value = candidate()
        better = value < self.claims[-1]
        self.claims += [value] if better else []
        return better


@dataclass(frozen=True)
class Cell:
    """Means of a session: keeps, false ones, their share in percent, gain, claims in percent, runs a candidate."""

    kept: float
    false: float
    gain: float
    claim: float
    settled: float
    runs: float
    decisions: tuple[bool, ...] = ()

    @property
    def share(self) -> float:
        return 100 * self.false / self.kept if self.kept else 0.0

    def __str__(self) -> str:
        return (
            f"{self.kept:6.2f}{self.false:6.2f}{self.share:5.0f}%{self.gain:7.1f}"
            f"{self.claim:7.1f}%{self.settled:7.1f}%{self.runs:6.2f}"
        )


def session(scenario: Scenario, rule: Rule | Greedy, seed: int) -> Cell:
    draw = random.Random(seed)
    verifier = Verifier(scenario, random.Random(seed + 1), allowed=scenario.runs, phase=draw.uniform(0, 2 * math.pi))
    gain, spread, decisions, false = 0.0, 1.0, list[bool](), 0
    while scenario.candidates is None or len(decisions) < scenario.candidates:
        effect, own = effect_of(scenario, draw), draw.choice(scenario.spreads)
        if scenario.runs is not None and decisions:
            verifier.made += scenario.proposal
        truth, before = gain, spread
        try:
            kept = rule(lambda: verifier.measure(truth + effect, own), lambda: verifier.measure(truth, before))  # noqa: B023
        except Spent:
            break
        decisions.append(kept)
        false += kept and effect <= 0
        gain, spread = (gain + effect, own) if kept else (gain, spread)
    claim = 100 * (1 - rule.claims[-1] / rule.claims[0])
    runs = verifier.made / max(len(decisions), 1)
    fresh = replace(verifier, allowed=None)
    pairs = [(fresh.measure(0.0), fresh.measure(gain, spread)) for _ in range(PAIRS if any(decisions) else 0)]
    settled = 100 * (1 - median(new for _, new in pairs) / median(old for old, _ in pairs)) if pairs else 0.0
    return Cell(sum(decisions), false, gain, claim, settled, runs, tuple(decisions))


def effect_of(scenario: Scenario, draw: random.Random) -> float:
    kind = draw.random()
    if kind < scenario.helps:
        return draw.uniform(0.25, 3.0)
    return -draw.uniform(0.25, 4.0) if kind < scenario.helps + scenario.harms else 0.0


def cell(scenario: Scenario, make: Callable[[], Rule | Greedy], sessions: int, seed: int) -> Cell:
    """The mean of so many sessions; session i has the seed ``seed + 10007 i``."""
    made = [session(scenario, make(), seed + 10007 * place) for place in range(sessions)]
    names = ("kept", "false", "gain", "claim", "settled", "runs")
    return Cell(*(fmean(getattr(one, name) for one in made) for name in names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="scenarios, by the beginning of their names")
    options = parser.parse_args()
    only = tuple(filter(None, options.only.split(",")))
    print(f"{'':8}{'':8}  kept false share   gain   claim settled  runs")
    for name, scenario in SCENARIOS.items():
        if only and not name.startswith(only):
            continue
        print(f"{name:8}{'greedy':8}{cell(scenario, Greedy, options.sessions, options.seed)}")
        reached = cell(scenario, Rule, options.sessions, options.seed)
        held = "" if BOUNDS[name].holds(reached) else "   MISSED"
        print(f"{'':8}{'rule':8}{reached}   {BOUNDS[name]}{held}", flush=True)


if __name__ == "__main__":
    main()
