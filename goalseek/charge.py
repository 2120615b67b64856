"""What a provider's call is charged that was killed before it could say what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from statistics import median

from goalseek.ledger.records import IterationRecord
from goalseek.values import Usage

USUAL_OF = 20


def usual_call(newest_first: Iterable[IterationRecord], calls_each: int) -> Usage:
    """The median call of the last iterations that reported what they used, ``calls_each`` calls in each of them.

    A review was one more, and so was each try before the last.

    What was estimated before, as a price list does, counts only where nobody reported anything else. Nothing where
    none reported anything.
    """
    told = [(record.usage, _calls(record, calls_each)) for record in newest_first if record.usage != Usage()]
    reported = [(usage, calls) for usage, calls in told if not usage.estimated]
    known = list(islice(reported or told, USUAL_OF))
    if not known:
        return Usage()
    costs = [usage.cost_usd / calls for usage, calls in known if usage.cost_usd is not None]
    return Usage(
        math.ceil(median([usage.input_tokens / calls for usage, calls in known])),
        math.ceil(median([usage.cached_tokens / calls for usage, calls in known])),
        math.ceil(median([usage.output_tokens / calls for usage, calls in known])),
        median(costs) if costs else None,
    )


def _calls(record: IterationRecord, calls_each: int) -> int:
    """How many calls an iteration had, where one without tries and reviews has so many."""
    asked_for = sum(attempt.reason == "changes_requested" for attempt in record.attempts)
    return calls_each + len(record.attempts) + ("REVIEW" in record.seconds) + asked_for


def killed_call(reported: Usage, usual: Usage) -> Usage:
    """The larger of both, of each kind of token and of the dollars; ``estimated`` where it is not what was reported."""
    costs = [cost for cost in (reported.cost_usd, usual.cost_usd) if cost is not None]
    charged = Usage(
        max(reported.input_tokens, usual.input_tokens),
        max(reported.cached_tokens, usual.cached_tokens),
        max(reported.output_tokens, usual.output_tokens),
        max(costs, default=None),
    )
    charged = replace(charged, about_usd=reported.about_usd)
    return reported if charged == replace(reported, estimated=False) else replace(charged, estimated=True)
