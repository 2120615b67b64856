"""The programs that a provider had started since the last record, each written down before it starts.

One that was begun, and whose phase has no answer, was killed together with the tool, or its answer is not believed any
more: it was paid for all the same, and the next record is charged for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median

from goalseek.humanize import format_duration, format_number, pluralize
from goalseek.ledger.checkpoints import Checkpoints
from goalseek.ledger.records import IterationRecord
from goalseek.manifest.tables import Limits
from goalseek.phase_values import Session
from goalseek.project.limits import pace
from goalseek.values import Usage


@dataclass(frozen=True)
class CallEntry:
    """A call that began in a phase; ``charged`` is None while the phase's own answer may tell what it cost, which is
    stored as ``answer``.

    ``killed`` is how many programs it left running, which were ended. ``failed`` says why another was made in its
    place; what it used is charged then, as a killed one's where it was ``timed_out``. ``home`` says for what its HOME
    was made, ``session`` in which session it was, once it is known to have ended there.
    """

    phase: str
    charged: Usage | None = None
    killed: int = 0
    failed: str = ""
    answer: str = ""
    timed_out: bool = False
    home: str = ""
    session: Session | None = None


@dataclass(frozen=True)
class NewCall:
    """All of them, in order."""

    calls: tuple[CallEntry, ...] = ()


class UsageLog:
    """The calls that the next record has to pay for.

    ``memory`` binds them to the record that they follow. ``reported`` reads what the last one said of its usage;
    ``usual`` is the median call of an iteration with so many calls. ``for_answer`` is as what the answer will be stored
    that calls begin for now.
    """

    def __init__(self, checkpoints: Checkpoints, reported: Callable[[], Usage], usual: Callable[[int], Usage]) -> None:
        self._memory = checkpoints
        self._reported = reported
        self._usual = usual
        self.current_step = ""
        stored = checkpoints.load("calls", NewCall, "calls")
        self._begun: tuple[CallEntry, ...] = stored.value.calls if stored else ()

    def begin(self, phase: str, home: str = "") -> None:
        """Says durably that a call begins."""
        self._store((*self._begun, CallEntry(phase, answer=self.current_step, home=home)))

    def ended(self, killed: int, timed_out: bool) -> None:
        """Notes how many programs the last call left running, and whether its time was up."""
        if killed or timed_out:
            self._store((*self._begun[:-1], replace(self._begun[-1], killed=killed, timed_out=timed_out)))

    def set_session(self, session: Session) -> None:
        """Notes in which session the last call was."""
        self._store((*self._begun[:-1], replace(self._begun[-1], session=session)))

    def session(self, home: str) -> Session | None:
        """The session of the last call that began in this HOME; None where that was killed, or told of none."""
        return next((call.session for call in reversed(self._begun) if call.home == home), None)

    def failed(self, phase: str, why: str, usage: Usage) -> None:
        """Notes that the last call came to no answer by itself, and what it used; also where it started nothing."""
        earlier, last = self._begun[:-1], self._begun[-1:]
        if not last or last[0].answer != self.current_step:
            earlier, last = self._begun, (CallEntry(phase, answer=self.current_step),)
        (call,) = last
        if call.timed_out and call.charged is None:
            usage = killed_call(usage, self.usual())
        paid = usage.plus(call.charged or Usage())
        self._store((*earlier, replace(call, charged=paid, failed=why)))

    def settle(self, answered: Collection[str]) -> None:
        """Charges each call that began for an answer that is not among these."""
        settled = list(self._begun)
        for place, call in enumerate(self._begun):
            if call.charged is None and call.answer not in answered:
                reported = self._reported() if place == len(self._begun) - 1 else Usage()
                settled[place] = replace(call, charged=killed_call(reported, self.usual()), session=None)
        if settled != list(self._begun):
            self._store(tuple(settled))

    def usual(self) -> Usage:
        """The median call; a provider that was asked for a plan is called twice an iteration."""
        return self._usual(2 if any(call.phase == "PLAN" for call in self._begun) else 1)

    @property
    def charged(self) -> Usage:
        """What the killed calls are charged together."""
        return sum_of([call.charged for call in self._begun if call.charged is not None])

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each killed call, and for each that left programs running."""
        told = []
        for call in self._begun:
            if call.failed:
                told.append(f"in {call.phase} {call.failed}")
            elif call.charged is not None:
                told.append(f"a call in {call.phase} came to no answer; it is charged {_shown(call.charged)}")
            if call.killed:
                told.append(f"programs that the provider left running in {call.phase} were ended: {call.killed}")
        return tuple(told)

    def _store(self, begun: tuple[CallEntry, ...]) -> None:
        self._begun = begun
        self._memory.save("calls", NewCall(begun), "calls", 0.0)


def sum_of(usages: Collection[Usage]) -> Usage:
    """All of it together."""
    total = Usage()
    for usage in usages:
        total = total.plus(usage)
    return total


def _shown(usage: Usage) -> str:
    dollars = "" if usage.cost_usd is None else f", {usage.cost_usd:.6g} dollars"
    return f"{usage.tokens} tokens{dollars}"


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


RATE_OF = 20
USUAL_NIGHT = 8 * 3600.0


def forecast_cost(newest_first: Iterable[IterationRecord], limits: Limits) -> str:
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
    told = f"about {pluralize(count, 'iteration')} and {float(f'{tokens:.3g}'):,.0f} tokens"
    for shown, name in (("${}", "cost_usd"), ("about ${}, which the subscription pays", "about_usd")):
        costs = [cost for record in tries if (cost := getattr(record.usage, name)) is not None]
        if costs:
            told += ", " + shown.format(format_number(round(median(costs) * count, 2)))
    return f"a night of {format_duration(seconds)}, at the rate of the last {len(tries)}: {told}"
