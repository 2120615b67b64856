"""What calls of a provider and runs of the verifier came to, as the records keep it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Usage:
    """What provider calls cost: input tokens without those from a cache, cached and output tokens, dollars.

    ``about_usd`` is what calls under a subscription said that they cost: nobody pays it, and no limit counts it.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False
    about_usd: float | None = field(default=None, metadata={"left out where it is None": True})

    @property
    def tokens(self) -> int:
        """Input, cached and output tokens together."""
        return self.input_tokens + self.cached_tokens + self.output_tokens

    def plus(self, other: Usage) -> Usage:
        """Both together; the cost is unknown only where neither is known."""
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        about = [cost for cost in (self.about_usd, other.about_usd) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            sum(costs) if costs else None,
            self.estimated or other.estimated,
            sum(about) if about else None,
        )


@dataclass(frozen=True)
class VerifierRun:
    """One measurement of one tree: ``of`` is "candidate" or "incumbent"; no value where it failed."""

    of: str
    value: float | None
    seed: int
    seconds: float


@dataclass(frozen=True)
class CommandRun:
    """One verify command as it ended; ``killed`` counts what had to be killed at its end."""

    name: str
    exit_code: int | None
    seconds: float
    killed: int = 0
