"""APPROVE: a person's say in a verdict: where the manifest asks for it, none takes effect before that."""

from __future__ import annotations

from msgspec import structs

from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.iteration import Iteration, checkpointed
from goalseek.phase_values import Decision
from goalseek.project import approval
from goalseek.project.approval import Approval, Question
from goalseek.statistics.stacking import ELIGIBLE
from goalseek.values import Outcome, Phase, Reason


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


def apply_approval(iteration: Iteration, attempt: OpenAttempt, decision: Decision) -> Decision:
    """The decision after a person's answer: a declined keep is reverted; a revert stays one whatever the answer.

    Where the number alone had rejected it, the reason is ``declined`` then, and it is never stacked. A change that was
    approved is not asked about again. Raises GoalseekError with exit code 5 where there is no answer, nobody at a
    terminal to ask, and nothing else under way.
    """
    decided = _ask_for_approval(iteration, attempt, decision)
    if decided.verdict:
        iteration.approved.add(_patch(iteration, attempt))
    return decided


@checkpointed(Phase.APPROVE, "word", Decision, count="cycle")
def _ask_for_approval(iteration: Iteration, attempt: OpenAttempt, decision: Decision) -> Decision:
    project, candidate, question = iteration.project, attempt.candidate, _question(iteration)
    assert candidate and question and question.commit == candidate.commit
    answer = approval.read_approval(project.loaded.logs, question) or _ask_person(iteration, attempt, question)
    if answer == "approve":
        return decision
    said = approval.read_answer(project.loaded.logs, question).get("why", "")
    why = f"a person declined it: {f'{said}; ' if said else ''}{decision.verdict.why}"
    if not (decision.verdict or decision.verdict.reason in ELIGIBLE):
        return structs.replace(decision, verdict=structs.replace(decision.verdict, why=why)) if said else decision
    verdict = structs.replace(decision.verdict, outcome=Outcome.REVERTED, reason=Reason.DECLINED, why=why)
    return Decision(verdict, iteration.roll_back(candidate))


def _question(iteration: Iteration) -> Question | None:
    project = iteration.project
    return approval.undecided_verdict(project.loaded.runs, iteration.begun, project.run_id)


def recall_answer(iteration: Iteration, question: Question) -> Approval | None:
    """A person's answer to a question of this iteration, if there is one; it stays known once it is recorded."""
    answer = iteration.answers.get(question.decided)
    answer = answer or approval.read_approval(iteration.project.loaded.logs, question)
    if answer:
        iteration.answers[question.decided] = answer
    return answer


def _ask_person(iteration: Iteration, attempt: OpenAttempt, question: Question) -> Approval:
    """Waits for a person's answer, at the terminal or of another process. Raises GoalseekError where nobody is there.

    Of several, the others go on meanwhile and may land, and the queue asks at the terminal.
    """
    project, seat = iteration.project, iteration.seat
    if _patch(iteration, attempt) in iteration.approved:
        return "approve"
    if seat.lanes.is_alone:
        return _ask_at_terminal(iteration, question)
    seat.leave_all()
    project.watch.on_note(f"waits for your approval: {approval.commands_for(question)}")
    project.show("running", iteration.number, Phase.APPROVE)
    project.watch.on_question(question)
    seat.question = question
    while (answer := recall_answer(iteration, question)) is None:
        project.pause()
    seat.question = None
    return answer


def _ask_at_terminal(iteration: Iteration, question: Question) -> Approval:
    project = iteration.project

    def poll_answer() -> Approval | None:
        project.activity.beat()
        return recall_answer(iteration, question)

    answer = None
    if project.watch.is_attended():
        project.show("waiting", question.iteration, Phase.APPROVE, next=approval.commands_for(question))
        project.watch.on_question(question)
        answer = project.watch.ask(question, poll_answer)
        project.show("running", question.iteration, Phase.APPROVE)
    if answer is None:
        raise approval.approval_error(question)
    return answer


def _patch(iteration: Iteration, attempt: OpenAttempt) -> bytes:
    """The change without what depends on where in a file it stands: git's patch-id would leave out white space."""
    assert attempt.candidate
    patch = iteration.project.repository.objects.patch(iteration.incumbent.tree, attempt.candidate.tree)
    return b"\n".join(line for line in patch.splitlines() if not line.startswith((b"@@ ", b"index ")))
