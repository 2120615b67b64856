"""The brief: what the agent is told of the climb, as JSON. Bounded, newest first, the best always in."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Limits, Manifest
from goalseek.phase_values import Context, PastTry
from goalseek.values import to_plain


@dataclass(frozen=True)
class BriefMetric:
    """What is climbed."""

    name: str
    direction: Literal["maximize", "minimize"]


@dataclass(frozen=True)
class Stagnation:
    """Iterations since the last keep, and whether these are too many to go on in the same way."""

    iterations: int
    flattened: bool


@dataclass(frozen=True)
class Crashes:
    """How many candidates in a row crashed, how their output ended alike, and how that of the last one did."""

    in_a_row: int
    common_ending: str
    iteration: int | None
    last: str


@dataclass(frozen=True)
class Tried:
    """An earlier iteration."""

    iteration: int
    outcome: str
    reason: str
    value: float | None
    changed_files: list[str]
    title: str
    why: str


@dataclass(frozen=True)
class Brief:
    """What an agent is told, in the file ``$GOALSEEK_BRIEF``; ``history`` is newest first."""

    project: str
    metric: BriefMetric
    incumbent: float
    baseline: float
    best: float
    iteration: int
    writable: list[str]
    read_only: list[str]
    directions: list[str]
    stagnation: Stagnation
    families: list[Family]
    crashes: Crashes
    left: dict[str, Any]
    history: list[Tried]


BYTES_MOST = 32 * 1024
_DIRECTIONS_MOST = 6 * 1024
_PATTERNS_MOST = 2 * 1024
_FILES_MOST = 6
_PATH_MOST = 120
_TITLE_MOST = 200
_WHY_MOST = 400
_NAME_MOST = 120
_PRINTED_MOST = 1536


def make_brief(
    context: Context, history: Sequence[PastTry], manifest: Manifest, left: dict[str, Any]
) -> dict[str, Any]:
    """The brief. Its history, newest first and with the best always in, is as long as 32 KiB of JSON allow."""
    found = [_family_row(family) for family in families(history, manifest.metric.direction)]
    brief: dict[str, Any] = {
        "project": manifest.project.name,
        "metric": {"name": manifest.metric.name, "direction": manifest.metric.direction},
        "incumbent": context.incumbent_value,
        "baseline": context.baseline_value,
        "best": context.best_value,
        "iteration": context.iteration,
        "writable": _within(manifest.scope.writable, _PATTERNS_MOST),
        "read_only": _within(manifest.scope.read_only, _PATTERNS_MOST),
        "directions": _within(context.directions, _DIRECTIONS_MOST),
        "stagnation": {"iterations": context.stagnation, "flattened": context.flattened},
        "families": found,
        "crashes": {
            "in_a_row": context.crashes,
            "common_ending": _tail(context.common_ending, _PRINTED_MOST),
            "iteration": context.crashed_in,
            "last": _tail(context.last_crash, _PRINTED_MOST),
        },
        "left": left,
        "history": [],
    }
    best = next((past for past in history if past.iteration == context.best_iteration), None)
    rows: list[dict[str, Any]] = []
    room = BYTES_MOST - len(in_json(brief)) - (_row_and_size(best)[1] if best else 0)
    for past in history:
        row, size = _row_and_size(past)
        room -= 0 if past is best else size
        if room < 0:
            break
        rows.append(row)
    if best and best.iteration not in [row["iteration"] for row in rows]:
        rows.append(_row_and_size(best)[0])
    return {**brief, "history": rows}


def in_json(brief: dict[str, Any]) -> str:
    """The brief as it is handed over."""
    return json.dumps(brief, indent=1) + "\n"


def what_is_left(limits: Limits, standing: Standing) -> dict[str, Any]:
    """What may still be spent, by limit, of the run or of all runs, whichever is less; only limits that are set."""
    left: dict[str, Any] = {}
    for budget, spend in ((limits, standing.spend), (limits.total, standing.total)):
        rows: tuple[tuple[str, float | None, float], ...] = (
            ("iterations", budget.iterations, spend.iterations),
            ("seconds", budget.time, round(spend.seconds)),
            ("tokens", budget.tokens, spend.tokens),
            ("cost_usd", budget.cost_usd, spend.usage.cost_usd or 0.0),
        )
        for key, most, spent in rows:
            if most is not None:
                rest = max(round(most - spent, 6), 0)
                left[key] = min(left.get(key, rest), rest)
    if limits.deadline is not None:
        left["deadline"] = limits.deadline.isoformat()
    return left


@functools.lru_cache(maxsize=512)  # the next brief has nearly the same
def _row_and_size(past: PastTry) -> tuple[dict[str, Any], int]:
    """A try as the brief has it, and the bytes that it takes there: each line of it is two deeper."""
    row = _row(past)
    text = json.dumps(row, indent=1)
    return row, len(text) + 2 * (text.count("\n") + 1) + 2


def _row(past: PastTry) -> dict[str, Any]:
    files = [path for path in past.changed_files if len(path) <= _PATH_MOST][:_FILES_MOST]
    more = len(past.changed_files) - len(files)
    return {
        "iteration": past.iteration,
        "outcome": past.outcome,
        "reason": past.reason,
        "value": past.value,
        "changed_files": [*files, f"and {more} more"] if more else files,
        "title": _cut(past.title, _TITLE_MOST),
        "why": _cut(past.why, _WHY_MOST),
    }


def _family_row(family: Family) -> dict[str, Any]:
    row: dict[str, Any] = to_plain(family)
    return {**row, "name": _cut(family.name, _NAME_MOST), "example": _cut(family.example, _NAME_MOST)}


def _within(lines: Sequence[str], most: int) -> list[str]:
    """The lines, from the last one backwards, as far as so many bytes of JSON allow; the last is cut to fit."""
    kept: list[str] = []
    for line in reversed(lines):
        if most < 64:
            break
        while line and len(json.dumps(line)) > most:
            line = line[: len(line) * most // (len(json.dumps(line)) + 1)]
        most -= len(json.dumps(line)) + 6
        kept.insert(0, line)
    return kept


def _cut(text: str, most: int) -> str:
    """One line, at most so many bytes of JSON long."""
    line = " ".join(text.split())
    while len(json.dumps(line)) - 2 > most:
        line = line[: len(line) * most // (len(json.dumps(line)) + 1) - 1].rstrip("…") + "…"
    return line


def _tail(text: str, most: int) -> str:
    """The end of a text, at most so many bytes of JSON long."""
    while len(json.dumps(text)) - 2 > most:
        text = text[-(len(text) * most // (len(json.dumps(text)) + 1)) :]
    return text


FAMILIES_MOST = 10
_WORDS_MOST = 3
_FAMILY_TITLE_MOST = 120
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)")
_PATH = re.compile(r"\S*/\S*|\b[\w-]+\.[a-z]\w{0,4}\b")
_NUMBER = re.compile(r"\S*\d\S*")
_WORD = re.compile(r"[^\W\d_]+")
_SAYS_LITTLE = frozenset(
    "a an the this that these its it is are be was to of in on at by for from with without into as and or not no more "
    "than then so i we some instead use using try make made".split()
)


@dataclass(frozen=True)
class Family:
    """Tries of one kind: how many, how many of them were kept, the best value of any, and the newest one's title."""

    name: str
    tries: int
    kept: int
    best: float | None
    example: str


def families(history: Iterable[PastTry], direction: str, most: int = FAMILIES_MOST) -> tuple[Family, ...]:
    """The ``most`` largest families of a history that is newest first; baselines are no tries.

    Of two families of one size that which was tried last comes first.
    """
    groups: dict[str, list[PastTry]] = {}
    for past in history:
        if past.outcome != "baseline":
            groups.setdefault(name_of(past), []).append(past)
    found = [_family(name, tries, direction) for name, tries in groups.items()]
    return tuple(sorted(found, key=lambda family: -family.tries)[:most])


def name_of(past: PastTry) -> str:
    """The first significant words of its title; where there are none, the files that it changed."""
    title = past.title.casefold()
    for noise in (_QUOTED, _PATH, _NUMBER):
        title = noise.sub(" ", title)
    words = [word for word in _WORD.findall(title) if word not in _SAYS_LITTLE]
    return " ".join(list(dict.fromkeys(words))[:_WORDS_MOST]) or ", ".join(past.changed_files[:3]) or "(untitled)"


def _family(name: str, tries: list[PastTry], direction: str) -> Family:
    values = [past.value for past in tries if past.value is not None]
    best = (max if direction == "maximize" else min)(values, default=None)
    kept = sum(past.outcome == "kept" for past in tries)
    return Family(name, len(tries), kept, best, tries[0].title[:_FAMILY_TITLE_MOST])
