"""What a call costs by the manifest's price list, where its agent reports no cost; and what nobody pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goalseek.manifest.tables import Price
from goalseek.values import Usage

_EACH = 1_000_000


def priced(usage: Usage, models: Sequence[str], prices: Sequence[Price], is_subscription: bool) -> Usage:
    """The usage with what it costs. An estimate is marked; what a subscription says is about, and is not paid.

    ``models`` are the names that the model goes by; the first that has a price counts.
    """
    if usage.cost_usd is None and usage.tokens:
        price = next((price for model in models for price in prices if model and price.model == model), None)
        if price:
            cost = (
                usage.input_tokens * price.input
                + usage.cached_tokens * (price.input if price.cached is None else price.cached)
                + usage.output_tokens * price.output
            ) / _EACH
            usage = replace(usage, cost_usd=cost, estimated=True)
    if is_subscription and usage.cost_usd is not None:
        return replace(usage, cost_usd=None, about_usd=usage.cost_usd)
    return usage
