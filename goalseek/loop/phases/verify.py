"""VERIFY: the verifier's commands run on a bench; each measurement is stored before the next begins.

The rule is asked before each measurement whether it needs another one; its last answer is the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from goalseek.evaluation.measurements import evidence_from_pool
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.iteration import Iteration
from goalseek.measurement.measure import MeasurementSpec, add_measurement
from goalseek.phase_values import Candidate, Change, Evidence, Verdict
from goalseek.statistics.acceptance import AcceptanceRule, next_for_baseline
from goalseek.statistics.noise import setting_of
from goalseek.values import Outcome, Phase
from goalseek.workspace.places import BenchName

NextMeasurement = Callable[[Evidence], Callable[[], Evidence] | Verdict]


def verify(
    iteration: Iteration, attempt: OpenAttempt, change: Change, candidate: Candidate
) -> tuple[Evidence, Verdict]:
    next_part = partial(_next_measurement, iteration, attempt, change, candidate)
    return _gather(iteration, attempt.number, next_part)


def verify_baseline(iteration: Iteration, ruler: str, candidate: Candidate) -> tuple[Evidence, Verdict]:
    return _gather(iteration, 1, partial(_next_baseline_measurement, iteration, ruler, candidate))


def _gather(iteration: Iteration, number: int, next_part: NextMeasurement) -> tuple[Evidence, Verdict]:
    return iteration.steps.gather(Phase.VERIFY, CheckpointName("evidence", number), Evidence(), next_part)


def _next_measurement(
    iteration: Iteration, attempt: OpenAttempt, change: Change, candidate: Candidate, evidence: Evidence
) -> Callable[[], Evidence] | Verdict:
    """The next measurement or the verdict. Evidence of another setting counts only if it suffices for a verdict."""
    project, manifest, standing = iteration.project, iteration.config.manifest, iteration.standing
    assert standing.incumbent and standing.baseline
    lines_saved = change.lines_removed - change.lines_added
    benches, host = iteration.seat.lanes.setting
    if not evidence.runs:
        evidence = Evidence(benches=benches, host=host)
    setting = setting_of(evidence.benches, evidence.host)
    noise = standing.noise.under(setting)
    rule = AcceptanceRule(manifest.metric, manifest.guard, standing.baseline.guards, noise, lines_saved)
    side = rule.next_step(evidence)
    if isinstance(side, Verdict):
        return side
    if setting != setting_of(benches, host):
        return _next_measurement(iteration, attempt, change, candidate, Evidence())
    bench: BenchName = "a" if side == "candidate" else "b"
    tree = candidate.tree if side == "candidate" else standing.incumbent.tree
    seed = iteration.seed(attempt.runs + len(evidence.runs) + 1)
    baseline, spec = standing.baseline, MeasurementSpec(tree, seed, iteration.number, side)

    def measure() -> Evidence:
        verifier = project.verifier(iteration.config, standing.ruler, baseline.tree, baseline.seconds, bench)
        extended = add_measurement(verifier, spec, evidence, iteration.folder)
        if extended.is_incumbent_failing:
            project.watch.on_note("the incumbent was measured again and gave no number; it is measured once more")
        return extended

    return measure


def _next_baseline_measurement(
    iteration: Iteration, ruler: str, candidate: Candidate, evidence: Evidence
) -> Callable[[], Evidence] | Verdict:
    config, pool = iteration.config, iteration.standing.pooled(candidate.tree, ruler)
    if pool and not evidence.runs:
        return partial(evidence_from_pool, pool, iteration.folder)
    step = next_for_baseline(config.manifest.metric, config.manifest.guard, candidate.commit, evidence)
    if isinstance(step, Verdict):
        return step
    seed = iteration.seed(len(evidence.runs) + 1)
    spec = MeasurementSpec(candidate.tree, seed, iteration.number, role=Outcome.BASELINE)

    def measure() -> Evidence:
        verifier = iteration.project.verifier(config, ruler, candidate.tree, {})
        return add_measurement(verifier, spec, evidence, iteration.folder)

    return measure
