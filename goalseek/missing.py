"""An object that git no longer has: how git names it, and what a person is told."""

from __future__ import annotations

import re

from goalseek.errors import UNFIT, GoalseekError

_UNREADABLE = re.compile(
    r"(?:unable to (?:read|find)|bad (?:tree )?object|not a (?:tree|valid) object|missing|could not read)"
    r"[^\n]*?\b([0-9a-f]{40,64})\b",
    re.IGNORECASE,
)


class Missing(GoalseekError):
    """An object that the store does not have, though it was there: somebody pruned it, or the store is broken."""

    def __init__(self, name: str) -> None:
        hint = (
            "it was pruned, or the store is broken: see git fsck; where there is a clone, fetch it from there: "
            "git fetch CLONE 'refs/goalseek/*:refs/goalseek/*'; then the same command goes on"
        )
        super().__init__(f"git does not have the object {name} any more", hint, UNFIT, "repository")


def missing_in(said: str) -> Missing | None:
    """What to raise where git's words name an object that it does not have."""
    unreadable = _UNREADABLE.search(said)
    return Missing(unreadable[1]) if unreadable else None
