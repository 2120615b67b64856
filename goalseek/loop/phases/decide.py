"""DECIDE: the verdict of the acceptance rule, and for a rejected candidate the commit that reverts it."""

from __future__ import annotations

from goalseek.git.commits import roll_back
from goalseek.git.repository import Repository
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Candidate, Change, Context, Decision, Evidence, Verdict
from goalseek.statistics.sequential_test import NextStep, next_step_under_guards


def judge(
    repository: Repository,
    manifest: Manifest,
    standing: Standing,
    context: Context,
    change: Change,
    candidate: Candidate,
    evidence: Evidence,
) -> Decision:
    """The rule's verdict on complete evidence, with the revert commit of a rejected candidate."""
    verdict = next_step_for(manifest, standing, change, evidence)
    assert isinstance(verdict, Verdict)  # else VERIFY would not have ended
    return Decision(verdict, None if verdict else roll_back(repository, candidate, context.moment))


def next_step_for(manifest: Manifest, standing: Standing, change: Change, evidence: Evidence) -> NextStep:
    """What the rule gives after these measurements: whether to measure candidate or incumbent again, or a verdict."""
    assert standing.baseline
    lines_saved = change.lines_removed - change.lines_added
    guards = standing.baseline.guards
    return next_step_under_guards(manifest.metric, manifest.guard, guards, standing.noise, evidence, lines_saved)
