"""Approval of a verdict by a person: the open question, and the answer, a small file beside the records.

The question is read from the checkpoints of the iteration, and no lock is needed: an answer can be given while the loop
waits and while nothing runs. It names the run, the candidate and the stored verdict; an answer to anything else never
counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from goalseek.errors import USAGE, GoalseekError
from goalseek.files import write_durably
from goalseek.git.paths import quote_path
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Manifest
from goalseek.own_folders import remove_if_exists
from goalseek.phase_values import Candidate, Change, Decision, Review, Verdict
from goalseek.values import StopReason, from_plain

_NAME = "word.json"
Approval = Literal["approve", "decline"]


@dataclass(frozen=True)
class Question:
    """A verdict that has not taken effect. ``decided`` is the seal of the checkpoint that holds it.

    Paths are C-quoted.
    """

    iteration: int
    run_id: str
    commit: str
    decided: str
    verdict: Verdict
    title: str
    changed_files: tuple[str, ...]
    lines_added: int
    lines_removed: int
    diff: str
    answered: bool
    is_reviewed: bool = False


def undecided_verdict(runs: Path, standing: Standing, run_id: str) -> Question | None:
    """The verdict that is stored but not recorded; None where the iteration under way has none yet.

    ``runs`` is the folder of the artifacts; ``run_id`` the run that the next iteration belongs to. Seals are not
    checked here: whoever acts on an answer has checked those of the checkpoints that it is about.
    """
    number = standing.last_iteration + 1
    folder = runs / f"{number:04d}"
    checkpoints = _read_checkpoints(folder, run_id, standing.last.seal if standing.last else "")
    chains = [_chain_of(checkpoints, name) for name in checkpoints if _is_kind(name, "verdict", "review")]
    chain = max(chains, key=len, default=[""])
    newest = chain[0]
    candidate_name = next((name for name in chain if name.startswith("candidate")), None)
    if candidate_name is None:
        return None
    change_name = chain[chain.index(candidate_name) + 1] if candidate_name != chain[-1] else ""
    if not change_name.startswith("change"):
        return None
    try:
        change = from_plain(Change, checkpoints[change_name]["value"])
        candidate = from_plain(Candidate, checkpoints[candidate_name]["value"])
        review = from_plain(Review, checkpoints[newest]["value"]) if _is_kind(newest, "review") else None
        verdict = (review.decision if review else from_plain(Decision, checkpoints[newest]["value"])).verdict
    except ValueError:
        return None
    answer_seal = checkpoints[newest]["seal"]
    if review and review.goes_on:  # there is nothing to ask, unless nothing came of that
        ending_seals = [
            answer["seal"] for name, answer in checkpoints.items() if _ends_change(name, answer, answer_seal)
        ]
        if not ending_seals:
            return None
        answer_seal = ending_seals[0]
    return Question(
        iteration=number,
        run_id=run_id,
        commit=candidate.commit,
        decided=answer_seal,
        verdict=verdict,
        title=change.title,
        changed_files=tuple(quote_path(edit.path) for edit in change.edits),
        lines_added=change.lines_added,
        lines_removed=change.lines_removed,
        diff=str(folder / "changes.diff"),
        answered="word" in checkpoints and checkpoints["word"]["made_from"] == answer_seal,
        is_reviewed=review is not None,
    )


def requires_approval(manifest: Manifest, verdict: Verdict) -> bool:
    """Whether the manifest asks for approval before this verdict takes effect."""
    before = manifest.approve.before
    return before == "each" or (before == "kept" and bool(verdict))


def open_question(manifest: Manifest, runs: Path, standing: Standing, run_id: str) -> Question | None:
    """The verdict that waits for approval, or None: also where an answer has taken effect already."""
    question = undecided_verdict(runs, standing, run_id)
    if question and question.verdict and manifest.review and not question.is_reviewed:
        return None  # the reviewer answers before a person does
    if question is None or question.answered or not requires_approval(manifest, question.verdict):
        return None
    return question


def save_approval(logs: Path, question: Question, word: Approval) -> None:
    """Stores the answer to a question; it replaces one that has not taken effect yet."""
    write_durably(logs / _NAME, json.dumps({**_key_of(question), "word": word}).encode() + b"\n")


def read_approval(logs: Path, question: Question) -> Approval | None:
    """The stored answer to this question; None where there is none that has not taken effect."""
    try:
        request = json.loads((logs / _NAME).read_text())
    except (OSError, ValueError):
        return None
    words: tuple[Approval, ...] = ("approve", "decline")
    return next((word for word in words if request == {**_key_of(question), "word": word}), None)


def load_approval(logs: Path, question: Question) -> Approval | None:
    """The stored answer to this question. An answer to another question is deleted.

    Call ``remove_approval`` once the iteration has recorded it.
    """
    word = read_approval(logs, question)
    if word is None:
        remove_approval(logs)
    return word


def has_approval(logs: Path) -> bool:
    """Whether an answer is stored, to whichever question."""
    return (logs / _NAME).exists()


def remove_approval(logs: Path) -> None:
    """Deletes the stored answer, to whichever question."""
    remove_if_exists(logs / _NAME)


def commands_for(question: Question) -> str:
    """The two commands that answer the question, to be typed."""
    return f"goalseek approve {question.iteration}, or goalseek decline {question.iteration}"


def approval_error(question: Question) -> GoalseekError:
    """The error of an invocation that has nobody to ask; its hint says what to type."""
    verdict = question.verdict
    message = f"iteration {question.iteration} waits for a person's word: {verdict.outcome}, {verdict.why}"
    hint = f"see {question.diff}; {commands_for(question)}; then: goalseek iterate"
    return GoalseekError(f"{message}; {question.title}", hint, StopReason.NEEDS_HUMAN)


def refuse_while_waiting(question: Question | None, action: str) -> None:
    """Raises GoalseekError where ``action``, in words, would leave a candidate behind that waits for approval."""
    if question is not None:
        message = f"iteration {question.iteration} waits for a person's word, so {action} has to wait as well"
        raise GoalseekError(message, f"{commands_for(question)}; then goalseek iterate, then this again", USAGE)


def _key_of(question: Question) -> dict[str, Any]:
    names = ("run_id", "iteration", "commit", "decided")
    return {name: getattr(question, name) for name in names}


def _read_checkpoints(folder: Path, run_id: str, record_seal: str) -> dict[str, dict[str, Any]]:
    """The checkpoints of an iteration, by name: those of this run that follow the record with this seal."""
    checkpoints = {}
    for path in folder.glob("*.json"):
        try:
            checkpoint = json.loads(path.read_text())
            key = (checkpoint["name"], checkpoint["run_id"], checkpoint["follows"])
            if key == (path.stem, run_id, record_seal) and {"seal", "made_from", "value"} <= checkpoint.keys():
                checkpoints[path.stem] = checkpoint
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return checkpoints


def _is_kind(name: str, *kinds: str) -> bool:
    """Whether that is the name of such a checkpoint, the first or a later one."""
    return name.partition("-")[0] in kinds


def _ends_change(name: str, checkpoint: dict[str, Any], review: str) -> bool:
    """Whether a checkpoint says that nothing came of the change that this review, given by its seal, asked for."""
    return name.startswith("rejected-change") and checkpoint["made_from"] == review


def _chain_of(checkpoints: dict[str, dict[str, Any]], name: str) -> list[str]:
    """The names of a checkpoint and of those that it was made from, newest first."""
    by_seal = {str(answer["seal"]): other for other, answer in checkpoints.items()}
    chain: list[str] = []
    next_name: str | None = name if name in checkpoints else None
    while next_name is not None and next_name not in chain:
        chain.append(next_name)
        next_name = by_seal.get(str(checkpoints[next_name]["made_from"]))
    return chain
