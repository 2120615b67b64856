"""One iteration as a report shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from goalseek.views.harmless import one_line
from goalseek.views.report.rows import Row, list_at, number_at, numbers_at, text_at

_TITLE_MOST = 400
_FILES_MOST = 8
_GUARDS_MOST = 100
OUTCOMES = ("baseline", "kept", "reverted", "skipped")


class Label(NamedTuple):
    """What came of a try: the contract's outcome and reason."""

    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Try:
    """One iteration. All texts are harmless and of bounded length; ``seconds`` are active ones.

    ``guards`` are there of what the line of the best stands on only.
    """

    iteration: int
    label: Label
    value: float | None
    incumbent: float | None
    delta: float | None
    odds: float | None
    title: str
    why: str
    commit: str
    parent: str
    files: tuple[str, ...]
    changed_loc: int
    seconds: float
    when: str
    guards: dict[str, float]


def try_of(row: Row, label: Label) -> Try:
    """The try that an iteration's row tells of, and what came of it."""
    files = [one_line(name, 200) for name in list_at(row, "changed_files") if isinstance(name, str)]
    more = (f"and {len(files) - _FILES_MOST} more",) if len(files) > _FILES_MOST else ()
    return Try(
        iteration=int(number_at(row, "iteration") or 0),
        label=label,
        value=number_at(row, "metric", "value"),
        incumbent=number_at(row, "metric", "incumbent"),
        delta=number_at(row, "metric", "delta"),
        odds=number_at(row, "metric", "odds"),
        title=one_line(text_at(row, "hypothesis_summary"), _TITLE_MOST),
        why=one_line(text_at(row, "why"), _TITLE_MOST),
        commit=_hash(text_at(row, "commit_hash")),
        parent=_hash(text_at(row, "parent_commit_hash")),
        files=(*files[:_FILES_MOST], *more),
        changed_loc=int(number_at(row, "changed_loc") or 0),
        seconds=sum(numbers_at(row, "seconds").values()),
        when=one_line(text_at(row, "timestamp"), 40),
        guards=_guards(row) if label.outcome in ("baseline", "kept") else {},
    )


def label_of(row: Row) -> Label:
    """What came of it; an outcome that is not known here counts as skipped."""
    outcome = text_at(row, "outcome")
    return Label(outcome if outcome in OUTCOMES else "skipped", one_line(text_at(row, "reason"), 40))


def _guards(row: Row) -> dict[str, float]:
    named = list(numbers_at(row, "guards").items())[:_GUARDS_MOST]
    return {one_line(name, 80): value for name, value in named}


def _hash(text: str) -> str:
    """A hash, or nothing where it is none: it is handed to git."""
    return text if len(text) in (40, 64) and all(letter in "0123456789abcdef" for letter in text) else ""
