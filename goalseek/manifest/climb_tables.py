"""The tables of the climb itself: what it may spend, how it looks for the next candidate, and how many at once."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from goalseek.manifest import fields as form
from goalseek.manifest.provider_tables import ProviderTable


class Budget(Struct, frozen=True, kw_only=True):
    """What may be spent."""

    iterations: form.Count = None
    """How many iterations there may be. Example: `iterations = 200`"""
    time: form.Seconds = None
    """How much active time may be spent; waiting for a provider and interruptions are not in it.
    Example: `time = "8h"`"""
    tokens: form.Count = None
    """How many tokens agents may use: input, cached and output together. Example: `tokens = 2_000_000`"""
    cost_usd: form.Cost = None
    """How many dollars agents may cost, as they report it or by `[[price]]`. Example: `cost_usd = 20.0`"""


class Limits(Budget, frozen=True, kw_only=True):
    """When a run ends by itself."""

    deadline: form.Moment = None
    """The moment at which the run ends. Example: `deadline = 2026-12-01T07:00:00Z`"""
    stagnation: form.Count = 10
    """After how many iterations without a kept change the prompts ask for another kind of change.
    Example: `stagnation = 15`"""
    stagnation_stop: form.Count = None
    """After how many iterations without a kept change the run ends and asks for a person.
    Example: `stagnation_stop = 40`"""
    failures: form.Count = 20
    """How many failed calls of the provider, or crashed candidates, in a row end the run. Example: `failures = 10`"""
    total: Budget = Budget()
    """A budget of all runs of the project together. Example: `total = { cost_usd = 100.0 }`"""


class Search(Struct, frozen=True, kw_only=True):
    """How the next proposal is looked for, and what is tried beside it."""

    rotate: tuple[str | ProviderTable, ...] = ()
    """Who proposes in turn with `provider` after a plateau: names, or tables with the same keys; `fresh` is the same
    provider without its session. Example: `rotate = ["codex"]`"""
    plateau: form.Positive = 20
    """After how many iterations without a kept change the next of `rotate` takes its turn. Example: `plateau = 30`"""
    stack: Literal["auto", "always", "none"] = "auto"
    """Whether rejected near misses of the same code are tried together, which asks no agent: `auto` where the metric is
    noisy, `always`, or `none`. Example: `stack = "none"`"""


class Parallel(Struct, frozen=True, kw_only=True):
    """How many iterations are under way at once on this machine. A change takes effect with the next iteration that
    begins; one of `benches` once all that are under way have ended."""

    agents: form.Agents = 1
    """How many proposals are made at once; `auto` follows how long this climb's proposals and measurements take.
    Example: `agents = 4`"""
    benches: form.Benches = 1
    """How many measurements are made at once. Example: `benches = 4`"""
    landings: form.Positive = 3
    """After how many measurements that came too late, because another winner landed meanwhile, a winner is given up.
    Example: `landings = 5`"""
