"""The level of the sandbox, shown: one line where all is enforced, else a red block that says what is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from goalseek.project.watch import Watch
from goalseek.sandbox.level import Level, how_to_get
from goalseek.views.style import Paint


class ConfinedWatch(Watch):
    """Says the level on stderr, and nothing else; where all is enforced, not to who wants less chatter."""

    def __init__(self, paint: Paint, is_quiet: bool) -> None:
        self._paint_level = paint
        self._wants_less = is_quiet

    def confined(self, level: Level, not_enforced: tuple[str, ...]) -> None:
        """The level."""
        if self._wants_less and level.name == "bubblewrap":
            return
        for line in confined_lines(level, not_enforced, self._paint_level):
            print(line, file=sys.stderr)


def confined_lines(level: Level, not_enforced: tuple[str, ...], paint: Paint) -> Iterator[str]:
    """The lines for a person."""
    if level.name == "bubblewrap":
        yield f"sandbox: {level.name}" + (f"; {'; '.join(not_enforced)}" if not_enforced else "")
        return
    head = "no sandbox: programs run as you" if level.name == "none" else f"sandbox: {level.name}, which is not all"
    yield paint(f"{head}. Not enforced, for the agent and for a candidate's code:", "red")
    for clause in not_enforced:
        yield paint(f"  {clause}", "red")
    for reason in level.reason:
        yield paint(f"  because {reason}", "red")
    if not any(reason.startswith("sandbox.mode") for reason in level.reason):
        yield paint(f"  to have it: {how_to_get('bubblewrap')}", "red")
