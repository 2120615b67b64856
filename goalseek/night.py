"""What a night will cost, at the rate of the last iterations."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from statistics import median

from goalseek.humanize import counted, in_words, number
from goalseek.ledger.records import IterationRecord
from goalseek.manifest.tables import Limits
from goalseek.project.limits import pace

RATE_OF = 20
USUAL_NIGHT = 8 * 3600.0


def night(newest_first: Iterable[IterationRecord], limits: Limits) -> str:
    """One sentence; "" where nothing was spent yet that a rate could be made of.

    A night is as long as ``limits.time`` says, or eight hours, and has no more iterations than ``limits.iterations``.
    """
    tries = [record for record in islice(newest_first, RATE_OF) if record.outcome != "baseline"]
    each = pace(tries)
    if not each or not any(record.usage.tokens for record in tries):
        return ""
    seconds = limits.time or USUAL_NIGHT
    count = max(int(seconds / each), 1)
    count = min(count, limits.iterations) if limits.iterations else count
    tokens = median(record.usage.tokens for record in tries) * count
    told = f"about {counted(count, 'iteration')} and {float(f'{tokens:.3g}'):,.0f} tokens"
    for shown, name in (("${}", "cost_usd"), ("about ${}, which the subscription pays", "about_usd")):
        costs = [cost for record in tries if (cost := getattr(record.usage, name)) is not None]
        if costs:
            told += ", " + shown.format(number(round(median(costs) * count, 2)))
    return f"a night of {in_words(seconds)}, at the rate of the last {len(tries)}: {told}"
