"""VERIFY: the verifier's commands run on a bench; each measurement is added to the evidence before the next begins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from goalseek.evaluation.measurements import evidence_from_pool
from goalseek.measurement.evidence import add_measurement
from goalseek.measurement.measure import MeasurementSpec
from goalseek.phase_values import Candidate, Change, Evidence, Verdict
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.statistics.sequential_test import AcceptanceRule, BaselineRule
from goalseek.workspace.places import BenchName


def next_measurement(
    project: Project,
    config: Config,
    change: Change,
    candidate: Candidate,
    folder: Path,
    earlier_runs: int,
    evidence: Evidence,
) -> Callable[[], Evidence] | Verdict:
    """The measurement that the verdict needs next, of the candidate or the incumbent; or the verdict.

    ``earlier_runs`` counts the measurements of the iteration's earlier attempts.
    """
    standing, manifest = project.standing, config.manifest
    assert standing.incumbent and standing.baseline
    lines_saved = change.lines_removed - change.lines_added
    rule = AcceptanceRule(manifest.metric, manifest.guard, standing.baseline.guards, standing.noise, lines_saved)
    side = rule.next_step(evidence)
    if isinstance(side, Verdict):
        return side
    tree = standing.incumbent.tree if side == "incumbent" else candidate.tree
    baseline, number = standing.baseline, standing.last_iteration + 1

    def measure() -> Evidence:
        seed = _seed(project, number, evidence, earlier_runs)
        bench: BenchName = "a" if side == "candidate" else "b"
        with project.verifier(config, standing.ruler, baseline.tree, baseline.seconds, bench) as verifier:
            extended = add_measurement(verifier, MeasurementSpec(tree, seed, number, side), evidence, folder)
        if extended.is_incumbent_failing:
            project.watch.on_note("the incumbent, measured again, has no number; it is measured once more")
        return extended

    return measure


def next_baseline_measurement(
    project: Project, config: Config, ruler: str, candidate: Candidate, folder: Path, evidence: Evidence
) -> Callable[[], Evidence] | Verdict:
    """The next measurement of a baseline, recorded ones first; its verdict once there are enough for it."""
    manifest, number = config.manifest, project.standing.last_iteration + 1
    pool = project.standing.pooled(candidate.tree, ruler)
    if pool and not evidence.runs:
        return partial(evidence_from_pool, pool, folder)
    step = BaselineRule(manifest.metric, manifest.guard, candidate.commit).next_step(evidence)
    if isinstance(step, Verdict):
        return step

    def measure() -> Evidence:
        seed = _seed(project, number, evidence)
        with project.verifier(config, ruler, candidate.tree, {}) as verifier:
            return add_measurement(verifier, MeasurementSpec(candidate.tree, seed, number), evidence, folder)

    return measure


def _seed(project: Project, number: int, evidence: Evidence, earlier_runs: int = 0) -> int:
    return project.seal.seed(project.run_id, number, earlier_runs + len(evidence.runs) + 1)
