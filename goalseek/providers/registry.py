"""The registry of providers: builds them by name, also those of other packages, and checks consent before a run."""

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from msgspec import structs

from goalseek.errors import GoalseekError
from goalseek.humanize import did_you_mean
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.rules import authors_of, own_work_fault, table_of, tables_of
from goalseek.manifest.tables import FRESH, Manifest, ProviderTable, ReviewTable, Search
from goalseek.providers.fallback import ProviderChain
from goalseek.providers.function import FunctionProvider, FunctionTable
from goalseek.providers.preset import Preset
from goalseek.providers.provider import Provider, Reviewer
from goalseek.sandbox import environment
from goalseek.values import FUNCTION, StopReason

PROVIDERS = ("command", "replay", "scripted", "tune")
PRESETS = ("claude", "codex", "gemini", "opencode", "aider", "mini-swe-agent")
AGENT_ADVICE = "goalseek iterate --provider NAME takes an agent (goalseek help agents)"
TUNE_ADVICE = "goalseek iterate --provider tune"
WITHOUT_PROGRAM = ("replay", "scripted", "tune", FUNCTION)  # they start none, so they need no sandbox
Maker = Preset | Callable[[ProviderTable, Path], Provider]


def make_provider(table: ProviderTable, folder: Path, manifest: Manifest | None = None) -> ProviderChain:
    """With fallbacks, turns and reviewer. Raises GoalseekError, as for a reviewer of its own work."""
    review, rotate, prices = (manifest.review, manifest.search.rotate, manifest.price) if manifest else (None, (), ())
    tables = tables_of(table)
    planners = tables_of(table.plan) if table.plan else tables
    by_table = {key: _build(key, folder) for key in (*tables, *planners)}
    reviewers = []
    if review:
        judge = table_of(review.provider)
        if why := own_work_fault(judge, authors_of(table, rotate)):
            raise GoalseekError(f"review.provider: {why}", "or propose with another: --provider NAME")
        reviewers = [cast(Reviewer, _build(judge, folder))]
        if not hasattr(reviewers[0], "review"):
            message, hint = f"the provider {judge.name!r} cannot review", f"one of {', '.join(PRESETS)}, or a command"
            raise GoalseekError(f"review.provider: {message}", hint, StopReason.PROVIDER)
    rotated: dict[str, Provider] = {}
    for entry in (table_of(other) for other in rotate if other != FRESH):
        try:
            rotated[entry.label] = _build(entry, folder)
        except GoalseekError as error:
            hint = f'{error.hint}; "{FRESH}" is the provider itself, without its session'
            message, end = f"search.rotate: {error.message}", error.stop_reason or error.exit_code
            raise GoalseekError(message, hint, end) from error
    editors = tuple(by_table[key] for key in tables)
    return ProviderChain(tuple(by_table[key] for key in planners), editors, prices, tuple(reviewers), rotated)


def _build(table: ProviderTable, folder: Path) -> Provider:
    if isinstance(table, FunctionTable):
        return FunctionProvider(table.propose)
    maker = load_maker(table.name)
    if isinstance(maker, Preset):
        from goalseek.providers.coding_agent import AgentProvider

        return AgentProvider(table, folder, maker)
    return maker(table, folder)


def load_maker(name: str) -> Maker:
    """A preset, or a function, by name; also of another package. Raises GoalseekError if it cannot be loaded."""
    if name in PROVIDERS:
        return cast(Maker, importlib.import_module(f"goalseek.providers.{name}").make)
    if name in PRESETS:
        return cast(Preset, importlib.import_module(f"goalseek.providers.presets.{name.replace('-', '_')}").PRESET)
    from importlib.metadata import entry_points  # it takes long, and most climbs need no plugin

    points = entry_points(group="goalseek.providers")
    if name not in points.names:
        names = ", ".join(dict.fromkeys((*PRESETS, *PROVIDERS, *(point.name for point in points))))
        hint = f"{did_you_mean(name, names.split(', '))} one of {names}".strip()
        raise GoalseekError(f"there is no provider {name!r}", hint)
    point = points[name]
    where = f"{point.value}, of the package {point.dist.name}" if point.dist else point.value
    try:
        plugin: Maker = point.load()
    except Exception as error:  # it is somebody else's code: whatever it raises is said, not shown as a bug of ours
        message = f"provider {name!r}: {where} cannot be loaded: {type(error).__name__}: {error}"
        raise GoalseekError(message, "repair or remove that package", StopReason.PROVIDER) from error
    if not isinstance(plugin, Preset) and not callable(plugin):
        message = f"provider {name!r}: {where} is neither a Preset nor a function of table and folder"
        raise GoalseekError(message, "see goalseek.providers.preset.Preset", StopReason.PROVIDER)
    return plugin


class ProviderChoice:
    """The provider of a run, built on first use, and again if ``review`` or ``search.rotate`` changed."""

    def __init__(self, asked: ProviderTable | None) -> None:
        self.asked = asked
        self._provider: ProviderChain | None = None
        self._others: tuple[ReviewTable | None, Search] | None = None

    def build(self, loaded: ManifestFile) -> ProviderChain:
        others = loaded.manifest.review, loaded.manifest.search
        if self._provider is None or self._others != others:
            self._others = others
            states = self._provider.states if self._provider else {}  # the time until one is closed, for example
            self._provider = structs.replace(make_permitted_provider(loaded, self.table(loaded)), states=states)
        return self._provider

    def table(self, loaded: ManifestFile) -> ProviderTable:
        table = self.asked or loaded.manifest.provider
        if table is None:
            hint = f'{AGENT_ADVICE}; or in the manifest: provider.name = "command" with provider.command'
            raise GoalseekError("no provider is named, so nobody can propose", hint)
        return table


def advise_provider(contents: Iterable[bytes]) -> str:
    return TUNE_ADVICE if any(b"goalseek:" in content for content in contents) else AGENT_ADVICE


def make_permitted_provider(loaded: ManifestFile, table: ProviderTable) -> ProviderChain:
    """Raises GoalseekError if a program would start without consent, or a provider cannot start."""
    provider = make_provider(table, loaded.folder, loaded.manifest)
    for member in provider.members:
        if member.needs_consent:
            environment.refuse_unconfined(loaded.manifest, member.name, member.needs_sandbox)
    for member in provider.members:  # also one that is only a fallback, or has no turn yet
        member.check()
    return provider


def manifest_commands(loaded: ManifestFile) -> list[list[str]]:
    """The command lines of the manifest's providers, whose programs a sandbox must show."""
    if loaded.manifest.provider is None:
        return []
    try:
        return make_provider(loaded.manifest.provider, loaded.folder, loaded.manifest).commands
    except GoalseekError:  # the check of the provider says it
        return []
