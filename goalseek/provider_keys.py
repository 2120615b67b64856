"""What is wrong with a provider's table whose keys are right by themselves: nothing is accepted and ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator

from goalseek.manifest import ProviderTable

_OF_COMMAND = ("ask_plan",)
_OF_ALL = ("repair", "prompts", "record")
_NO_USE = {
    "scripted": ("model", "command", "endpoint", "credentials", "billing", "ask_plan"),
    "tune": ("model", "command", "endpoint", "credentials", "billing", "ask_plan"),
    "replay": ("model", "command", "endpoint", "credentials", "billing", "ask_plan", "timeout", "record"),
    "command": ("endpoint",),
}
Place = tuple[str | int, ...]


def wrong_provider(place: Place, table: ProviderTable, inner: tuple[str, ...] = ()) -> Iterator[tuple[Place, str]]:
    """What is wrong in a table, and in those that it holds. One of those has no ``inner`` keys."""
    if table.name == "command" and not table.command:
        yield (*place, "command"), 'is required by the provider "command": ["my-agent", "--edit"]'
    elif table.command is not None and not table.command:
        yield (*place, "command"), 'is empty: ["/opt/agent/bin/agent"]'
    if table.name == "replay" and not table.recordings:
        yield (*place, "recordings"), 'is required by the provider "replay": the folder that provider.record named'
    elif table.name != "replay" and table.recordings:
        yield (*place, "recordings"), f"has no use with the provider {table.name!r}: provider.record stores its calls"
    usual = ProviderTable(name=table.name)
    for key in _NO_USE.get(table.name, _OF_COMMAND):
        if getattr(table, key) != getattr(usual, key):
            yield (*place, key), f"has no use with the provider {table.name!r}"
    for name in table.credentials or ():
        if not re.fullmatch(r"[A-Za-z_]\w*", name) and not name.startswith(("/", "~/")):
            yield (*place, "credentials"), f"{name!r} is neither a variable nor a path beginning with / or ~/"
    for key in inner:
        if getattr(table, key) != getattr(usual, key):
            yield (*place, key), "belongs in [provider] itself"
            return
    if table.plan:
        yield from wrong_provider((*place, "plan"), table.plan, ("plan", *_OF_ALL))
    for number, other in enumerate(table.fallback):
        asked = ProviderTable(name=other) if isinstance(other, str) else other
        at = (*place, "fallback", number)
        if isinstance(other, str) and other == "command":
            yield at, 'is a table for the provider "command": { name = "command", command = ["my-agent"] }'
        else:
            yield from wrong_provider(at, asked, ("fallback", "plan", *_OF_ALL))
        if asked == table or other in table.fallback[:number]:
            yield at, f"{asked.name!r} is asked already"
