"""What waits for a person's word, and the word itself: a small file beside the records, needing no lock.

Both are found in what is stored already, so a word can be given while the loop waits and while nothing runs. It names
the run, the candidate and the stored verdict that it is about: a word on anything else never counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from goalseek.errors import NEEDS_HUMAN, USAGE, GoalseekError
from goalseek.files import write_durably
from goalseek.git.paths import quote_path
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Manifest
from goalseek.own_folders import clear
from goalseek.phase_values import Candidate, Change, Decision, Review, Verdict
from goalseek.values import from_plain

_NAME = "word.json"
Approval = Literal["approve", "decline"]


@dataclass(frozen=True)
class Question:
    """A verdict that has not taken effect. ``decided`` is the seal of the stored answer that it rests on.

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


def question_of(runs: Path, standing: Standing, run_id: str) -> Question | None:
    """The verdict that is stored but not recorded; None where the iteration under way has none yet.

    ``runs`` is the folder of the artifacts; ``run_id`` the run that the next iteration belongs to. Seals are not
    checked here: whoever takes a word up has checked those of what it is about.
    """
    number = standing.last_iteration + 1
    folder = runs / f"{number:04d}"
    stored = _stored(folder, run_id, standing.last.seal if standing.last else "")
    chains = [_made_from(stored, name) for name in stored if _is(name, "verdict", "review")]
    chain = max(chains, key=len, default=[""])
    last = chain[0]
    made = next((name for name in chain if name.startswith("candidate")), None)
    if made is None:
        return None
    proposed = chain[chain.index(made) + 1] if made != chain[-1] else ""
    if not proposed.startswith("change"):
        return None
    try:
        change = from_plain(Change, stored[proposed]["value"])
        candidate = from_plain(Candidate, stored[made]["value"])
        review = from_plain(Review, stored[last]["value"]) if _is(last, "review") else None
        verdict = (review.decision if review else from_plain(Decision, stored[last]["value"])).verdict
    except ValueError:
        return None
    decided = stored[last]["seal"]
    if review and review.goes_on:  # there is nothing to ask, unless nothing came of that
        ended = [answer["seal"] for name, answer in stored.items() if _ends(name, answer, decided)]
        if not ended:
            return None
        decided = ended[0]
    return Question(
        iteration=number,
        run_id=run_id,
        commit=candidate.commit,
        decided=decided,
        verdict=verdict,
        title=change.title,
        changed_files=tuple(quote_path(edit.path) for edit in change.edits),
        lines_added=change.lines_added,
        lines_removed=change.lines_removed,
        diff=str(folder / "changes.diff"),
        answered="word" in stored and stored["word"]["made_from"] == decided,
        is_reviewed=review is not None,
    )


def wants_word(manifest: Manifest, verdict: Verdict) -> bool:
    """Whether the manifest asks for a person's word before this verdict takes effect."""
    before = manifest.approve.before
    return before == "each" or (before == "kept" and bool(verdict))


def waiting(manifest: Manifest, runs: Path, standing: Standing, run_id: str) -> Question | None:
    """What waits for a word that was not taken up yet, or None."""
    question = question_of(runs, standing, run_id)
    if question and question.verdict and manifest.review and not question.is_reviewed:
        return None  # the reviewer's word comes before a person's
    if question is None or question.answered or not wants_word(manifest, question.verdict):
        return None
    return question


def save_approval(logs: Path, question: Question, word: Approval) -> None:
    """Stores a word; it replaces one that was not taken up yet."""
    write_durably(logs / _NAME, json.dumps({**_bound_to(question), "word": word}).encode() + b"\n")


def word_on(logs: Path, question: Question) -> Approval | None:
    """The word that was given on this, not taken up yet."""
    try:
        request = json.loads((logs / _NAME).read_text())
    except (OSError, ValueError):
        return None
    words: tuple[Approval, ...] = ("approve", "decline")
    return next((word for word in words if request == {**_bound_to(question), "word": word}), None)


def load_approval(logs: Path, question: Question) -> Approval | None:
    """The word that was given on this; a word on something else is removed.

    The word itself stays until ``drop_word``: by then it is stored with the iteration.
    """
    word = word_on(logs, question)
    if word is None:
        remove_approval(logs)
    return word


def is_word_there(logs: Path) -> bool:
    """Whether there is a word at all, on whatever."""
    return (logs / _NAME).exists()


def remove_approval(logs: Path) -> None:
    """Removes whatever word there is."""
    clear(logs / _NAME)


def commands_for(question: Question) -> str:
    """What to type."""
    return f"goalseek approve {question.iteration}, or goalseek decline {question.iteration}"


def needs_human(question: Question) -> GoalseekError:
    """The end of an invocation that has nobody to ask."""
    verdict = question.verdict
    asked = f"iteration {question.iteration} waits for a person's word: {verdict.outcome}, {verdict.why}"
    hint = f"see {question.diff}; {commands_for(question)}; then: goalseek iterate"
    return GoalseekError(f"{asked}; {question.title}", hint, NEEDS_HUMAN, "needs_human")


def refuse_while_waiting(question: Question | None, what: str) -> None:
    """Raises GoalseekError where ``what`` would leave a candidate behind that waits for a word."""
    if question is not None:
        message = f"iteration {question.iteration} waits for a person's word, so {what} has to wait as well"
        raise GoalseekError(message, f"{commands_for(question)}; then goalseek iterate, then this again", USAGE)


def _bound_to(question: Question) -> dict[str, Any]:
    names = ("run_id", "iteration", "commit", "decided")
    return {name: getattr(question, name) for name in names}


def _stored(folder: Path, run_id: str, follows: str) -> dict[str, dict[str, Any]]:
    """The stored answers of an iteration, by name: those of this run after this record."""
    found = {}
    for path in folder.glob("*.json"):
        try:
            stored = json.loads(path.read_text())
            bound = (stored["name"], stored["run_id"], stored["follows"])
            if bound == (path.stem, run_id, follows) and {"seal", "made_from", "value"} <= stored.keys():
                found[path.stem] = stored
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def _is(name: str, *answers: str) -> bool:
    """Whether that is the name of such an answer, the first or a later one."""
    return name.partition("-")[0] in answers


def _ends(name: str, answer: dict[str, Any], review: str) -> bool:
    """Whether an answer says that nothing came of a change that went back to its author after this review."""
    return name.startswith("rejected-change") and answer["made_from"] == review


def _made_from(stored: dict[str, dict[str, Any]], name: str) -> list[str]:
    """An answer's name, and those that it was made from, newest first."""
    by_seal = {str(answer["seal"]): other for other, answer in stored.items()}
    chain: list[str] = []
    following: str | None = name if name in stored else None
    while following is not None and following not in chain:
        chain.append(following)
        following = by_seal.get(str(stored[following]["made_from"]))
    return chain
