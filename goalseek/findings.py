"""Findings: what a check says of a project, and the remedy."""

from __future__ import annotations

import typing

from msgspec import Struct

from goalseek.errors import GoalseekError

Level = typing.Literal["good", "note", "wrong"]


class Finding(Struct, frozen=True):
    """One sentence of a check: it must be mended (``wrong``), is worth knowing (``note``), or is as it should be.

    ``place`` is the name under which ``doctor`` shows it.
    """

    level: Level
    text: str
    remedy: str = ""
    place: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing must be mended."""
        return self.level != "wrong"

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}" if self.remedy else self.text


def finding_of(error: GoalseekError, place: str = "") -> Finding:
    """The finding that an error makes."""
    return Finding("wrong", error.message, error.hint, place)
