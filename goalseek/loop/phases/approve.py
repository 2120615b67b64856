"""APPROVE: where the manifest asks for it, a verdict takes effect only with a person's word."""

from __future__ import annotations

from dataclasses import replace

from goalseek.git.commits import roll_back
from goalseek.phase_values import Candidate, Context, Decision
from goalseek.project.approval import (
    Word,
    commands_for,
    is_word_there,
    needs_human,
    question_of,
    take_word,
    wants_word,
    word_on,
)
from goalseek.project.project import Run, tell
from goalseek.project.setting import Setting


def is_asked(run: Run, setting: Setting, decision: Decision) -> bool:
    """Whether this verdict waits for a word; a word that was given counts, whatever the manifest says by now."""
    if wants_word(setting.manifest, decision.verdict):
        return True
    if not is_word_there(run.loaded.logs):
        return False
    question = question_of(run.loaded.runs, run.standing, run.run_id)
    return question is not None and word_on(run.loaded.logs, question) is not None


def heard(run: Run, context: Context, candidate: Candidate, decision: Decision) -> Decision:
    """The decision after a person's word: declined, a keep is reverted; a revert stays one whatever is said.

    Raises GoalseekError with exit code 5 where nobody gave one, and nobody is at a terminal to ask.
    """
    question = question_of(run.loaded.runs, run.standing, run.run_id)
    assert question and question.commit == candidate.commit
    logs = run.loaded.logs
    word = take_word(logs, question)

    def given() -> Word | None:
        run.picture.beat()
        return take_word(logs, question)

    if word is None and run.watch.is_attended():
        tell(run, "waiting", question.iteration, "APPROVE", following=commands_for(question))
        word = run.watch.ask(question, given)
        tell(run, "running", question.iteration, "APPROVE")
    if word is None:
        raise needs_human(question)
    if word == "approve" or not decision.verdict:
        return decision
    verdict = replace(
        decision.verdict, outcome="reverted", reason="declined", why=f"a person declined it: {decision.verdict.why}"
    )
    return Decision(verdict, roll_back(run.repository, candidate, context.moment))
