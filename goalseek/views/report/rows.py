"""The lines of ``results.jsonl`` as plain JSON: a missing value, or one of the wrong type, is ignored.

A report must also work on records of a newer version, so unknown kinds and keys are no errors. Here too are the words
of the report for reasons, sandbox levels, verifiers and costs.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from goalseek.humanize import better_or_worse, format_number, format_percent
from goalseek.ledger.results_file import History
from goalseek.statistics.intervals import SettledDifference
from goalseek.values import Outcome, Usage
from goalseek.views.terminal_text import one_line

Row = dict[str, Any]


@dataclass(frozen=True)
class ParsedLine:
    """A line of the file: its row, None where it is no record; ``end`` is the offset of the byte after it."""

    row: Row | None
    end: int


def rows_from(history: History, offset: int = 0) -> Iterator[ParsedLine]:
    """The complete lines from byte ``offset`` on, which begins a line; a torn last line is left out."""
    for line in history.forward(offset):
        end = line.offset + len(line.text) + 1
        try:
            row = json.loads(line.text)
        except (ValueError, RecursionError):
            row = None
        yield ParsedLine(row if isinstance(row, dict) and isinstance(row.get("kind"), str) else None, end)


def number_at(row: Row, *names: str) -> float | None:
    """The finite number at a path of keys, or None."""
    return _finite(value_at(row, *names))


def text_at(row: Row, *names: str) -> str:
    """The text at a path of keys, or ""."""
    value = value_at(row, *names)
    return value if isinstance(value, str) else ""


def list_at(row: Row, *names: str) -> list[Any]:
    """The list at a path of keys, or an empty one."""
    value = value_at(row, *names)
    return value if isinstance(value, list) else []


def rows_at(row: Row, *names: str) -> list[Row]:
    """The objects in the list at a path of keys."""
    return [item for item in list_at(row, *names) if isinstance(item, dict)]


def numbers_at(row: Row, *names: str) -> dict[str, float]:
    """The finite numbers, by name, of the object at a path of keys."""
    value = value_at(row, *names)
    if not isinstance(value, dict):
        return {}
    return {name: number for name in value if (number := _finite(value[name])) is not None}


def value_at(row: Any, *names: str) -> Any:
    """The value at a path of keys, or None."""
    for name in names:
        if not isinstance(row, dict):
            return None
        row = row.get(name)
    return row


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


_TITLE_MOST = 400
_FILES_MOST = 8
_GUARDS_MOST = 100
OUTCOMES = tuple(outcome.value for outcome in Outcome)


class Label(NamedTuple):
    """The outcome and the reason of a try, in the contract's words."""

    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Try:
    """One iteration. All texts are printable and of bounded length; ``seconds`` are active ones.

    ``guards`` are filled for the baseline and kept tries only.
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
    """The try in the row of an iteration."""
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
        guards=_guards(row) if label.outcome in (Outcome.BASELINE, Outcome.KEPT) else {},
    )


def label_of(row: Row) -> Label:
    """The label of an iteration's row; an unknown outcome counts as skipped."""
    outcome = text_at(row, "outcome")
    return Label(outcome if outcome in OUTCOMES else Outcome.SKIPPED, one_line(text_at(row, "reason"), 40))


def _guards(row: Row) -> dict[str, float]:
    guards = list(numbers_at(row, "guards").items())[:_GUARDS_MOST]
    return {one_line(name, 80): value for name, value in guards}


def _hash(text: str) -> str:
    """The text where it is a hash of git, else "": it is passed to git as an argument."""
    return text if len(text) in (40, 64) and all(letter in "0123456789abcdef" for letter in text) else ""


def settled_of(row: Row) -> SettledDifference | None:
    """The result in a ``settle`` row; None where it has no difference."""
    difference = number_at(row, "difference")
    if difference is None:
        return None
    before, after = number_at(row, "baseline") or 0.0, number_at(row, "best") or 0.0
    ends = [number_at({"end": end}, "end") for end in list_at(row, "interval")]
    low, high = ends if len(ends) == 2 else (None, None)
    interval = (low, high) if low is not None and high is not None else None
    pairs = len(list_at(row, "pairs"))
    return SettledDifference(pairs, before, after, difference, interval, value_at(row, "in_percent") is True)


def has_medians(settled: SettledDifference) -> bool:
    """Whether the medians of both are known."""
    return bool(settled.before or settled.after)


@dataclass(frozen=True)
class Look:
    """One look at the holdout. ``of`` is "baseline", "best" or "", ``iteration`` the one that was looked at.

    Without a ``value`` it has only begun, or failed, and ``why`` says how. ``gap`` is in the metric's units.
    """

    number: int
    of: str
    iteration: int | None
    value: float | None
    gap: float | None
    why: str = ""


def look_of(row: Row) -> Look:
    """The look in a ``holdout`` row."""
    iteration = number_at(row, "iteration")
    return Look(
        int(number_at(row, "look") or 0),
        text_at(row, "of") if text_at(row, "of") in ("baseline", "best") else "",
        None if iteration is None else int(iteration),
        number_at(row, "value"),
        number_at(row, "gap"),
        one_line(text_at(row, "why"), 300) if text_at(row, "reason") == "failed" else "",
    )


def format_look(look: Look) -> str:
    """One look at the holdout in a sentence."""
    target = f" at the {look.of}" if look.of else ""
    target += f", iteration {look.iteration}" if target and look.iteration is not None else ""
    if look.value is None:
        return f"Look {look.number}{target}: {look.why.rstrip('.') or 'begun, and not measured'}."
    text = f"Look {look.number}{target}: {format_number(look.value)}"
    if look.gap is not None:
        text += f"; the verifier's gain is {_gap_in_words(look.gap)} the holdout's"
    return f"{text}."


def _gap_in_words(gap: float) -> str:
    """The verifier's gain compared with the holdout's, in words: what it has more is not a real gain."""
    if gap == 0:
        return "the same as"
    return f"{format_number(abs(gap))} {'more' if gap > 0 else 'less'} than"


def format_difference(settled: SettledDifference) -> str:
    """``1.1% ± 0.3% better``: the difference, and half the width of its interval."""
    size = format_percent if settled.in_percent else "{:.4g}".format
    if settled.difference == 0 and not settled.interval:
        return "no difference"
    text = size(abs(settled.difference))
    if settled.interval:
        text += f" ± {size((settled.interval[1] - settled.interval[0]) / 2)}"
    return f"{text} {better_or_worse(settled.difference)}"


REASONS = {
    "worse": "measured, and not better",
    "tie": "the same number, and no fewer lines",
    "within_noise": "better by less than the noise",
    "below_min_delta": "better by less than min_delta",
    "guard": "a guard's bound was broken",
    "not_valid": "a number outside its valid range",
    "verify_failed": "a verify command ended with an error",
    "verify_timeout": "a verify command ran past its timeout",
    "no_metric": "no number could be read",
    "not_finite": "the number was not finite",
    "unmeasurable": "the verifier could not judge it",
    "review_rejected": "the second opinion was against it",
    "declined": "a person declined it",
    "no_change": "the agent changed nothing",
    "duplicate": "the same tree was measured before",
    "out_of_scope": "it touched what is not the candidate's to edit",
    "provider_failed": "the agent could not answer",
    "provider_timeout": "the agent ran past its time",
    "no_plan": "the agent gave no plan",
    "interrupted": "it was never finished",
}
SANDBOXES = {
    "bubblewrap": "Programs saw their own tree and the system's programs, and nothing else of the machine.",
    "landlock": "Files outside their tree could not be read or written; other things of the machine could be seen.",
    "none": "Programs ran as the user: nothing kept them from reading hidden files or writing anywhere.",
}
VERIFIERS = {
    "hidden": "What decided was computed by commands that run none of the candidate's code.",
    "candidate": "The numbers were reported by commands that run the candidate's code.",
    "both": "A verify command had hidden files and the candidate's code in one place: code there could read them.",
}


def format_usage(usage: Usage) -> str:
    """``1,234,567 tokens, $4.10``; "" where nothing was reported."""
    parts = [f"{usage.tokens:,} tokens"] if usage.tokens else []
    if usage.has_cost:
        parts.append(format_dollars(usage))
    return ", ".join(parts)


def format_dollars(usage: Usage) -> str:
    """``$4.10``, ``about $4.10`` where estimated or paid by a subscription, ``unknown`` where none was reported."""
    parts = []
    if usage.cost_usd is not None and (usage.cost_usd or usage.about_usd is None):
        parts.append(f"{'about ' if usage.estimated else ''}${usage.cost_usd:,.2f}")
    if usage.about_usd is not None:
        parts.append(f"about ${usage.about_usd:,.2f} by subscription")
    return " and ".join(parts) or "unknown"


def format_sandboxes(levels: Counter[tuple[str, str]]) -> str:
    """``sandbox: bubblewrap``; of several levels, each with its number of iterations."""
    counts: Counter[str] = Counter()
    for (sandbox, _), count in levels.items():
        counts[sandbox or "not told"] += count
    if len(counts) == 1:
        return "no sandbox" if "none" in counts else f"sandbox: {next(iter(counts))}"
    return "sandbox: " + ", ".join(f"{sandbox} ({count:,})" for sandbox, count in counts.most_common())


def join_parts(parts: Iterable[str]) -> str:
    """The parts that are not empty, joined by ``·``."""
    return " · ".join(part for part in parts if part)
