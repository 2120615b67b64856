"""Climbs on cases: what the rule asks goes to a verifier, and each decision through a record, as in a climb."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace
from noise_sessions import record_of, update_noise

from goalseek.case_scores import CaseScores
from goalseek.manifest.tables import Metric
from goalseek.phase_values import Evidence, Verdict
from goalseek.records import IterationRecord, MetricResult
from goalseek.statistics.acceptance import AcceptanceRule, NextStep, decide_on_baseline
from goalseek.statistics.cases import Ask, CaseState, mean, order_of
from goalseek.statistics.noise import NoiseState
from goalseek.values import VerifierRun

Scores = Mapping[int, float | None]  # by case; one without a score has None or is left out
Verifier = Callable[[str, Sequence[int]], Scores]  # of a side, on cases; may have more of them than it was asked for


def metric_of(direction: str = "maximize", **keys: object) -> Metric:
    return Metric(direction=direction, cases="cases", **keys)  # type: ignore[arg-type]


def case_run(of: str, scores: Scores, seed: int = 1, start: float = 0.0) -> VerifierRun:
    """It took ``start`` seconds, and one more for each case."""
    present = [score for score in scores.values() if score is not None]
    value = mean(present) if present else None
    return VerifierRun(of, value, seed, start + len(scores), CaseScores.of(scores))


def next_step(
    metric: Metric, state: NoiseState, order: Sequence[int], runs: Sequence[VerifierRun], lines_saved: int = 0
) -> NextStep:
    return AcceptanceRule(metric, (), {}, state, lines_saved, tuple(order)).next_step(Evidence(tuple(runs)))


@dataclass
class CaseSession:
    """A climb on ``count`` cases; what it leaves is the records. A case without a score is asked once more at once."""

    verifier: Verifier
    count: int
    metric: Metric = field(default_factory=metric_of)
    start: float = 0.0
    records: list[IterationRecord] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    state: NoiseState = NoiseState()

    @property
    def cases(self) -> CaseState:
        assert self.state.cases
        return self.state.cases

    @property
    def order(self) -> tuple[int, ...]:
        """That of the next candidate's race."""
        return order_of(self.count, self.seed(0))

    def baseline(self) -> None:
        evidence, ids = Evidence(), tuple(f"case {case}" for case in range(self.count))
        while not isinstance(step := decide_on_baseline(self.metric, (), "", evidence), Verdict):
            cases = step.cases if isinstance(step, Ask) else range(self.count)
            run = replace(self.run("incumbent", cases, len(evidence.runs)), of="candidate")
            evidence = evidence.plus(Evidence((run,), case_ids=ids))
        self.add(step, evidence.runs, ids)

    def candidate(self, lines_saved: int = 0) -> list[NextStep]:
        """All answers for one candidate, the last of them the verdict."""
        runs, order = list[VerifierRun](), self.order
        steps = [next_step(self.metric, self.state, order, runs, lines_saved)]
        while not isinstance(steps[-1], Verdict):
            assert isinstance(steps[-1], Ask) and len(steps) < 50
            runs.append(self.run(steps[-1].side, steps[-1].cases, len(runs)))
            steps.append(next_step(self.metric, self.state, order, runs, lines_saved))
        self.add(steps[-1], runs)
        return steps

    def run(self, side: str, cases: Sequence[int], number: int) -> VerifierRun:
        scores = self.verifier(side, cases)
        scores = {case: scores.get(case) for case in {**dict.fromkeys(cases), **scores}}
        if missing := [case for case, score in scores.items() if score is None]:
            more = self.verifier(side, missing)
            scores.update({case: more.get(case) for case in missing})
        if side == "candidate" and self.state.cases:
            counts = self.state.cases.missing_score(self.metric)
            scores = {case: counts if score is None else score for case, score in scores.items()}
        return case_run(side, scores, self.seed(number), self.start)

    def seed(self, number: int) -> int:
        return 1000 * len(self.records) + number

    def add(self, verdict: Verdict, runs: Sequence[VerifierRun], case_ids: tuple[str, ...] = ()) -> None:
        record = record_of(len(self.records), verdict.outcome, runs, reason=verdict.reason)
        values = (verdict.value, verdict.incumbent, verdict.delta)
        result = MetricResult("m", self.metric.direction, *values, needed=verdict.needed, cases=verdict.cases)
        self.records.append(replace(record, metric=result, case_ids=case_ids))
        self.verdicts.append(verdict)
        self.state = update_noise(self.state, self.records[-1])
