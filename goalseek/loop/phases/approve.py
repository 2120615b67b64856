"""APPROVE: where the manifest asks for it, a verdict takes effect only with a person's word."""

from __future__ import annotations

from dataclasses import replace

from goalseek.git.commits import roll_back
from goalseek.phase_values import Candidate, Context, Decision
from goalseek.project.approval import (
    Approval,
    commands_for,
    is_word_there,
    load_approval,
    needs_human,
    question_of,
    wants_word,
    word_on,
)
from goalseek.project.config import Config
from goalseek.project.project import Project, write_state


def needs_approval(project: Project, config: Config, decision: Decision) -> bool:
    """Whether this verdict waits for a word; a word that was given counts, whatever the manifest says by now."""
    if wants_word(config.manifest, decision.verdict):
        return True
    if not is_word_there(project.loaded.logs):
        return False
    question = question_of(project.loaded.runs, project.standing, project.run_id)
    return question is not None and word_on(project.loaded.logs, question) is not None


def apply_approval(project: Project, context: Context, candidate: Candidate, decision: Decision) -> Decision:
    """The decision after a person's word: declined, a keep is reverted; a revert stays one whatever is said.

    Raises GoalseekError with exit code 5 where nobody gave one, and nobody is at a terminal to ask.
    """
    question = question_of(project.loaded.runs, project.standing, project.run_id)
    assert question and question.commit == candidate.commit
    logs = project.loaded.logs
    word = load_approval(logs, question)

    def given() -> Approval | None:
        project.picture.beat()
        return load_approval(logs, question)

    if word is None and project.watch.is_attended():
        write_state(project, "waiting", question.iteration, "APPROVE", next_step=commands_for(question))
        word = project.watch.ask(question, given)
        write_state(project, "running", question.iteration, "APPROVE")
    if word is None:
        raise needs_human(question)
    if word == "approve" or not decision.verdict:
        return decision
    verdict = replace(
        decision.verdict, outcome="reverted", reason="declined", why=f"a person declined it: {decision.verdict.why}"
    )
    return Decision(verdict, roll_back(project.repository, candidate, context.moment))
