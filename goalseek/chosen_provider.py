"""Who proposes: the provider that was asked for on the command line, or the manifest's."""

from __future__ import annotations

from goalseek.errors import GoalseekError
from goalseek.manifest.loading import Loaded
from goalseek.manifest.tables import ProviderTable, ReviewTable
from goalseek.providers.fallback import Chain
from goalseek.providers.registry import make_provider
from goalseek.sandbox import environment


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
