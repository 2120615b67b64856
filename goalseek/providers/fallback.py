"""Fallback between providers: the meaning of a failure decides whether to retry, wait, or ask the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from typing import TypeVar

from msgspec import Struct, field, structs

from goalseek.errors import GoalseekError, Rejected
from goalseek.humanize import format_moment
from goalseek.manifest.tables import Price
from goalseek.phase_values import Plan, Played, Session
from goalseek.process import seconds_with_sleep
from goalseek.providers.preset import Kind, Printed
from goalseek.providers.provider import Call, Provider, Reply, Reviewer, WritableFile
from goalseek.values import Outcome, Reason, StopReason, Usage

Member = TypeVar("Member", bound=Provider)


class Meaning(Enum):
    CLOSED = "closed"  # by a limit or an outage: the next is asked, or the run waits; it costs no iteration
    REFUSED = "refused"  # its key or login is missing or not accepted: the next is asked, or else the run ends
    FAILED = "failed"  # asked three times more, unless it ran past its limit; then the next, or the iteration ends


KINDS: dict[Kind, tuple[str, Meaning | None]] = {  # in words; None if only the usage tells the meaning
    "rate_limited": ("is rate limited", Meaning.CLOSED),
    "auth": ("was refused: its key or login is not accepted", Meaning.REFUSED),
    "transient": ("could not reach its model", Meaning.CLOSED),
    "later": ("asks to be called later", Meaning.CLOSED),
    "timeout": ("ran past its limit", None),
    "crashed": ("failed", Meaning.FAILED),
    "undeclared": ("gave no answer", None),
}
RETRY_SECONDS = (2.0, 8.0, 30.0)
LOOK_SECONDS = (60.0, 120.0, 240.0, 480.0, 900.0)
SHORT_WAIT = 60.0
_RESET_MARGIN = 1.0
_LONG_AGO = 1_000_000_000  # a larger number is no wait in seconds, but a time in seconds since 1970
_SEE = "goalseek doctor --live shows whether it"


class Failed(Rejected):
    """A call without an answer, recorded like any rejection if no fallback answers."""

    def __init__(
        self, kind: Kind, why: str, output: str = "", usage: Usage | None = None, reset: float | None = None
    ) -> None:
        if reset is not None and reset > _LONG_AGO:
            reset = min(max(reset - time.time(), 0.0), _LONG_AGO)
        reason = Reason.PROVIDER_TIMEOUT if kind == "timeout" else Reason.PROVIDER_FAILED
        super().__init__(Outcome.SKIPPED, reason, why, output, usage)
        self.kind = kind
        self.reset = reset  # seconds until its limit is lifted
        self.meaning = Meaning.FAILED


class SessionGone(Failed):
    """The program did not find the session to resume."""


def interpret(failed: Failed, provider: Provider, has_answered: bool) -> None:
    """Set the meaning of a failure; ``has_answered``: the provider did so earlier in this invocation."""
    # Where nothing was declared and no token was used, no model was reached. Without a login that is why.
    has_usage = failed.usage.tokens or failed.usage.cost_usd or failed.usage.about_usd
    has_login = has_answered or provider.has_login
    if failed.kind in ("transient", "timeout", "undeclared") and not has_usage and not has_login:
        failed.kind = "auth"
        failed.why += "; no login was found (if none is needed, set credentials = [] in its table)"
    is_unreached = not has_usage and provider.reports_usage
    failed.meaning = KINDS[failed.kind][1] or (Meaning.CLOSED if is_unreached else Meaning.FAILED)


def seconds_before_retry(failed: Failed, count: int, looks: int, has_next: bool) -> float | None:
    """Seconds until the same provider is asked again, after ``count`` retries; None if it is not.

    A provider that ``looks`` earlier calls found closed is asked once a look. If another is open (``has_next``), a
    closed one is asked again only if it opens within a minute.
    """
    is_closed = failed.meaning is Meaning.CLOSED
    if count >= len(RETRY_SECONDS) or failed.meaning is Meaning.REFUSED or (is_closed and looks):
        return None
    if is_closed and failed.reset is not None:
        return failed.reset + _RESET_MARGIN if failed.reset <= SHORT_WAIT else None
    if is_closed and has_next:
        return None
    return None if failed.kind in ("rate_limited", "timeout") else RETRY_SECONDS[count]


class ProviderState(Struct):
    has_answered: bool = False
    is_recorded: bool = False  # in this run, maybe by another invocation: that proves no login of now
    refused: str = ""  # why it refuses us
    closed_until: float = 0.0  # as ``seconds_with_sleep`` shows it
    looks: int = 0  # calls in a row that found it closed
    words: str = ""  # how its last calls ended; "" after an answer
    problem: str = ""  # also why the first of them did
    may_last: bool = False  # it has never reached its model, and does not say why
    has_failed: bool = False  # the last call, after all its tries, and the last of them used nothing

    def note_answer(self) -> None:
        self.has_answered, self.has_failed, self.looks, self.words, self.problem = True, False, 0, "", ""

    def note_failure(self, name: str, failed: Failed) -> str:
        now = seconds_with_sleep()
        is_unexplained = failed.meaning is Meaning.CLOSED and failed.kind == "undeclared"
        self.may_last = is_unexplained and not (self.has_answered or self.is_recorded)
        if failed.meaning is not Meaning.CLOSED:
            self.looks = 0
        elif self.closed_until <= now:  # calls that were made at once and found it closed are one look
            # A reset is taken at its word once: one that has come, and changed nothing, may never be true.
            waits = LOOK_SECONDS if failed.reset is None else (0.0, *LOOK_SECONDS)
            seconds = waits[min(self.looks, len(waits) - 1)]
            if failed.reset is not None:
                seconds = max(failed.reset + _RESET_MARGIN, seconds)
            self.closed_until = now + seconds
            self.looks += 1
        if failed.meaning is Meaning.REFUSED:
            self.refused = failed.why
        self.has_failed = failed.meaning is Meaning.FAILED and not failed.usage.tokens
        return self.describe(name, failed)

    def describe(self, name: str, failed: Failed) -> str:
        """``claude is rate limited (why)``, with the reason of the first such failure in a row."""
        words = f"{name} {KINDS[failed.kind][0]}"
        if words != self.words:
            self.words, self.problem = words, f"{words} ({failed.why})"
        return self.problem


class ProviderChain(Struct, frozen=True):
    """The providers that plan, edit and review, each list in the order of asking."""

    planners: tuple[Provider, ...]
    editors: tuple[Provider, ...]
    prices: tuple[Price, ...] = ()
    reviewers: tuple[Reviewer, ...] = ()
    rotated: dict[str, Provider] = {}  # those that take turns with them, by name and model
    states: dict[Provider, ProviderState] = field(default_factory=dict)

    @property
    def members(self) -> tuple[Provider, ...]:
        return tuple(dict.fromkeys((*self.editors, *self.planners, *self.reviewers, *self.rotated.values())))

    def in_turn(self, turn: Sequence[str]) -> ProviderChain:
        """The chain that asks those of ``rotated`` with these names first, in this order."""

        def first(own: tuple[Provider, ...]) -> tuple[Provider, ...]:  # another name is the provider itself
            return tuple(dict.fromkeys((*(self.rotated.get(name, own[0]) for name in turn), *own)))

        return structs.replace(self, planners=first(self.planners), editors=first(self.editors))

    @property
    def needs_consent(self) -> bool:
        return any(provider.needs_consent for provider in self.members)

    @property
    def commands(self) -> list[list[str]]:
        return [list(member.words) for member in self.members if member.words]

    @property
    def repairers(self) -> tuple[Provider, ...]:
        """The editors that can use a problem's description: a script cannot."""
        return tuple(provider for provider in self.editors if provider.repairs)

    def timeout(self, phase: str) -> float | None:
        """Seconds for any provider of this phase: the least of their limits; None without one."""
        asked = {"plan": self.planners, "review": self.reviewers}.get(phase, self.editors)
        return min(filter(None, (provider.timeout for provider in asked)), default=None)

    def played_out(self, attempt: int, played: Played) -> str:
        """The reason why no planner can make this proposal, if all are scripts without further moves; else ""."""
        reasons = [provider.played_out(attempt, played) for provider in self.planners]
        return reasons[0] if reasons and all(reasons) else ""

    def look_over(self, files: Iterable[WritableFile]) -> str:
        listed = list(files)
        return "; ".join(filter(None, (provider.look_over(listed) for provider in self.members)))

    def plan(self, call: Call) -> Reply:
        return self._ask_in_turn(self.planners, call, lambda provider: provider.plan(call))

    def apply(self, call: Call, plan: Plan) -> Reply:
        """The change of the first that answers; a failed one's edits are undone before the next is asked."""
        editors = self.repairers if call.phase == "repair" else self.editors
        call = structs.replace(call, answered=call.answered | {(plan.provider, plan.model)})
        return self._ask_in_turn(editors, call, lambda provider: provider.apply(call, plan))

    def review(self, call: Call) -> Reply:
        return self._ask_in_turn(self.reviewers, call, lambda provider: provider.review(call))

    def render(self, plan: Plan, files: Iterable[WritableFile]) -> dict[str, bytes] | None:
        """Contents for these files by the plan's author; None if only an edited tree has them."""
        author = self._member((plan.provider, plan.model))
        return author.render(plan, files) if author else None

    def partial_usage(
        self, asked: tuple[str, str], printed: Printed, reported: Usage, session: Session | None
    ) -> Usage:
        """Usage of a killed or running call; ``asked`` is its provider's name and model."""
        provider = self._member(asked)
        if provider is None:
            return reported
        reply = provider.partial_reply(printed, reported, session)
        return self.add_cost(provider, reply.usage, reply.answered_by)

    def _member(self, named: tuple[str, str]) -> Provider | None:
        return next((member for member in self.members if (member.name, member.model) == named), None)

    def _ask_in_turn(self, providers: tuple[Member, ...], call: Call, ask: Callable[[Member], Reply]) -> Reply:
        """The answer of the first provider that is neither closed nor refused, and does not fail.

        If some failed and no other is left, raises the last failure. If none failed, waits for the first to open;
        raises GoalseekError if that is after the run's end, or every provider refuses us.
        """
        failures: dict[Member, Failed] = {}
        while True:
            while not (provider := self._first_open(providers, failures)):
                self._wait_for_first(providers, call)
            try:
                has_next = self._first_open(providers, {provider, *failures}) is not None
                return self._ask_with_retries(provider, call, ask, has_next)
            except Failed as failed:
                text = self._state(provider).note_failure(provider.name, failed)
                is_failure = failed.meaning is Meaning.FAILED
                failures |= {provider: failed} if is_failure else {}
                following = self._first_open(providers, failures)
                if is_failure and not following:
                    raise
                call.host.on_retry(f"{text}; goalseek asks {following.name}" if following else text, failed.usage)
                failed.usage = Usage()
                if failures and not following:
                    raise list(failures.values())[-1] from None

    def _first_open(self, providers: tuple[Member, ...], failed_ones: Collection[Member]) -> Member | None:
        """None if each is closed, refused, or has failed."""
        now = seconds_with_sleep()
        states = [(provider, self._state(provider)) for provider in providers if provider not in failed_ones]
        states.sort(key=lambda row: row[1].has_failed)  # in an earlier call: it comes after the others
        return next((each for each, state in states if not state.refused and state.closed_until <= now), None)

    def _wait_for_first(self, providers: tuple[Member, ...], call: Call) -> None:
        """Raises GoalseekError if none of the closed providers may open in time."""
        states = [self._state(provider) for provider in providers]
        closed = [state for state in states if not state.refused]
        if not closed:
            message = f"no provider accepts its key or login: {'; '.join(state.refused for state in states)}"
            hint = f"log in, or set another key; {_SEE} works; then: goalseek iterate"
            raise GoalseekError(message, hint, StopReason.AUTH)
        if all(state.may_last for state in closed):
            reasons = "; ".join(state.refused or state.problem for state in states)
            hint = f"correct its model, its key or its endpoint; {_SEE} answers; then: goalseek iterate"
            raise GoalseekError(f"{reasons}; it has not answered in this run", hint, StopReason.PROVIDER)
        state = min(closed, key=lambda state: state.closed_until)
        until = state.closed_until
        seconds = max(until - seconds_with_sleep(), 0.0)
        if not call.host.wait(seconds, state.words):
            why = f"{state.problem}; it cannot be asked before {format_moment(seconds)}, after the end of this run"
            raise GoalseekError(why, "goalseek iterate goes on later", StopReason.PROVIDER)
        if state.closed_until == until:  # else another call has looked meanwhile
            state.closed_until = 0.0

    def _ask_with_retries(self, provider: Member, call: Call, ask: Callable[[Member], Reply], has_next: bool) -> Reply:
        """Raises Failed after the last of the quick retries."""
        state, count = self._state(provider), 0
        state.is_recorded = (provider.name, provider.model) in call.answered
        while True:
            call.host.prepare(provider.name, provider.model)
            try:
                reply = ask(provider)
            except Rejected as rejected:
                rejected.usage = self.add_cost(provider, rejected.usage, "")
                if not isinstance(rejected, Failed):
                    state.note_answer()
                    raise
                interpret(rejected, provider, state.has_answered)
                goes_on = rejected.usage.tokens and call.host.session(provider.name, provider.model)
                if rejected.kind == "rate_limited" and goes_on:
                    state.looks = count = 0  # it answers as often as a limit per minute allows
                seconds = seconds_before_retry(rejected, count, state.looks, has_next)
                if seconds is None:
                    raise
                count += 1
                is_quick = rejected.meaning is Meaning.FAILED
                call.host.on_retry(state.describe(provider.name, rejected), rejected.usage, is_told=is_quick)
                rejected.usage = Usage()
                if not call.host.wait(seconds, state.problem if is_quick else state.words):
                    raise
            else:
                state.note_answer()
                usage = self.add_cost(provider, reply.usage, reply.answered_by)
                return structs.replace(reply, usage=usage, provider=provider.name, model=provider.model)

    def _state(self, provider: Provider) -> ProviderState:
        return self.states.setdefault(provider, ProviderState())

    def add_cost(self, provider: Provider, usage: Usage, answered_by: str) -> Usage:
        """Usage with dollars, by the price of the manifest's model or of ``answered_by``; an estimate is marked."""
        if usage.cost_usd is None and usage.tokens:
            models = filter(None, (provider.model, answered_by))
            price = next((price for model in models for price in self.prices if price.model == model), None)
            if price:
                usage = structs.replace(usage, cost_usd=price.cost_of(usage), estimated=True)
        if usage.cost_usd is not None and provider.is_subscription():
            return structs.replace(usage, cost_usd=None, about_usd=usage.cost_usd)  # it is not charged
        return usage
