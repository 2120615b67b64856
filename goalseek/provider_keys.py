"""What is wrong with a provider's table whose keys are right by themselves: nothing is accepted and ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator

from goalseek.manifest_providers import ProviderTable, ReviewTable

_OF_COMMAND = ("ask_plan",)
_OF_ALL = ("repair", "prompts", "record")
_NO_USE = {
    "scripted": ("model", "command", "endpoint", "credentials", "billing", "ask_plan"),
    "tune": ("model", "command", "endpoint", "credentials", "billing", "ask_plan"),
    "replay": ("model", "command", "endpoint", "credentials", "billing", "ask_plan", "timeout", "record"),
    "command": ("endpoint",),
}
_PLAY_EDITS = ("scripted", "tune")
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


def tables_of(table: ProviderTable) -> tuple[ProviderTable, ...]:
    """A provider's table and those of its fallback, in the order in which they are asked."""
    return (table, *map(table_of, table.fallback))


def table_of(named: str | ProviderTable) -> ProviderTable:
    """The table of a provider that is named, or has one."""
    return ProviderTable(name=named) if isinstance(named, str) else named


def wrong_review(review: ReviewTable, author: ProviderTable | None) -> Iterator[tuple[Place, str]]:
    """What is wrong in ``[review]``. Without an ``author`` nobody knows yet who proposes."""
    place = ("review", "provider")
    table = table_of(review.provider)
    if review.provider == "command":
        yield place, 'is a table for the provider "command": { name = "command", command = ["my-agent"] }'
    elif table.name in _PLAY_EDITS:
        yield place, f"the provider {table.name!r} proposes edits and cannot judge any"
    else:
        yield from wrong_provider(place, table, ("fallback", "plan", "ask_plan", *_OF_ALL))
    if author and (why := why_own_work(table, author)):
        yield place, why
    if not review.criteria:
        yield ("review", "criteria"), 'name at least one: ["No test is weakened."]'
    for number, criterion in enumerate(review.criteria):
        if not criterion.strip() or len(criterion.splitlines()) > 1:
            yield ("review", "criteria", number), "is one line of text"


def why_own_work(reviewer: ProviderTable, author: ProviderTable) -> str:
    """Why this provider would judge its own work: it is among those who plan and edit; "" where it is not."""
    authors = tables_of(author) + (tables_of(author.plan) if author.plan else ())
    if not any(_is_same(reviewer, one) for one in authors):
        return ""
    return f"{reviewer.name!r} proposes the changes itself, and nobody reviews his own: name another provider"


def _is_same(one: ProviderTable, other: ProviderTable) -> bool:
    """Whether both are one agent; of programs without a name, whether both are started by the same words.

    What is played again was said by somebody else.
    """
    return one.name == other.name != "replay" and (one.name != "command" or one.command == other.command)
