"""VERIFY: the verifier's commands run on a bench, one measurement at a time; what they left becomes the evidence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from goalseek.evaluation.measurements import evidence_from_pool
from goalseek.loop.phases.decide import ruling
from goalseek.measurement.evidence import is_incumbent_failing, one_more
from goalseek.phase_values import Candidate, Change, Evidence, Side, Verdict
from goalseek.project.project import Run
from goalseek.project.setting import Setting
from goalseek.statistics.sequential_test import Next, RunIncumbent, baseline_verdict


def candidate_owes(
    run: Run, setting: Setting, change: Change, candidate: Candidate, folder: Path, before: int, evidence: Evidence
) -> Callable[[], Evidence] | None:
    """The measurement that the candidate's verdict needs next, its own or the incumbent's; None where it needs none.

    An incumbent that failed is asked once more before anything else. ``before`` is how many were made of its earlier
    tries.
    """
    standing = run.standing
    following: Next = RunIncumbent()
    if not is_incumbent_failing(evidence):
        following = ruling(setting.manifest, standing, change, evidence)
    if isinstance(following, Verdict):
        return None
    assert standing.incumbent and standing.baseline
    of: Side = "incumbent" if isinstance(following, RunIncumbent) else "candidate"
    tree = standing.incumbent.tree if of == "incumbent" else candidate.tree
    baseline, number = standing.baseline, standing.last_iteration + 1

    def measured() -> Evidence:
        verifier = run.verifier(setting, standing.ruler, baseline.tree, baseline.seconds, of)
        made = one_more(verifier, of, tree, evidence, _seed(run, number, evidence, before), number, folder)
        if is_incumbent_failing(made):
            run.watch.note("the incumbent, measured again, has no number; it is measured once more")
        return made

    return measured


def baseline_owes(
    run: Run, setting: Setting, ruler: str, candidate: Candidate, folder: Path, evidence: Evidence
) -> Callable[[], Evidence] | None:
    """The measurement that a baseline lacks: what was measured before, then one at a time; None where it lacks none."""
    manifest, number = setting.manifest, run.standing.last_iteration + 1
    pooled = run.standing.pooled(candidate.tree, ruler)
    if pooled and not evidence.runs:
        return partial(evidence_from_pool, pooled, folder)
    if baseline_verdict(manifest.metric, manifest.guard, evidence, candidate.commit) is not None:
        return None

    def measured() -> Evidence:
        verifier = run.verifier(setting, ruler, candidate.tree, {})
        seed = _seed(run, number, evidence)
        return one_more(verifier, "candidate", candidate.tree, evidence, seed, number, folder)

    return measured


def _seed(run: Run, number: int, evidence: Evidence, before: int = 0) -> int:
    return run.seal.seed(run.run_id, number, before + len(evidence.runs) + 1)
