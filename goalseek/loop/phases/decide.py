"""DECIDE: the rule's verdict, and for a rejected candidate the commit that reverts it; APPROVE: a person's say in it.

Where the manifest asks for it, a verdict takes effect only once a person has answered.
"""

from __future__ import annotations

from msgspec import structs

from goalseek.git.commits import roll_back
from goalseek.loop.attempts import Attempt
from goalseek.loop.iteration import Iteration, checkpointed
from goalseek.phase_values import Decision
from goalseek.project import approval
from goalseek.statistics.stacking import ELIGIBLE
from goalseek.values import Outcome, Phase, Reason


@checkpointed(Phase.DECIDE, "verdict", Decision, count="cycle")
def decide(iteration: Iteration, attempt: Attempt) -> Decision:
    """The verdict that VERIFY ended with, with the revert commit of a rejected candidate."""
    assert attempt.verdict is not None and attempt.candidate
    if attempt.verdict:
        return Decision(attempt.verdict)
    rollback = roll_back(iteration.project.repository, attempt.candidate, iteration.context.moment)
    return Decision(attempt.verdict, rollback)


def needs_approval(iteration: Iteration, decision: Decision) -> bool:
    """Whether this verdict waits for a person. A stored answer to it counts, even if the manifest no longer asks."""
    if approval.requires_approval(iteration.config.manifest, decision.verdict):
        return True
    logs = iteration.project.loaded.logs
    if not approval.has_approval(logs, iteration.number):
        return False
    question = _question(iteration)
    return question is not None and approval.read_approval(logs, question) is not None


@checkpointed(Phase.APPROVE, "word", Decision)
def apply_approval(iteration: Iteration, attempt: Attempt, decision: Decision) -> Decision:
    """The decision after a person's answer: a declined keep is reverted; a revert stays one whatever the answer.

    Where the number alone had rejected it, the reason is ``declined`` then, and it is never stacked. Raises
    GoalseekError with exit code 5 where there is no answer, and nobody at a terminal to ask.
    """
    project, candidate, question = iteration.project, attempt.candidate, _question(iteration)
    assert candidate and question and question.commit == candidate.commit
    logs = project.loaded.logs
    answer = approval.read_approval(logs, question)

    def read_answer() -> approval.Approval | None:
        project.activity.picture.beat()
        return approval.read_approval(logs, question)

    if answer is None and project.watch.is_attended():
        project.write_state("waiting", question.iteration, Phase.APPROVE, next_step=approval.commands_for(question))
        answer = project.watch.ask(question, read_answer)
        project.write_state("running", question.iteration, Phase.APPROVE)
    if answer is None:
        raise approval.approval_error(question)
    if answer == "approve" or not (decision.verdict or decision.verdict.reason in ELIGIBLE):
        return decision
    why = f"a person declined it: {decision.verdict.why}"
    verdict = structs.replace(decision.verdict, outcome=Outcome.REVERTED, reason=Reason.DECLINED, why=why)
    return Decision(verdict, roll_back(project.repository, candidate, iteration.context.moment))


def _question(iteration: Iteration) -> approval.Question | None:
    project = iteration.project
    return approval.undecided_verdict(project.loaded.runs, project.standing, project.run_id)
