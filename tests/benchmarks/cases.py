"""What the rule on cases reaches on simulated climbs whose truth is known, beside plain keep-if-better.

    python tests/benchmarks/cases.py [--sessions 60] [--seed 1] [--only B200,N]

A program that scores rules by itself takes the rule from here as ``cases:make``.

Printed for each scenario: greedy, the rule, and the bound that the rule must keep. Higher scores are better; gains are
in points, hundredths of a score. B has scores of 0 and 1, G graded ones between, H heavy-tailed ones; the number is
that of the cases. f5, f20: an answer flips with 5 or 20% each time (graded and heavy ones are drawn anew with twice
that); M: 2% of the asked cases get no score; +p: a proposal costs as much as half a run of all cases. 15% of the
candidates help and 40% harm, and a session ends after 100 full runs, or 150 with +p; in N none does anything, and it
ends after 300 candidates. Of 1,000 cases there are two fifths of the sessions.

"false" are keeps whose true effect on all cases that there could be is not positive, "harm" those below 0. "gain" is
true, "set" is that on the cases of the set, "claim" that of the records. "cost" is of a decision, in full runs.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from case_sessions import CaseSession

FRAGILE = 0.3  # of the cases
ROUNDING = 1e-12
PRONENESS = (0.5, 0.65 / 0.3)  # to change, of a sturdy case and of a fragile one; 1 in the mean
Measure = Callable[[Sequence[int]], Mapping[int, float]]
Memory = dict[str, float]
Rule = Callable[[Measure, Measure, Sequence[int], Memory], bool]


@dataclass(frozen=True)
class Scenario:
    """How the truth and its noise are drawn; a session ends after so many candidates, or so many full runs."""

    cases: int = 200
    scores: str = "binary"
    flips: float = 0.0
    helps: float = 0.15
    nothing: float = 0.45
    inert: float = 0.2
    level: float = 0.65
    missing: float = 0.0
    proposal: float = 0.0
    runs: int | None = 100
    candidates: int | None = None

    @property
    def contrast(self) -> float:
        """By how much a measured mean moves if the true one moves by 1."""
        return 1 - 2 * self.flips if self.scores == "binary" else 1.0


def nothing_to_find(scores: str = "binary", flips: float = 0.0, level: float = 0.65) -> Scenario:
    return Scenario(200, scores, flips, 0.0, 1.0, level=level, runs=None, candidates=300)


SCENARIOS = {
    "B50": Scenario(50),
    "B200": Scenario(),
    "B200f5": Scenario(flips=0.05),
    "B200f20": Scenario(flips=0.2),
    "B1000": Scenario(1000),
    "B1000f5": Scenario(1000, flips=0.05),
    "B200+p": Scenario(proposal=0.5, runs=150),
    "G200": Scenario(scores="graded"),
    "G200f20": Scenario(scores="graded", flips=0.2),
    "H200": Scenario(scores="heavy", level=0.5),
    "M200f5": Scenario(flips=0.05, missing=0.02),
    "N200": nothing_to_find(),
    "N200f20": nothing_to_find(flips=0.2),
    "NH200": nothing_to_find("heavy", level=0.5),
}


@dataclass(frozen=True)
class Bound:
    """What the rule must reach; None where nothing is asked."""

    cost_most: float
    gain_least: float | None = None
    share_most: float | None = None
    false_most: float | None = None

    def __str__(self) -> str:
        named = (("gain ≥ ", self.gain_least), ("share ≤ ", self.share_most), ("false ≤ ", self.false_most))
        return ", ".join(
            f"{name}{bound:g}" for name, bound in (*named, ("cost ≤ ", self.cost_most)) if bound is not None
        )

    def holds(self, cell: Cell) -> bool:
        upper = ((cell.share, self.share_most), (cell.false, self.false_most), (cell.cost, self.cost_most))
        lower = self.gain_least is None or cell.gain >= self.gain_least
        return lower and all(bound is None or value <= bound for value, bound in upper)


DETERMINISTIC, NOISY = 0.33, 0.50
BOUNDS = {
    "B50": Bound(DETERMINISTIC, 5.3, 50),
    "B200": Bound(DETERMINISTIC, 16.4, 21),
    "B200f5": Bound(NOISY, 9.7, 32),
    "B200f20": Bound(NOISY, 6.5, 36),
    "B1000": Bound(DETERMINISTIC, 24, 12),
    "B1000f5": Bound(NOISY, 19.2, 17),
    "B200+p": Bound(DETERMINISTIC, 12.8, 22),
    "G200": Bound(DETERMINISTIC, 21, 18),
    "G200f20": Bound(NOISY, 16, 18),
    "H200": Bound(DETERMINISTIC, 9.5, 39),
    "M200f5": Bound(NOISY, 9.7, 31),
    "N200": Bound(DETERMINISTIC, false_most=2.4),
    "N200f20": Bound(NOISY, false_most=2.2),
    "NH200": Bound(DETERMINISTIC, false_most=2.5),
}


class Spent(Exception):
    """The session's runs are spent."""


class World:
    """The incumbent, a candidate that changes some of its answers, and the verifier.

    A candidate changes the answer to a case of kind k with a probability: if the scores are binary, ``odds[k]`` are of
    mending a wrong answer and of breaking a right one; else, of a new answer, and its mean. ``means`` are those of the
    answers to all cases that there could be, by kind; the set's cases are a draw of these, and so is each change.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario, self.asked, self.effect = scenario, 0.0, 0.0
        self.random, self.noise = random.Random(f"{seed} truth"), random.Random(f"{seed} noise")
        self.kinds = [int(self.random.random() < FRAGILE) for _ in range(scenario.cases)]
        self.means = self.next_means = (scenario.level, scenario.level)
        self.answers = [self.draw(scenario.level) for _ in self.kinds]
        self.changes: list[float] = []

    @property
    def value(self) -> float:
        return self.measured_mean(self.means)

    @property
    def value_of_set(self) -> float:
        return self.scenario.contrast * fmean(self.answers)

    def measured_mean(self, means: tuple[float, float]) -> float:
        contrast = self.scenario.contrast
        return contrast * over_kinds(means) + (1 - contrast) / 2

    def draw(self, level: float) -> float:
        if self.scenario.scores == "binary":
            return float(self.random.random() < level)
        if self.scenario.scores == "graded":
            return min(0.995, max(0.005, self.random.betavariate(2 * level, 2 - 2 * level)))
        return level * self.random.lognormvariate(-0.5, 1.0)

    def propose(self) -> None:
        scenario, draw = self.scenario, self.random
        lot, size = draw.random(), math.exp(draw.uniform(math.log(0.005), math.log(0.08)))
        does_nothing = scenario.helps <= lot < scenario.helps + scenario.nothing
        effect = 0.0 if does_nothing else size if lot < scenario.helps else -size
        churn = draw.uniform(0.03, 0.15)
        if does_nothing and draw.random() < scenario.inert:
            churn = 0.0
        odds = self.odds_of_mending(effect, churn) if scenario.scores == "binary" else self.odds_of_new(effect, churn)
        if scenario.scores == "binary":
            pairs = zip(self.means, odds, strict=True)
            after = [mean + mends * (1 - mean) - breaks * mean for mean, (mends, breaks) in pairs]
        else:
            after = [mean + rate * (new - mean) for mean, (rate, new) in zip(self.means, odds, strict=True)]
        self.next_means = (after[0], after[1])
        effect = self.measured_mean(self.next_means) - self.value
        self.effect = effect if abs(effect) > ROUNDING else 0.0
        self.changes = [self.change(answer, *odds[kind]) for answer, kind in zip(self.answers, self.kinds, strict=True)]

    def odds_of_mending(self, effect: float, churn: float) -> list[tuple[float, float]]:
        """A gain shrinks with what is left to gain. The effect is on measured scores, so that of the truth is larger."""
        left = (1 - over_kinds(self.means)) / (1 - self.scenario.level)
        effect *= min(1.0, left) if effect > 0 else 1.0
        effect /= self.scenario.contrast
        churn = max(churn, 1.25 * abs(effect))
        wrong, right = (
            over_kinds(tuple(prone * part for prone, part in zip(PRONENESS, parts, strict=True)))
            for parts in ([1 - mean for mean in self.means], self.means)
        )
        mends, breaks = (churn + effect) / 2 / max(wrong, 1e-9), (churn - effect) / 2 / max(right, 1e-9)
        return [(min(1.0, prone * mends), min(1.0, prone * breaks)) for prone in PRONENESS]

    def odds_of_new(self, effect: float, churn: float) -> list[tuple[float, float]]:
        rate = max(2 * churn, abs(effect) / 0.35)
        shift = effect / rate if rate else 0.0
        most = 0.97 if self.scenario.scores == "graded" else math.inf
        return [
            (min(1.0, prone * rate), min(most, max(0.03, mean + shift)))
            for prone, mean in zip(PRONENESS, self.means, strict=True)
        ]

    def change(self, answer: float, first: float, second: float) -> float:
        if self.scenario.scores == "binary":
            return 1 - answer if self.random.random() < (second if answer else first) else answer
        return self.draw(second) if self.random.random() < first else answer

    def keep(self) -> None:
        self.answers, self.means = self.changes, self.next_means

    def measure(self, answers: Sequence[float], cases: Sequence[int]) -> dict[int, float]:
        scenario, draw = self.scenario, self.noise
        if scenario.runs is not None and self.asked + len(cases) > scenario.runs * scenario.cases:
            raise Spent
        self.asked += len(cases)
        return {case: self.score(answers[case]) for case in cases if draw.random() >= scenario.missing}

    def score(self, answer: float) -> float:
        flips, draw = self.scenario.flips, self.noise
        if self.scenario.scores == "binary":
            return 1 - answer if draw.random() < flips else answer
        if draw.random() >= 2 * flips:
            return answer
        if self.scenario.scores == "graded":
            return draw.betavariate(2 * answer, 2 - 2 * answer)
        return answer * draw.lognormvariate(-0.125, 0.5)

    def candidate(self, cases: Sequence[int]) -> dict[int, float]:
        return self.measure(self.changes, cases)

    def incumbent(self, cases: Sequence[int]) -> dict[int, float]:
        return self.measure(self.answers, cases)


def over_kinds(values: Sequence[float]) -> float:
    sturdy, fragile = values
    return (1 - FRAGILE) * sturdy + FRAGILE * fragile


def make() -> Rule:
    """The rule under test; each answer goes through records, as in a climb.

    What it claims for baseline and incumbent is in ``memory``.
    """
    session = CaseSession(lambda side, cases: {}, 0)

    def decide(candidate: Measure, incumbent: Measure, cases: Sequence[int], memory: Memory) -> bool:
        def verifier(side: str, places: Sequence[int]) -> dict[int, float]:
            scores = (incumbent if side == "incumbent" else candidate)([cases[place] for place in places])
            return {place: scores[cases[place]] for place in places if cases[place] in scores}

        session.verifier = verifier
        if not session.records:
            session.count = len(cases)
            session.baseline()
            memory["base"] = memory["now"] = session.verdicts[0].value or 0.0
        verdict = session.candidate()[-1]
        if verdict:
            memory["now"] = session.verdicts[-1].value or 0.0
        return bool(verdict)

    return decide


def make_greedy() -> Rule:
    """Keeps if the mean of one full run is better."""

    def decide(candidate: Measure, incumbent: Measure, cases: Sequence[int], memory: Memory) -> bool:
        if not memory:
            memory["base"] = memory["now"] = fmean(incumbent(cases).values())
        value = fmean(candidate(cases).values())
        is_better = value > memory["now"]
        memory["now"] = max(value, memory["now"])
        return is_better

    return decide


@dataclass(frozen=True)
class Cell:
    """Means of a session: keeps, false and harmful ones, gains in points, the cost of a decision in full runs."""

    tried: float
    kept: float
    false: float
    harm: float
    gain: float
    of_set: float
    claim: float
    cost: float
    error: float = 0.0  # the standard one of ``gain``

    @property
    def share(self) -> float:
        return 100 * self.false / self.kept if self.kept else 0.0

    def __str__(self) -> str:
        return (
            f"{self.tried:6.0f}{self.kept:7.2f}{self.false:7.2f}{self.share:5.0f}%{self.harm:6.2f}"
            f"{self.gain:7.2f} ±{self.error:4.2f}{self.of_set:7.1f}{self.claim:7.1f}{self.cost:6.2f}"
        )


def session(scenario: Scenario, rule: Rule, seed: int) -> Cell:
    world, cases, memory = World(scenario, seed), list(range(scenario.cases)), Memory()
    value, of_set, effects, tried = world.value, world.value_of_set, list[float](), 0
    while scenario.candidates is None or tried < scenario.candidates:
        world.propose()
        if tried:
            world.asked += scenario.proposal * scenario.cases
        try:
            is_kept = rule(world.candidate, world.incumbent, cases, memory)
        except Spent:
            break
        tried += 1
        if is_kept:
            effects.append(world.effect)
            world.keep()
    gains = (world.value - value, world.value_of_set - of_set, memory["now"] - memory["base"])
    cost = world.asked / scenario.cases / tried - scenario.proposal * (tried - 1) / tried
    false, harm = sum(effect <= 0 for effect in effects), sum(effect < 0 for effect in effects)
    return Cell(tried, len(effects), false, harm, *(100 * gain for gain in gains), cost)


def cell(scenario: Scenario, make: Callable[[], Rule], sessions: int, seed: int) -> Cell:
    """The mean of so many sessions; session i has the seed ``seed + 10007 i``."""
    made = [session(scenario, make(), seed + 10007 * place) for place in range(sessions)]
    names = ("tried", "kept", "false", "harm", "gain", "of_set", "claim", "cost")
    error = stdev(one.gain for one in made) / math.sqrt(sessions) if sessions > 1 else 0.0
    return Cell(*(fmean(getattr(one, name) for one in made) for name in names), error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="scenarios, by the beginning of their names")
    options = parser.parse_args()
    only = tuple(filter(None, options.only.split(",")))
    print(f"{'':8}{'':8} tried   kept  false share  harm   gain          set  claim  cost")
    for name, scenario in SCENARIOS.items():
        if only and not name.startswith(only):
            continue
        sessions = options.sessions * 2 // 5 if scenario.cases >= 1000 else options.sessions
        print(f"{name:8}{'greedy':8}{cell(scenario, make_greedy, sessions, options.seed)}", flush=True)
        reached = cell(scenario, make, sessions, options.seed)
        held = "" if BOUNDS[name].holds(reached) else "   MISSED"
        print(f"{'':8}{'rule':8}{reached}   {BOUNDS[name]}{held}", flush=True)


if __name__ == "__main__":
    main()
