"""The manifest's tables of who proposes, who gives a second opinion, and what a model costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from goalseek.manifest_forms import Endpoint, Folder, NotNegative, Patterns, Positive, Seconds, Whole


@dataclass(frozen=True, kw_only=True)
class ProviderTable:
    """Who proposes. The keys below ``plan`` belong to the provider that the comment names."""

    name: str
    model: str = ""
    timeout: Seconds = 1800.0
    fallback: tuple[str | ProviderTable, ...] = ()
    billing: Literal["auto", "api", "subscription"] = "auto"
    endpoint: Endpoint = None
    credentials: Patterns | None = None
    plan: ProviderTable | None = None
    repair: Whole = 1
    prompts: str = ""
    record: Folder = None
    command: Patterns | None = None  # command; of another, the program with words that come first
    ask_plan: bool = False  # command
    script: str = "moves.toml"  # scripted
    recordings: str = ""  # replay
    sampler: Literal["tpe", "cmaes", "random"] = "tpe"  # tune
    seed: int = 0  # tune


@dataclass(frozen=True, kw_only=True)
class ReviewTable:
    """Who gives a second opinion on what would be kept, by which criteria.

    ``max_cycles`` is how often a change may go back to its author.
    """

    provider: str | ProviderTable
    criteria: Patterns
    max_cycles: Positive = 3


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a model costs where its agent does not say so: dollars per million tokens; ``cached`` like input if none."""

    model: str
    input: NotNegative
    output: NotNegative
    cached: NotNegative | None = None
