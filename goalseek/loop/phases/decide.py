"""DECIDE: the rule's verdict, and for a rejected candidate the commit that reverts it; APPROVE: a person's say in it.

Where the manifest asks for it, a verdict takes effect only once a person has answered.
"""

from __future__ import annotations

from msgspec import structs

from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.iteration import Iteration, checkpointed
from goalseek.phase_values import Decision
from goalseek.project import approval
from goalseek.statistics.stacking import ELIGIBLE
from goalseek.values import Outcome, Phase, Reason


@checkpointed(Phase.DECIDE, "verdict", Decision, count="cycle")
def decide(iteration: Iteration, attempt: OpenAttempt) -> Decision:
    """The verdict that VERIFY ended with, with the revert commit of a rejected candidate that is on the tip."""
    assert attempt.verdict is not None and attempt.candidate
    if attempt.verdict:
        return Decision(attempt.verdict)
    return Decision(attempt.verdict, iteration.roll_back(attempt.candidate))


def needs_approval(iteration: Iteration, attempt: OpenAttempt, decision: Decision) -> bool:
    """Whether this verdict waits for a person. A stored answer to it counts, even if the manifest no longer asks."""
    if iteration.steps.has(CheckpointName("word", attempt.cycle)):
        return True
    is_asked = approval.requires_approval(iteration.config.manifest, decision.verdict)
    return _has_answer(iteration, attempt) or (is_asked and iteration.may_land(decision))


def _has_answer(iteration: Iteration, attempt: OpenAttempt) -> bool:
    """Whether a person has answered; the newest question may be about a later attempt, where this one was moved."""
    logs = iteration.project.loaded.logs
    question = _question(iteration) if approval.has_approval(logs, iteration.number) else None
    if not (question and attempt.candidate and question.commit == attempt.candidate.commit):
        return False
    return approval.read_approval(logs, question) is not None


@checkpointed(Phase.APPROVE, "word", Decision, count="cycle")
def apply_approval(iteration: Iteration, attempt: OpenAttempt, decision: Decision) -> Decision:
    """The decision after a person's answer: a declined keep is reverted; a revert stays one whatever the answer.

    Where the number alone had rejected it, the reason is ``declined`` then, and it is never stacked. Raises
    GoalseekError with exit code 5 where there is no answer, and nobody at a terminal to ask.
    """
    project, candidate, question = iteration.project, attempt.candidate, _question(iteration)
    assert candidate and question and question.commit == candidate.commit
    answer = approval.read_approval(project.loaded.logs, question) or iteration.ask_person(question)
    if answer is None:
        raise approval.approval_error(question)
    if answer == "approve":
        return decision
    said = approval.read_answer(project.loaded.logs, question).get("why", "")
    why = f"a person declined it: {f'{said}; ' if said else ''}{decision.verdict.why}"
    if not (decision.verdict or decision.verdict.reason in ELIGIBLE):
        return structs.replace(decision, verdict=structs.replace(decision.verdict, why=why)) if said else decision
    verdict = structs.replace(decision.verdict, outcome=Outcome.REVERTED, reason=Reason.DECLINED, why=why)
    return Decision(verdict, iteration.roll_back(candidate))


def _question(iteration: Iteration) -> approval.Question | None:
    project = iteration.project
    return approval.undecided_verdict(project.loaded.runs, iteration.begun, project.run_id)
