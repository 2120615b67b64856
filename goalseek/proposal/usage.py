"""Usage of the provider's calls since the last record, the usual usage of a call, and the forecast for a night.

Each call is stored before its program starts: one without an answer was paid for too, and the next record is charged.
"""

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from msgspec import Struct, structs

from goalseek.humanize import at_least, format_dollars, format_duration, pluralize
from goalseek.ledger.checkpoints import CALLS, CheckpointName, Checkpoints
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Limits
from goalseek.phase_values import Edit, Session
from goalseek.project.limits import Spending
from goalseek.project.progress import median_iteration_seconds
from goalseek.providers.preset import TOKENS
from goalseek.records import IterationRecord
from goalseek.statistics.noise import median
from goalseek.values import Outcome, Phase, Usage, from_plain


class CallEntry(Struct, frozen=True):
    phase: str
    charged: Usage | None = None  # None while the cost may still come from checkpoint ``answer``
    killed: int = 0  # programs that it left running, which were ended
    failed: str = ""  # why another call was made in its place: its usage is charged then
    answer: str = ""
    cut_short: bool = False  # its own program was killed, by its timeout for example
    home: str = ""  # the label of its HOME
    session: Session | None = None  # once it is known to have ended there
    provider: str = ""
    model: str = ""
    run_id: str = ""  # "" for the present run
    edits: tuple[Edit, ...] | None = None  # of a failed call, left in the workspace for the session's next turn


class UsageLog:
    """The calls that the next record has to pay for, with the usage of the ``answers`` by their checkpoints."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        usage_left: Callable[[CallEntry, Session | None], Usage],  # of the last call, after this session
        median_of: Callable[[int], Usage],  # of a call, in an iteration with so many
        standing: Callable[[], Standing],  # of the run, with the spend until now
    ) -> None:
        self.answers: dict[CheckpointName, Usage] = {}
        self.standing, self._usage_left, self._median_of = standing, usage_left, median_of
        self._run_id, self._checkpoints = checkpoints.run_id, checkpoints.of_run("")  # a later run pays for this one's
        self.current_step = ""  # the checkpoint that the next calls belong to
        self.is_settled = False
        self.running = Usage()  # of a call under way, if that is looked at
        stored = self._checkpoints.load(CALLS, dict[str, tuple[CallEntry, ...]], str(CALLS))
        self._calls: tuple[CallEntry, ...] = stored.value.get("calls", ()) if stored else ()

    def add(self, phase: str, home: str = "", asked: tuple[str, str] = ("", "")) -> None:
        """Store durably that a call begins; ``asked`` are its provider and model."""
        self.is_settled = False
        entry = CallEntry(phase, answer=self.current_step, home=home, provider=asked[0], model=asked[1])
        self._store((*self._calls, structs.replace(entry, run_id=self._run_id)))

    def note(self, **fields: Any) -> None:
        self._store((*self._calls[:-1], structs.replace(self._calls[-1], **fields)))

    def session(self, home: str) -> Session | None:
        """The session of the last call in this HOME; None if it was killed, or has reported none."""
        return next((call.session for call in reversed(self._calls) if call.home == home), None)

    def last_session(self, home: str, before: int | None = None) -> Session | None:
        """The last session that a call in this HOME reported, of those before the call of this index."""
        calls = reversed(self._calls[:before])
        return next((call.session for call in calls if call.home == home and call.session), None)

    @property
    def resumable(self) -> CallEntry | None:
        """The last call of this step, if it failed and its session can go on."""
        last = self._calls[-1] if self._calls else None
        return last if last and last.failed and last.session and last.answer == self.current_step else None

    def drop_session(self) -> None:
        if self._calls and self._calls[-1].session:
            self.note(session=None, edits=None)

    def charge(self, usage: Usage) -> Usage:
        """The charge for the last call, which gave no answer; ``usage`` is known."""
        last = self._calls[-1] if self._calls else CallEntry("")
        is_killed = last.cut_short and last.charged is None and last.answer == self.current_step
        return killed_call_usage(usage, self.usual()) if is_killed else usage

    def note_failure(self, phase: str, why: str, usage: Usage) -> None:
        """Note that the last call gave no answer, even if it started no program."""
        earlier, last = self._calls[:-1], self._calls[-1:]
        if not last or last[0].answer != self.current_step:
            earlier, last = self._calls, (CallEntry(phase, answer=self.current_step, run_id=self._run_id),)
        (call,) = last
        total = self.charge(usage).plus(call.charged or Usage())
        self._store((*earlier, structs.replace(call, charged=total, failed=why)))

    def settle(self) -> None:
        """Charge each call whose answer is not among the checkpoints: its report, if it was answered."""
        calls = list(self._calls)
        for index, call in enumerate(self._calls):
            name = CheckpointName.parse(call.answer)
            if call.charged is not None or name in self.answers:
                continue
            stored = self._checkpoints.of_run(call.run_id or self._run_id).stored()
            if name and (answer := stored.get(name) or stored.get(name.rejection)):
                usage = from_plain(Usage, answer.value["usage"])
                why = f"an answer was not used; it counts as {_charge_text(usage)}"
                calls[index] = structs.replace(call, charged=usage, failed=why, session=None)
            else:
                is_last = index == len(self._calls) - 1
                usage = self._usage_left(call, self.last_session(call.home, index)) if is_last else Usage()
                calls[index] = structs.replace(call, charged=killed_call_usage(usage, self.usual()), session=None)
        if calls != list(self._calls):
            self._store(tuple(calls))
        self.is_settled = True

    def usual(self) -> Usage:
        """The median call of recorded iterations, or else of this one."""
        usual = self._median_of(2 if any(call.phase == Phase.PLAN for call in self._calls) else 1)  # calls an iteration
        return usual if usual != Usage() else median_usage([(usage, 1) for usage in self.answers.values()])

    def spending(self, seconds: float = 0.0) -> Spending:
        """With an estimate for killed calls."""
        charged: list[Usage] = []
        before_run: list[Usage] = []
        for call in self._calls:
            if call.charged and call.charged != Usage():
                (charged if call.run_id in ("", self._run_id) else before_run).append(call.charged)
        usage = Usage.total([*self.answers.values(), Usage.total(charged), self.running])
        return Spending(seconds, usage, Usage.total(before_run) if before_run else None)

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each killed or failed call, and for each that left programs running; equal ones once."""
        notes = []
        for call in self._calls:
            if call.failed:
                notes.append(f"in {call.phase} {call.failed}")
            elif call.charged is not None:
                charge = _charge_text(call.charged)
                notes.append(f"a call in {call.phase} ended without an answer; it counts as {charge}")
            if call.killed:
                notes.append(f"programs that the provider left running in {call.phase} were ended: {call.killed}")
        return tuple(dict.fromkeys(notes))

    def _store(self, calls: tuple[CallEntry, ...]) -> None:
        self._calls = calls
        self._checkpoints.save(CALLS, {"calls": calls}, str(CALLS), 0.0)


def _charge_text(usage: Usage) -> str:
    dollars = "" if usage.cost_usd is None else f", {at_least(usage)}{usage.cost_usd:.6g} dollars"
    return f"{usage.tokens} tokens{dollars}"


MEDIAN_ITERATIONS = 20


def median_call(newest_first: Iterable[IterationRecord], calls_each: int) -> Usage:
    rows = []
    for record in newest_first:
        # A review is one call more, and so is each attempt before the last, unless git moved it to a later tip.
        review_repairs = sum(attempt.reason == "changes_requested" for attempt in record.attempts)
        asked = sum(attempt.base_commit_hash is None for attempt in record.attempts)
        rows.append((record.usage, calls_each + asked + (Phase.REVIEW in record.seconds) + review_repairs))
    return median_usage(rows)


def median_usage(newest_first: Iterable[tuple[Usage, int]]) -> Usage:
    """The median call, of the newest of these totals of so many calls each; empty without any."""
    usages = [(usage, calls) for usage, calls in newest_first if usage != Usage()]
    exact = [(usage, calls) for usage, calls in usages if not usage.estimated]
    newest = list(islice(exact or usages, MEDIAN_ITERATIONS))  # estimates, by a price list say, only without others
    if not newest:
        return Usage()
    costs = [usage.cost_usd / calls for usage, calls in newest if usage.cost_usd is not None]
    tokens = {name: math.ceil(median([getattr(usage, name) / calls for usage, calls in newest])) for name in TOKENS}
    return structs.replace(Usage(cost_usd=median(costs) if costs else None), **tokens)


def killed_call_usage(usage: Usage, median_usage: Usage) -> Usage:
    """The larger of both for each kind of token and the dollars; ``estimated`` unless that is the report."""
    cost = median_usage.cost_usd
    if cost is not None and usage.cost_usd is None and median_usage.tokens:
        cost *= max(usage.tokens / median_usage.tokens, 1.0)  # dollars grow with tokens, if only these are known
    costs = [each for each in (usage.cost_usd, cost) if each is not None]
    tokens = {name: max(getattr(usage, name), getattr(median_usage, name)) for name in TOKENS}
    charge = structs.replace(usage, **tokens, cost_usd=max(costs, default=None), estimated=False)
    return usage if charge == structs.replace(usage, estimated=False) else structs.replace(charge, estimated=True)


def forecast_cost(newest_first: Iterable[IterationRecord], limits: Limits) -> str:
    """One sentence on the cost of a night, or of ``limits.time``; "" without a rate."""
    tries = [record for record in islice(newest_first, MEDIAN_ITERATIONS) if record.outcome != Outcome.BASELINE]
    iteration_seconds = median_iteration_seconds(tries)
    if not iteration_seconds or not any(record.usage.tokens for record in tries):
        return ""
    seconds = limits.time or 8 * 3600.0
    count = max(int(seconds / iteration_seconds), 1)
    count = min(count, limits.iterations) if limits.iterations else count
    tokens = median([record.usage.tokens for record in tries]) * count
    sentence = f"about {pluralize(count, 'iteration')} and {float(f'{tokens:.3g}'):,.0f} tokens"
    least = at_least(Usage.total(record.usage for record in tries))
    for pattern, name in ((f"{least}{{}}", "cost_usd"), ("about {}, which the subscription pays", "about_usd")):
        costs = [cost for record in tries if (cost := getattr(record.usage, name)) is not None]
        if costs:
            sentence += ", " + pattern.format(format_dollars(median(costs) * count))
    return f"a night of {format_duration(seconds)}, at the rate of the last {len(tries)}: {sentence}"
