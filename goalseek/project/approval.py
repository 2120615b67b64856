"""A person's approval of verdicts: open questions, and answers, each a small file beside the records.

Questions are read from checkpoints, without a lock. An answer counts only for the run, candidate and verdict in it.
"""

import json
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from goalseek.disk import read_object, write_atomic
from goalseek.errors import GoalseekError
from goalseek.git.paths import quote_path
from goalseek.ledger.checkpoints import Begun, Checkpoints, chain, under_way
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Candidate, Change, Decision, Review, Verdict
from goalseek.values import StopReason, from_plain

Approval = Literal["approve", "decline"]


class Question(Struct, frozen=True):
    """A verdict without effect so far, with C-quoted paths."""

    iteration: int
    run_id: str
    commit: str
    decided: str  # the seal of its checkpoint
    verdict: Verdict
    title: str
    changed_files: tuple[str, ...]
    lines_added: int
    lines_removed: int
    diff: str
    answered: bool
    is_reviewed: bool = False


def undecided_verdict(runs: Path, begun: Begun, run_id: str) -> Question | None:
    """The stored verdict of an iteration that has no record; None before there is one.

    Checks no seals: a caller that acts on an answer has checked those of its checkpoints.
    """
    number = begun.iteration
    folder = runs / f"{number:04d}"
    stored = Checkpoints(folder, None, run_id, begun.follows).stored()
    names = chain(stored, f"iteration {number}")
    while names and names[-1].answer not in ("verdict", "review"):
        names.pop()
    answers = ["" if name.is_rejection else name.answer for name in names]
    committed = max((index for index, answer in enumerate(answers) if answer == "candidate"), default=0)
    if not committed or answers[committed - 1] != "change":
        return None
    newest = stored[names[-1]]
    try:
        candidate = from_plain(Candidate, stored[names[committed]].value)
        change = from_plain(Change, stored[names[committed - 1]].value)
        review = from_plain(Review, newest.value) if answers[-1] == "review" else None
        verdict = (review.decision if review else from_plain(Decision, newest.value)).verdict
    except ValueError:
        return None
    seal = newest.seal
    if review and review.goes_on:  # there is nothing to ask, unless nothing came of that
        attempts = list(takewhile(lambda name: name.answer in ("change", "candidate"), chain(stored, seal)))
        if not attempts or not attempts[-1].is_rejection:
            return None
        seal = stored[attempts[-1]].seal
    return Question(
        iteration=number,
        run_id=run_id,
        commit=candidate.commit,
        decided=seal,
        verdict=verdict,
        title=change.title,
        changed_files=tuple(quote_path(edit.path) for edit in change.edits),
        lines_added=change.lines_added,
        lines_removed=change.lines_removed,
        diff=str(folder / "changes.diff"),
        answered=any(name.answer == "word" and word.made_from == seal for name, word in stored.items()),
        is_reviewed=review is not None,
    )


def requires_approval(manifest: Manifest, verdict: Verdict) -> bool:
    before = manifest.approve.before
    return before == "each" or (before == "kept" and bool(verdict))


def open_questions(loaded: ManifestFile, standing: Standing, run_id: str) -> list[Question]:
    """The verdicts that wait for approval, oldest first, without those whose answer has taken effect."""
    manifest, questions = loaded.manifest, []
    for begun in under_way(loaded.runs, standing, run_id):
        question = undecided_verdict(loaded.runs, begun, run_id)
        if question is None or question.answered or not requires_approval(manifest, question.verdict):
            continue
        if not question.verdict or not manifest.review or question.is_reviewed:  # a reviewer answers before a person
            questions.append(question)
    return questions


def save_approval(logs: Path, question: Question, word: Approval, why: str = "") -> None:
    """Replaces an answer that has not taken effect yet."""
    content = json.dumps({**_question_key(question), "word": word, "why": why}) + "\n"
    write_atomic(approval_file(logs, question.iteration), content, durable=True)


def read_approval(logs: Path, question: Question) -> Approval | None:
    """None if there is no answer to this question. LOG deletes the answer once it is recorded."""
    word = read_answer(logs, question).get("word")
    return word if word in ("approve", "decline") else None


def read_answer(logs: Path, question: Question) -> dict[str, Any]:
    answer = read_object(approval_file(logs, question.iteration))
    return answer if _question_key(question).items() <= answer.items() else {}


def approval_file(logs: Path, iteration: int) -> Path:
    """A file for each iteration, as several questions can be open at once."""
    return logs / f"word-{iteration}.json"


def commands_for(question: Question) -> str:
    return f"goalseek approve {question.iteration}, or goalseek decline {question.iteration}"


def approval_error(question: Question) -> GoalseekError:
    verdict = question.verdict
    message = f"iteration {question.iteration} waits for your approval: {verdict.outcome}, {verdict.why}"
    hint = f"see {question.diff}; {commands_for(question)}; then: goalseek iterate"
    return GoalseekError(f"{message}; {question.title}", hint, StopReason.NEEDS_HUMAN)


def _question_key(question: Question) -> dict[str, Any]:
    return {name: getattr(question, name) for name in ("run_id", "iteration", "commit", "decided")}
