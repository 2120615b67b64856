"""Who proposes. A provider is found by its name; its module is imported when it is asked for."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from goalseek.errors import UNFIT, GoalseekError
from goalseek.manifest.loading import Loaded
from goalseek.manifest.rules import table_of, tables_of, why_own_work
from goalseek.manifest.tables import Price, ProviderTable, ReviewTable
from goalseek.providers.fallback import Chain
from goalseek.providers.preset import Preset
from goalseek.providers.provider import Provider, Reviewer
from goalseek.sandbox import environment

PROVIDERS = {
    "command": "goalseek.providers.command",
    "replay": "goalseek.providers.replay",
    "scripted": "goalseek.providers.scripted",
    "tune": "goalseek.providers.tune",
}
PRESETS = {
    "claude": "goalseek.providers.presets.claude",
    "codex": "goalseek.providers.presets.codex",
    "gemini": "goalseek.providers.presets.gemini",
    "opencode": "goalseek.providers.presets.opencode",
    "aider": "goalseek.providers.presets.aider",
    "mini-swe-agent": "goalseek.providers.presets.mini_swe_agent",
}
GROUP = "goalseek.providers"
WITHOUT_PROGRAM = ("replay", "scripted", "tune")  # they start none, so there is nothing to keep in its place


def make_provider(
    table: ProviderTable, folder: Path, prices: Sequence[Price] = (), review: ReviewTable | None = None
) -> Chain:
    """Who proposes as the manifest says, with those that are asked in its place. ``folder`` is the manifest's.

    Raises GoalseekError for an unknown name, for one that another package brings and that cannot be had, and for a
    reviewer that would judge its own work.
    """
    tables = tables_of(table)
    planners = tables_of(table.plan) if table.plan else tables
    made = {one: _made(one, folder) for one in (*tables, *planners)}
    reviewers = (_reviewer(table_of(review.provider), table, folder),) if review else ()
    return Chain(tuple(made[one] for one in planners), tuple(made[one] for one in tables), tuple(prices), reviewers)


def preset(name: str) -> Preset | None:
    """The preset of that name, also one that another package brings; None for what is no preset."""
    if name in PRESETS:
        found: Preset = importlib.import_module(PRESETS[name]).PRESET
        return found
    brought = _brought(name) if name not in PROVIDERS else None
    return brought if isinstance(brought, Preset) else None


def names() -> tuple[str, ...]:
    """Every name that a provider can have."""
    more = [point.name for point in importlib.metadata.entry_points(group=GROUP)]
    return tuple(dict.fromkeys((*PRESETS, *PROVIDERS, *more)))


def _reviewer(table: ProviderTable, author: ProviderTable, folder: Path) -> Reviewer:
    if why := why_own_work(table, author):
        raise GoalseekError(f"review.provider: {why}", "or propose with another: --provider NAME")
    made = _made(table, folder)
    if not hasattr(made, "review"):
        hint = f"one of {', '.join(PRESETS)}, or a command"
        raise GoalseekError(f"review.provider: the provider {table.name!r} cannot review", hint, UNFIT, "provider")
    return cast(Reviewer, made)


def _made(table: ProviderTable, folder: Path) -> Provider:
    if table.name in PROVIDERS:
        made: Provider = importlib.import_module(PROVIDERS[table.name]).make(table, folder)
        return made
    known = preset(table.name) or _brought(table.name)
    if known is None:
        raise GoalseekError(f"there is no provider {table.name!r}", f"one of {', '.join(names())}")
    if isinstance(known, Preset):
        from goalseek.providers.coding_agent import made_of

        return made_of(known, table, folder)
    assert callable(known)
    brought: Provider = known(table, folder)
    return brought


def _brought(name: str) -> object:
    """What another package brings under this name: a Preset, or a function of table and folder; None for nothing."""
    points = importlib.metadata.entry_points(group=GROUP, name=name)
    if not points:
        return None
    point = next(iter(points))
    where = f"{point.value}, of the package {point.dist.name}" if point.dist else point.value
    try:
        found: object = point.load()
    except Exception as error:  # it is somebody else's code: whatever it raises is said, not shown as a bug of ours
        message = f"provider {name!r}: {where} cannot be loaded: {type(error).__name__}: {error}"
        raise GoalseekError(message, "mend or remove that package", UNFIT, "provider") from error
    if not isinstance(found, Preset) and not callable(found):
        message = f"provider {name!r}: {where} is neither a Preset nor a function of table and folder"
        raise GoalseekError(message, "see goalseek.providers.preset.Preset", UNFIT, "provider")
    return found


class ChosenProvider:
    """The provider of a run, made when it is first wanted, and again where the review's table has changed."""

    def __init__(self, asked: ProviderTable | None) -> None:
        self.asked = asked
        self._made: Chain | None = None
        self._review: ReviewTable | None = None

    def made(self, loaded: Loaded) -> Chain:
        """The provider that was asked for, or the manifest's. Raises GoalseekError where none can start."""
        if self._made is None or self._review != loaded.manifest.review:
            self._review = loaded.manifest.review
            self._made = chosen_provider(loaded, self.table(loaded))
            self._made.check()
        return self._made

    def is_named(self, loaded: Loaded) -> bool:
        """Whether one is named."""
        return (self.asked or loaded.manifest.provider) is not None

    def table(self, loaded: Loaded) -> ProviderTable:
        """The provider's keys. Raises GoalseekError where none is named."""
        table = self.asked or loaded.manifest.provider
        if table is None:
            hint = '--provider tune, or in the manifest: provider.name = "command" with provider.command'
            raise GoalseekError("no provider is named: who is to propose?", hint)
        return table


def chosen_provider(loaded: Loaded, table: ProviderTable) -> Chain:
    """The provider to use. Raises GoalseekError where a program would start without consent."""
    provider = make_provider(table, loaded.folder, loaded.manifest.price, loaded.manifest.review)
    for one in provider.everybody:
        if one.needs_consent:
            environment.refuse_without_consent(loaded.manifest, one.name)
        if one.needs_sandbox:
            environment.refuse_unconfined(loaded.manifest, one.name)
    return provider


def programs_of(loaded: Loaded) -> list[list[str]]:
    """The words by which the manifest's providers are started, as far as they name what is to be shown."""
    if loaded.manifest.provider is None:
        return []
    try:
        return commands_of(make_provider(loaded.manifest.provider, loaded.folder, (), loaded.manifest.review))
    except GoalseekError:  # said where the provider is looked at
        return []


def commands_of(provider: Chain) -> list[list[str]]:
    """The words by which each of those that may be asked is started, where it starts a program."""
    named: list[list[str]] = []
    for one in provider.everybody:
        words = getattr(one, "words", None) or getattr(one, "command", None)
        named += [list(words)] if words else []
    return named
