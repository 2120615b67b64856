"""VERIFY: the verifier's commands run on a bench, one measurement at a time; what they left becomes the evidence."""

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
    before: int,
    evidence: Evidence,
) -> Callable[[], Evidence] | None:
    """The measurement that the candidate's verdict needs next, its own or the incumbent's; None where it needs none.

    An incumbent that failed is asked once more before anything else. ``before`` is how many were made of its earlier
    tries.
    """
    standing = project.standing
    following: NextStep = RunIncumbent()
    if not is_incumbent_failing(evidence):
        following = next_step_for(config.manifest, standing, change, evidence)
    if isinstance(following, Verdict):
        return None
    assert standing.incumbent and standing.baseline
    of: Side = "incumbent" if isinstance(following, RunIncumbent) else "candidate"
    tree = standing.incumbent.tree if of == "incumbent" else candidate.tree
    baseline, number = standing.baseline, standing.last_iteration + 1

    def measured() -> Evidence:
        verifier = project.verifier(config, standing.ruler, baseline.tree, baseline.seconds, of)
        made = add_measurement(verifier, of, tree, evidence, _seed(project, number, evidence, before), number, folder)
        if is_incumbent_failing(made):
            project.watch.on_note("the incumbent, measured again, has no number; it is measured once more")
        return made

    return measured


def next_baseline_measurement(
    project: Project, config: Config, ruler: str, candidate: Candidate, folder: Path, evidence: Evidence
) -> Callable[[], Evidence] | None:
    """The measurement that a baseline lacks: what was measured before, then one at a time; None where it lacks none."""
    manifest, number = config.manifest, project.standing.last_iteration + 1
    pooled = project.standing.pooled(candidate.tree, ruler)
    if pooled and not evidence.runs:
        return partial(evidence_from_pool, pooled, folder)
    if baseline_verdict(manifest.metric, manifest.guard, evidence, candidate.commit) is not None:
        return None

    def measured() -> Evidence:
        verifier = project.verifier(config, ruler, candidate.tree, {})
        seed = _seed(project, number, evidence)
        return add_measurement(verifier, "candidate", candidate.tree, evidence, seed, number, folder)

    return measured


def _seed(project: Project, number: int, evidence: Evidence, before: int = 0) -> int:
    return project.seal.seed(project.run_id, number, before + len(evidence.runs) + 1)
