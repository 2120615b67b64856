"""VERIFY: the verifier's commands run on a bench; each measurement is added to the evidence before the next begins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from goalseek.evaluation.measurements import evidence_from_pool
from goalseek.loop.phases.decide import next_step_for
from goalseek.measurement.evidence import add_measurement, is_incumbent_failing
from goalseek.phase_values import Candidate, Change, Evidence, Side, Verdict
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.statistics.sequential_test import NextStep, RunIncumbent, baseline_verdict


def next_measurement(
    project: Project,
    config: Config,
    change: Change,
    candidate: Candidate,
    folder: Path,
    earlier_runs: int,
    evidence: Evidence,
) -> Callable[[], Evidence] | None:
    """The measurement that the verdict needs next, of the candidate or the incumbent; None where it needs no more.

    An incumbent that failed is measured again before anything else. ``earlier_runs`` counts the measurements of the
    iteration's earlier attempts.
    """
    standing = project.standing
    next_step: NextStep = RunIncumbent()
    if not is_incumbent_failing(evidence):
        next_step = next_step_for(config.manifest, standing, change, evidence)
    if isinstance(next_step, Verdict):
        return None
    assert standing.incumbent and standing.baseline
    side: Side = "incumbent" if isinstance(next_step, RunIncumbent) else "candidate"
    tree = standing.incumbent.tree if side == "incumbent" else candidate.tree
    baseline, number = standing.baseline, standing.last_iteration + 1

    def measure() -> Evidence:
        verifier = project.verifier(config, standing.ruler, baseline.tree, baseline.seconds, side)
        extended = add_measurement(
            verifier, side, tree, evidence, _seed(project, number, evidence, earlier_runs), number, folder
        )
        if is_incumbent_failing(extended):
            project.watch.on_note("the incumbent, measured again, has no number; it is measured once more")
        return extended

    return measure


def next_baseline_measurement(
    project: Project, config: Config, ruler: str, candidate: Candidate, folder: Path, evidence: Evidence
) -> Callable[[], Evidence] | None:
    """The next measurement of a baseline, recorded ones first; None once there are enough for its verdict."""
    manifest, number = config.manifest, project.standing.last_iteration + 1
    pool = project.standing.pooled(candidate.tree, ruler)
    if pool and not evidence.runs:
        return partial(evidence_from_pool, pool, folder)
    if baseline_verdict(manifest.metric, manifest.guard, evidence, candidate.commit) is not None:
        return None

    def measure() -> Evidence:
        verifier = project.verifier(config, ruler, candidate.tree, {})
        seed = _seed(project, number, evidence)
        return add_measurement(verifier, "candidate", candidate.tree, evidence, seed, number, folder)

    return measure


def _seed(project: Project, number: int, evidence: Evidence, earlier_runs: int = 0) -> int:
    return project.seal.seed(project.run_id, number, earlier_runs + len(evidence.runs) + 1)
