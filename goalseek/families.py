"""Kinds of ideas: past tries grouped by what their titles say once numbers, quotes and paths are taken out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from goalseek.phase_values import PastTry

FAMILIES_MOST = 10
_WORDS_MOST = 3
_TITLE_MOST = 120
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
    return Family(name, len(tries), kept, best, tries[0].title[:_TITLE_MOST])
