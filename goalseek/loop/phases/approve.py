"""APPROVE: where the manifest asks for it, a verdict takes effect only once a person has answered."""

from __future__ import annotations

from dataclasses import replace

from goalseek.git.commits import roll_back
from goalseek.phase_values import Candidate, Context, Decision
from goalseek.project.approval import (
    Approval,
    approval_error,
    commands_for,
    has_approval,
    load_approval,
    read_approval,
    requires_approval,
    undecided_verdict,
)
from goalseek.project.config import Config
from goalseek.project.project import Project


def needs_approval(project: Project, config: Config, decision: Decision) -> bool:
    """Whether this verdict waits for a person. A stored answer to it counts, even if the manifest no longer asks."""
    if requires_approval(config.manifest, decision.verdict):
        return True
    if not has_approval(project.loaded.logs):
        return False
    question = undecided_verdict(project.loaded.runs, project.standing, project.run_id)
    return question is not None and read_approval(project.loaded.logs, question) is not None


def apply_approval(project: Project, context: Context, candidate: Candidate, decision: Decision) -> Decision:
    """The decision after a person's answer: a declined keep is reverted; a revert stays one whatever the answer.

    Raises GoalseekError with exit code 5 where there is no answer, and nobody at a terminal to ask.
    """
    question = undecided_verdict(project.loaded.runs, project.standing, project.run_id)
    assert question and question.commit == candidate.commit
    logs = project.loaded.logs
    approval = load_approval(logs, question)

    def read_approval() -> Approval | None:
        project.picture.beat()
        return load_approval(logs, question)

    if approval is None and project.watch.is_attended():
        project.write_state("waiting", question.iteration, "APPROVE", next_step=commands_for(question))
        approval = project.watch.ask(question, read_approval)
        project.write_state("running", question.iteration, "APPROVE")
    if approval is None:
        raise approval_error(question)
    if approval == "approve" or not decision.verdict:
        return decision
    verdict = replace(
        decision.verdict, outcome="reverted", reason="declined", why=f"a person declined it: {decision.verdict.why}"
    )
    return Decision(verdict, roll_back(project.repository, candidate, context.moment))
