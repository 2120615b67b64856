"""The manifest's tables of the climb: who proposes and reviews, what it may spend, how it searches, how many at once.

Others import them from ``tables``.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from goalseek.manifest import fields as form

FRESH = "fresh"  # in search.rotate: the provider itself, without its session


class ProviderTable(Struct, frozen=True, kw_only=True):
    """Who proposes the changes."""

    name: str
    """An agent such as `claude`, your own program (`command`), or `tune`, `scripted` or `replay`.
    Example: `name = "claude"`"""
    model: str = ""
    """The agent's model; by default the agent chooses. Example: `model = "claude-sonnet-4-5"`"""
    timeout: form.Seconds = 1800.0
    """How long one call may take. Example: `timeout = "1h"`"""
    fallback: tuple[str | ProviderTable, ...] = ()
    """Who is asked, in order, where this provider cannot answer: names, or tables with the same keys.
    Example: `fallback = ["codex"]`"""
    billing: Literal["auto", "api", "subscription"] = "auto"
    """Who pays: `subscription` costs no dollars, `api` does, and `auto` goes by the login.
    Example: `billing = "subscription"`"""
    endpoint: form.Endpoint = None
    """The address of the model's server, in place of the agent's own. Example: `endpoint = "http://localhost:8080"`"""
    credentials: form.Patterns | None = None
    """Variables and files of yours that the agent gets, in place of the preset's.
    Example: `credentials = ["MY_API_KEY"]`"""
    plan: ProviderTable | None = None
    """Another provider that makes the plans: a table with these keys. Example: `plan = { name = "gemini" }`"""
    repair: form.Whole = 1
    """How often a candidate that crashed, or edited files outside the scope, goes back to its author.
    Example: `repair = 2`"""
    prompts: str = ""
    """The folder of your own `plan.md`, `apply.md`, `repair.md` or `review.md`. Example: `prompts = "my-prompts"`"""
    record: form.Folder = None
    """The folder in which every call is stored; `replay` answers from it. Example: `record = "recordings"`"""
    command: form.Patterns | None = None
    """For `command`, the program and its words; for an agent, its program and words that come before the preset's.
    Example: `command = ["./my-agent.sh", "--edit"]`"""
    ask_plan: bool = False
    """For `command`: whether the program is called for a plan first. Example: `ask_plan = true`"""
    script: str = "moves.toml"
    """For `scripted`: the file of its moves. Example: `script = "night.toml"`"""
    sampler: Literal["tpe", "cmaes", "random"] = "tpe"
    """For `tune`: how the next values are chosen. Example: `sampler = "cmaes"`"""
    seed: int = 0
    """For `tune`: where its random numbers begin. Example: `seed = 7`"""

    @property
    def label(self) -> str:
        """Name and model: records tell proposers apart by them."""
        return f"{self.name} {self.model}".rstrip()


class ReviewTable(Struct, frozen=True, kw_only=True):
    """An agent that gives a second opinion on what would be kept."""

    provider: str | ProviderTable
    """Who reviews: a name, or a table with the keys of `[provider]`. Example: `provider = "gemini"`"""
    criteria: form.Patterns
    """What the reviewer asks of a change, a line each. Example: `criteria = ["No test is weakened."]`"""
    max_cycles: form.Positive = 3
    """How often a change may go back to its author. Example: `max_cycles = 1`"""


class Price(Struct, frozen=True, kw_only=True):
    """What a model costs, where its agent does not say so."""

    model: str
    """The model's name, as records have it. Example: `model = "gpt-5-codex"`"""
    input: form.NotNegative
    """Dollars for a million tokens of input. Example: `input = 1.25`"""
    output: form.NotNegative
    """Dollars for a million tokens of output. Example: `output = 10.0`"""
    cached: form.NotNegative | None = None
    """Dollars for a million cached tokens; by default the price of input. Example: `cached = 0.125`"""


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
