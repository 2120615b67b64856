"""What a report says that is not in the records: whether somebody is at work, what to do next, the bounds of guards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Surroundings:
    """``status`` is the contract's, or "" where only the records are here; ``bounds`` are guards' bounds in words.

    ``phase`` says in words what is going on, ``differs`` what is not as it was pinned, ``trouble`` what could not be
    read. ``is_live`` is a page that stays open.
    """

    status: str = ""
    phase: str = ""
    next: str = ""
    differs: tuple[str, ...] = ()
    bounds: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""
    made_at: str = ""
    version: str = ""
    is_live: bool = False
