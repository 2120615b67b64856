"""DECIDE: the rule's verdict, and for a rejected candidate the commit that reverts it."""

from __future__ import annotations

from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.iteration import Iteration, checkpointed
from goalseek.phase_values import Decision
from goalseek.values import Phase


@checkpointed(Phase.DECIDE, "verdict", Decision, count="cycle")
def decide(iteration: Iteration, attempt: OpenAttempt) -> Decision:
    """The verdict that VERIFY ended with, with the revert commit of a rejected candidate that is on the tip."""
    assert attempt.verdict is not None and attempt.candidate
    if attempt.verdict:
        return Decision(attempt.verdict)
    return Decision(attempt.verdict, iteration.roll_back(attempt.candidate))
