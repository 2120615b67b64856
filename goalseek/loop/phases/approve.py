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


def needs_approval(run: Project, setting: Config, decision: Decision) -> bool:
    """Whether this verdict waits for a word; a word that was given counts, whatever the manifest says by now."""
    if wants_word(setting.manifest, decision.verdict):
        return True
    if not is_word_there(run.loaded.logs):
        return False
    question = question_of(run.loaded.runs, run.standing, run.run_id)
    return question is not None and word_on(run.loaded.logs, question) is not None


def apply_approval(run: Project, context: Context, candidate: Candidate, decision: Decision) -> Decision:
    """The decision after a person's word: declined, a keep is reverted; a revert stays one whatever is said.

    Raises GoalseekError with exit code 5 where nobody gave one, and nobody is at a terminal to ask.
    """
    question = question_of(run.loaded.runs, run.standing, run.run_id)
    assert question and question.commit == candidate.commit
    logs = run.loaded.logs
    word = load_approval(logs, question)

    def given() -> Approval | None:
        run.picture.beat()
        return load_approval(logs, question)

    if word is None and run.watch.is_attended():
        write_state(run, "waiting", question.iteration, "APPROVE", following=commands_for(question))
        word = run.watch.ask(question, given)
        write_state(run, "running", question.iteration, "APPROVE")
    if word is None:
        raise needs_human(question)
    if word == "approve" or not decision.verdict:
        return decision
    verdict = replace(
        decision.verdict, outcome="reverted", reason="declined", why=f"a person declined it: {decision.verdict.why}"
    )
    return Decision(verdict, roll_back(run.repository, candidate, context.moment))
