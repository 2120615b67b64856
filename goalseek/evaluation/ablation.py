"""Ablation: each kept change is taken out of the best in turn, to find those without a measurable effect.

Every run is recorded as it is made, so a killed ablation, or the same one again, makes only the missing runs.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator
from itertools import takewhile

from msgspec import Struct

from goalseek.errors import GoalseekError
from goalseek.evaluation import measurements
from goalseek.evaluation.measurements import MeasuredValue, Target
from goalseek.ledger.promote import KeptChain, commit_title, leave_out
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Metric
from goalseek.phase_values import Failure
from goalseek.project.project import Project
from goalseek.records import IterationRecord, MeasurementRecord, SettledDifference
from goalseek.statistics.guards import guard_violation
from goalseek.statistics.intervals import settle, standard_errors
from goalseek.statistics.noise import is_noisy, median
from goalseek.values import StopReason

PAIRS = 4
ASKED_BY = "ablate"
Pairs = list[tuple[MeasuredValue, MeasuredValue]]


class AblatedChange(Struct, frozen=True):
    iteration: int
    why: str  # its worth in one sentence
    earns: bool
    errors: float  # standard errors by which the best is better with it


class Ablation(Struct, frozen=True):
    changes: tuple[AblatedChange, ...]
    left_out: tuple[int, ...]
    result: str  # of the fresh comparison without those ``left_out``


def count_runs(metric: Metric, standing: Standing, changes: int, pairs: int) -> int:
    """One of each tree is enough if the same code always gives the same number."""
    return 2 * pairs * (changes + 2) if is_noisy(metric, standing.noise) else changes + 2


def ablate(
    project: Project, chain: KeptChain, numbers: Collection[int], pairs: int, on_message: Callable[[str], None]
) -> Ablation:
    """The ablation of the changes ``numbers`` of a chain whose end was measured, each in so many pairs.

    A change stays if the best is more than one standard error better with it; one that saves lines, if not that much
    worse. All others are left out and compared in twice as many pairs: while that is over one standard error
    worse, the change that looked best returns. Raises GoalseekError if the best has no number any more.
    """
    comparison = _Comparison(project, chain, pairs, on_message)
    changes = tuple(
        comparison.judge(change.record)
        for change in chain.changes
        if change.record.iteration in numbers and change.record.taken_back is None  # a person's word stands
    )
    useless = sorted((change for change in changes if not change.earns), key=lambda change: change.errors)
    put_back: list[str] = []
    while useless:
        left_out = tuple(sorted(change.iteration for change in useless))
        names = f"without {', '.join(map(str, left_out))}"
        loss, words = comparison.compare(left_out)
        if not loss:
            put_back.append(f"{names}, measured afresh against the best: {words}, so nothing is lost")
            return Ablation(changes, left_out, "; ".join(put_back))
        put_back.append(f"{names}: {loss}, so iteration {useless.pop().iteration} stays")
    every = "every kept change has a measurable effect or makes the files shorter, so nothing is left out"
    return Ablation(changes, (), "; ".join([*put_back, "nothing is left out"]) if put_back else every)


class _Comparison:
    """Compares the best with trees without some of its changes; runs recorded since the last iteration count."""

    def __init__(self, project: Project, chain: KeptChain, pairs: int, on_message: Callable[[str], None]) -> None:
        self._project = project
        self._config = project.config()
        self._chain = chain
        self._pairs = pairs
        self._on_message = on_message
        self._is_exact = not is_noisy(self._config.manifest.metric, project.standing.noise)
        self._stored: dict[str, deque[MeasuredValue]] = {}
        history, ours = project.ledger.history, (ASKED_BY, project.standing.ruler)
        for run in takewhile(lambda record: not isinstance(record, IterationRecord), history.newest()):
            if isinstance(run, MeasurementRecord) and (run.asked_by, run.ruler) == ours:
                self._stored.setdefault(run.tree, deque()).appendleft(measurements.value_before(run))

    def judge(self, record: IterationRecord) -> AblatedChange:
        number, objects, best = record.iteration, self._project.repository.objects, self._chain.end
        name = f"iteration {number}, {commit_title(record)}"
        try:
            tree = leave_out(objects, self._chain, {number}).end
        except GoalseekError as error:
            return AblatedChange(number, f"{name}, stays: {error.message}", True, 0.0)
        if tree == best:
            return AblatedChange(number, f"{name}, stays: later changes have replaced it", True, 0.0)
        measured = self._measure(tree, f"without iteration {number}", self._pairs)
        if isinstance(measured, Failure):
            return AblatedChange(number, f"{name}, stays: without it there is no number: {measured.why}", True, 0.0)
        difference, errors = self._difference(measured)
        diff = objects.diff(tree, best)
        earns = errors >= -1 if diff.lines_added < diff.lines_removed else errors > 1
        words = "stays" if earns else "has no measurable effect"
        return AblatedChange(number, f"{name}, {words}: with it {difference.in_words()}", earns, errors)

    def compare(self, left_out: Collection[int]) -> tuple[str, str]:
        """The loss without these changes ("" for none), and the fresh comparison in words."""
        try:
            tree = leave_out(self._project.repository.objects, self._chain, left_out).end
        except GoalseekError as error:
            return error.message, ""
        measured = self._measure(tree, f"without {', '.join(map(str, left_out))}, afresh", 2 * self._pairs)
        if isinstance(measured, Failure):
            return f"there is no number: {measured.why}", ""
        backwards = [(best, result) for result, best in measured]
        difference, errors = self._difference(backwards)
        baseline = self._project.standing.baseline
        assert baseline
        for guard in self._config.manifest.guard:
            best, result = (median([run.guards[guard.name] for run in side]) for side in zip(*backwards, strict=True))
            before = baseline.guards.get(guard.name)
            if (why := guard_violation(guard, result, before)) and not guard_violation(guard, best, before):
                return why, ""
        words = difference.in_words()
        return words if errors < -1 else "", words

    def _measure(self, tree: str, name: str, count: int) -> Pairs | Failure:
        """Pairs (tree, best), measured in turn, one if the metric is exact; a failure if the tree has no number.

        A recorded run counts once, or each time if the metric is exact. Raises GoalseekError if the best has no number.
        """
        count = 1 if self._is_exact else count
        project, config, best = self._project, self._config, self._chain.end
        values: list[MeasuredValue] = []

        def missing() -> Iterator[Target]:
            for index, side in enumerate(measurements.alternate(tree, best, count), start=1):
                self._on_message(f"ablation, {name}: run {index} of {2 * count}")
                if stored := self._stored.get(side):
                    values.append(stored[0] if self._is_exact else stored.popleft())
                else:
                    yield measurements.pinned_target(project.standing, config, side, "b" if side == best else "a")

        for run in measurements.measure_in_turn(project, missing(), asked_by=ASKED_BY):
            number, side = run.number, run.target.tree
            if isinstance(number, Failure):
                if side == tree:
                    return number
                message = f"ablation stopped at the best: {number.why}"
                raise GoalseekError(message, "goalseek doctor", StopReason.INCUMBENT_FAILED)
            if self._is_exact:
                self._stored[side] = deque([number])
            values.append(number)
        return measurements.pairs_in_turn(values)

    def _difference(self, pairs: Pairs) -> tuple[SettledDifference, float]:
        """The gain of the second of each pair, and its size in standard errors of the climb's noise."""
        noise, metric = self._project.standing.noise, self._config.manifest.metric
        values = [(before.value, after.value) for before, after in pairs]
        difference = settle(metric.direction, values, noise.all_positive, metric.unit)
        sd = math.sqrt(noise.cases.noise / len(noise.cases.ids)) if noise.cases else None
        return difference, standard_errors(metric.direction, values, noise.pairs, noise.all_positive, sd)
