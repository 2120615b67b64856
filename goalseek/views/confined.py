"""The level of the sandbox, shown: one line where all is enforced, else a red block that says what is not."""

from __future__ import annotations

from collections.abc import Iterator

from goalseek.confinement.level import Level, how_to_get
from goalseek.views.style import Paint


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
