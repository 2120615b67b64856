"""Who proposes. A provider is found by its name; its module is imported when it is asked for."""

from __future__ import annotations

import importlib
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.manifest import ProviderTable
from goalseek.providers.provider import Provider

PROVIDERS = {
    "command": "goalseek.providers.command",
    "scripted": "goalseek.providers.scripted",
    "tune": "goalseek.providers.tune",
}
WITHOUT_PROGRAM = ("scripted", "tune")  # they start none, so there is nothing to keep in its place
NOT_YET = ("claude", "codex", "gemini", "opencode", "aider", "mini-swe-agent", "replay")


def make_provider(table: ProviderTable, folder: Path) -> Provider:
    """The provider that the manifest names. ``folder`` is the manifest's. Raises GoalseekError for an unknown name."""
    if table.name in NOT_YET:
        hint = 'use provider.name = "command" with that program\'s command line'
        raise GoalseekError(f"provider {table.name!r}: not yet", hint)
    if table.name not in PROVIDERS:
        raise GoalseekError(f"there is no provider {table.name!r}", f"one of {', '.join(PROVIDERS)}")
    made: Provider = importlib.import_module(PROVIDERS[table.name]).make(table, folder)
    return made
