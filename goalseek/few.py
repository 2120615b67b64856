"""A long list in a few words."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 5


def few(names: Sequence[str]) -> str:
    """The first five, and how many more there are."""
    rest = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {rest} more" if rest > 0 else "")
