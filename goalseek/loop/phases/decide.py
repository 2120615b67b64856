"""DECIDE: the decision that follows from the rule's verdict, with the commit that reverts a rejected candidate."""

from __future__ import annotations

from goalseek.git.commits import roll_back
from goalseek.git.repository import Repository
from goalseek.phase_values import Candidate, Context, Decision, Verdict


def decide(repository: Repository, context: Context, candidate: Candidate, verdict: Verdict) -> Decision:
    """The decision on a candidate with this verdict."""
    return Decision(verdict, None if verdict else roll_back(repository, candidate, context.moment))
