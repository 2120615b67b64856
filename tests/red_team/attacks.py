"""What a red team tries: one shape for an agent's attacks and for those of candidate code, and what each comes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SECRET = "the-hidden-labels"
LEVELS = ("none", "landlock", "bubblewrap")
NONE, BELOW_FULL = ("none",), ("none", "landlock")
NOWHERE: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attack:
    """``name`` is its function in the script, ``told`` says in a few words what it tries, for people.

    ``gain`` is what it gets, or "" where ``wrote`` is there outside. ``open_at`` are the levels where it succeeds,
    which the suite asserts; where there is none, its control succeeds without goalseek, or with less of it.
    """

    name: str
    told: str
    gain: str = SECRET
    wrote: str = ""
    open_at: tuple[str, ...] = NONE


def stopped(attacks: Iterable[Attack]) -> dict[str, tuple[str, ...]]:
    """By what each attack tries, the levels that stop it."""
    return {attack.told: tuple(level for level in LEVELS if level not in attack.open_at) for attack in attacks}
