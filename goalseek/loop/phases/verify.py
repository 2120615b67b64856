"""VERIFY: the verifier's commands run on a bench; each measurement is stored before the next begins.

The rule is asked before each measurement whether it needs another one; its last answer is the verdict.
"""

from collections.abc import Callable
from functools import partial

from goalseek.evaluation.measurements import evidence_from_pool
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.iteration import Iteration
from goalseek.measurement.measure import MeasurementSpec
from goalseek.phase_values import Candidate, Change, Evidence, Verdict
from goalseek.statistics.acceptance import AcceptanceRule, decide_on_baseline
from goalseek.statistics.cases import Ask, order_of
from goalseek.statistics.noise import setting_of
from goalseek.values import Outcome
from goalseek.workspace.places import BenchName


def verify(
    iteration: Iteration, attempt: OpenAttempt, change: Change, candidate: Candidate
) -> tuple[Evidence, Verdict]:
    """Evidence of another setting counts only if it suffices for a verdict."""
    project, manifest, standing = iteration.project, iteration.config.manifest, iteration.standing
    incumbent, baseline = iteration.incumbent, standing.baseline
    assert baseline
    benches, host = iteration.lanes.pool.setting
    own_setting = setting_of(benches, host)
    lines_saved = change.lines_removed - change.lines_added
    state = standing.noise.cases
    case_ids = state.ids if state else ()
    names_cases = manifest.metric.command in [one.name for one in manifest.commands if one.sees == "candidate"]
    order = order_of(len(case_ids), iteration.seed(attempt.runs + 1))

    def next_run(evidence: Evidence) -> Callable[[], Evidence] | Verdict:
        if not evidence.runs:
            evidence = Evidence(benches=benches, host=host)
        setting = setting_of(evidence.benches, evidence.host)
        noise = standing.noise.under(setting)
        rule = AcceptanceRule(manifest.metric, manifest.guard, baseline.guards, noise, lines_saved, order, names_cases)
        step = rule.next_step(evidence)
        if isinstance(step, Verdict):
            return step
        if setting != own_setting:
            return next_run(Evidence())
        side, cases, so_far = (step.side, step.cases, step.so_far) if isinstance(step, Ask) else (step, (), "")
        bench: BenchName = "a" if side == "candidate" else "b"
        tree = candidate.tree if side == "candidate" else incumbent.tree
        seed = iteration.seed(attempt.runs + len(evidence.runs) + 1)
        missing = state.missing_score(manifest.metric) if state and side == "candidate" else None
        spec = MeasurementSpec(tree, seed, iteration.number, side, "", "", case_ids, cases, so_far, missing)

        def measure() -> Evidence:
            verifier = project.verifier(iteration.config, standing.ruler, baseline.tree, baseline.seconds, bench)
            extended = project.measure(verifier, spec, evidence, iteration.folder)
            if extended.is_incumbent_failing:
                project.watch.on_note("the incumbent was measured again and gave no number; it is measured once more")
            return extended

        return measure

    return iteration.steps.gather(CheckpointName("evidence", attempt.number), next_run)


def verify_baseline(iteration: Iteration, ruler: str, candidate: Candidate) -> tuple[Evidence, Verdict]:
    config = iteration.config
    metric, guards = config.manifest.metric, config.manifest.guard
    # Measurements before the first baseline had no table of cases, and may be of another kind of machine.
    pool = () if metric.cases or iteration.project.cluster else iteration.standing.pooled(candidate.tree, ruler)
    pool = tuple(record for record in pool if record.host is None)

    def next_run(evidence: Evidence) -> Callable[[], Evidence] | Verdict:
        if pool and not evidence.runs:
            return partial(evidence_from_pool, pool, iteration.folder)
        step = decide_on_baseline(metric, guards, candidate.commit, evidence)
        if isinstance(step, Verdict):
            return step
        seed = iteration.seed(len(evidence.runs) + 1)
        cases = step.cases if isinstance(step, Ask) else ()
        role, ids = Outcome.BASELINE, evidence.case_ids
        spec = MeasurementSpec(candidate.tree, seed, iteration.number, role=role, case_ids=ids, cases=cases)
        verifier = iteration.project.verifier(config, ruler, candidate.tree, {})
        return partial(iteration.project.measure, verifier, spec, evidence, iteration.folder)

    return iteration.steps.gather(CheckpointName("evidence"), next_run)
