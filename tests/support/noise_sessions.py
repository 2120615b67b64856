"""Sessions of the rule under noise, with the records that they leave."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from records import iteration

from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Metric
from goalseek.phase_values import Evidence, Verdict
from goalseek.records import IterationRecord, MetricResult, Record
from goalseek.statistics.acceptance import AcceptanceRule, NextStep, decide_on_baseline
from goalseek.statistics.noise import NoiseState, representative, values_of
from goalseek.values import VerifierRun, from_plain, to_plain

RULER = "the ruler"


def metric_of(direction: str = "minimize", noise: str = "auto", max_repeats: int = 8, **keys: object) -> Metric:
    return Metric(direction=direction, noise=noise, max_repeats=max_repeats, **keys)  # type: ignore[arg-type]


def runs_of(of: str, *values: float) -> tuple[VerifierRun, ...]:
    return tuple(VerifierRun(of, value, 1, 1.0) for value in values)


def runs_in(words: str) -> tuple[VerifierRun, ...]:
    """``c90`` is a run of the candidate that gives 90, ``i90`` one of the incumbent."""
    sides = {"c": "candidate", "i": "incumbent"}
    return tuple(run for word in words.split() for run in runs_of(sides[word[0]], float(word[1:])))


def record_of(
    number: int, outcome: str, runs: Sequence[VerifierRun], odds: float | None = None, tree: str = "", reason: str = ""
) -> IterationRecord:
    values = values_of(runs, "candidate")
    return iteration(
        number,
        number,
        outcome,
        reason,
        metric=MetricResult("m", "minimize", representative(values) if values else 1.0, None, None, odds),
        runs=tuple(runs),
        tree_hash=tree or f"tree {number}",
        commit_hash=f"commit {number}",
        digests={"ruler": RULER},
    )


def update_noise(state: NoiseState, record: Record) -> NoiseState:
    """The noise that a standing has after a record."""
    return Standing(noise=state).after(record).noise


def baseline_state(*values: float) -> NoiseState:
    return update_noise(NoiseState(), record_of(0, "baseline", runs_of("candidate", *values)))


def next_step(metric: Metric, state: NoiseState, runs: Sequence[VerifierRun], lines_saved: int = 0) -> NextStep:
    return AcceptanceRule(metric, (), {}, state, lines_saved).next_step(Evidence(tuple(runs)))


@dataclass
class Session:
    """A climb whose runs come from ``draw(of)``; what it leaves is the records."""

    terms: Metric
    draw: Callable[[str], float]
    records: list[IterationRecord] = field(default_factory=list)
    rulings: list[Verdict] = field(default_factory=list)
    state: NoiseState = NoiseState()

    def add(self, outcome: str, runs: Sequence[VerifierRun], odds: float | None, reason: str = "") -> None:
        self.records.append(record_of(len(self.records), outcome, runs, odds, reason=reason))
        self.state = update_noise(self.state, self.records[-1])

    def baseline(self) -> None:
        values: list[float] = []
        while decide_on_baseline(self.terms, (), "", Evidence(runs_of("candidate", *values))) == "candidate":
            values.append(self.draw("incumbent"))
        self.add("baseline", runs_of("candidate", *values), None)

    def candidate(self, lines_saved: int = 0) -> list[NextStep]:
        """All answers for one candidate, the last of them the ruling."""
        runs: list[VerifierRun] = []
        answers = [next_step(self.terms, self.state, runs, lines_saved)]
        while not isinstance(answers[-1], Verdict):
            assert len(answers) < 200
            of = answers[-1]
            runs += runs_of(of, self.draw(of))
            answers.append(next_step(self.terms, self.state, runs, lines_saved))
        ruling = answers[-1]
        self.add(ruling.outcome, runs, ruling.odds, ruling.reason)
        self.rulings.append(ruling)
        return answers


def noisy_session(terms: Metric, seed: int, candidates: int, turned: Callable[[float], float] = float) -> Session:
    """Candidates of which some help, on a metric whose sd is 1% of its value; ``turned`` is done to each value."""
    draw, effect = random.Random(seed), 0.0

    def value(of: str) -> float:
        return turned(100.0 * (1 - (effect if of == "candidate" else 0.0)) * (1 + 0.01 * draw.gauss(0, 1)))

    session = Session(terms, value)
    session.baseline()
    for _ in range(candidates):
        effect = draw.choice((0.0, 0.0, 0.01, 0.03, -0.02))
        session.candidate()
    return session


def folded(records: Sequence[IterationRecord]) -> NoiseState:
    state = NoiseState()
    for record in records:
        state = update_noise(state, from_plain(IterationRecord, to_plain(record)))
    return state
