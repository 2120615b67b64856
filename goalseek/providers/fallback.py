"""Fallback between providers: one that cannot answer is retried or waited for, then the next is asked. Prices calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from msgspec import Struct

from goalseek.errors import Rejected
from goalseek.manifest.tables import Price
from goalseek.phase_values import Plan, Session
from goalseek.providers.outcome import IN_WORDS, Failed, end_of_run, pause_before_retry
from goalseek.providers.preset import Kind, Printed
from goalseek.providers.provider import Call, Provider, Reply, Reviewer, WritableFile
from goalseek.values import Usage

Member = TypeVar("Member", bound=Provider)
_PRICE_TOKENS = 1_000_000


class ProviderChain(Struct, frozen=True):
    """The providers that plan, edit and review, each list in the order of asking."""

    planners: tuple[Provider, ...]
    editors: tuple[Provider, ...]
    prices: tuple[Price, ...] = ()
    reviewers: tuple[Reviewer, ...] = ()

    @property
    def members(self) -> tuple[Provider, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.editors, *self.planners, *self.reviewers)))

    @property
    def needs_consent(self) -> bool:
        """Whether any of them runs a program."""
        return any(provider.needs_consent for provider in self.members)

    @property
    def repairers(self) -> tuple[Provider, ...]:
        """The editors that can repair a change when they get the problem: a script cannot."""
        return tuple(provider for provider in self.editors if getattr(provider, "repairs", True))

    def timeout(self, phase: str) -> float | None:
        """Seconds that whoever is asked in this phase may take: the least of all of them. None without a limit."""
        asked = {"plan": self.planners, "review": self.reviewers}.get(phase, self.editors)
        limits = [getattr(provider, "timeout", None) for provider in asked]
        return min(filter(None, limits), default=None)

    def played_out(self, attempt: int) -> str:
        """Why no planner can make this proposal: each is a script without further moves; else ""."""
        reasons = [getattr(provider, "played_out", lambda _: "")(attempt) for provider in self.planners]
        return str(reasons[0]) if reasons and all(reasons) else ""

    def look_over(self, files: Iterable[WritableFile]) -> str:
        """What the providers will do with these files, in words. Raises GoalseekError where one can do nothing."""
        listed = list(files)
        return "; ".join(filter(None, (provider.look_over(listed) for provider in self.members)))

    def plan(self, call: Call) -> Reply:
        """The plan of the first that answers."""
        return self._ask_in_turn(self.planners, call, lambda provider: provider.plan(call))

    def apply(self, call: Call, plan: Plan) -> Reply:
        """The change of the first that answers; edits of one that failed are undone before the next is asked."""
        editors = self.repairers if call.phase == "repair" else self.editors
        return self._ask_in_turn(editors, call, lambda provider: provider.apply(call, plan))

    def review(self, call: Call) -> Reply:
        """The verdict of the reviewer; the first of them that answers."""
        return self._ask_in_turn(self.reviewers, call, lambda provider: provider.review(call))

    def partial_usage(
        self, asked: tuple[str, str], printed: Printed, reported: Usage, session: Session | None
    ) -> Usage:
        """What a call that was killed or still runs has used; ``asked`` is its provider's name and model."""
        provider = next((member for member in self.members if (member.name, member.model) == asked), None)
        if provider is None:
            return reported
        reply = provider.partial_reply(printed, reported, session)
        return self._add_cost(provider, reply.usage, reply.answered_by)

    def _ask_in_turn(self, providers: tuple[Member, ...], call: Call, ask: Callable[[Member], Reply]) -> Reply:
        failures: list[Failed] = []
        for index, provider in enumerate(providers):
            is_last = index == len(providers) - 1
            try:
                return self._ask_with_retries(provider, call, ask, is_last)
            except Failed as failed:
                failures.append(failed)
                if not is_last:
                    next_name = providers[index + 1].name
                    call.again(f"{provider.name} {IN_WORDS[failed.kind]}; {next_name} is asked", failed.usage)
        last, error = failures[-1], end_of_run(failures)
        if last.kind in ("auth", "rate_limited"):
            call.again(f"{providers[-1].name} {IN_WORDS[last.kind]} ({last.why})", last.usage)
            last.usage = Usage()
        raise error

    def _ask_with_retries(self, provider: Member, call: Call, ask: Callable[[Member], Reply], is_last: bool) -> Reply:
        """The answer of one provider, with waits and retries. Raises Failed after the last one."""
        kinds: list[Kind] = []
        while True:
            try:
                reply = ask(provider)
            except Rejected as rejected:
                rejected.usage = self._add_cost(provider, rejected.usage, "")
                if not isinstance(rejected, Failed):
                    raise
                seconds = pause_before_retry(rejected, kinds, is_last)
                if seconds is None:
                    raise
                kinds.append(rejected.kind)
                state = f"{provider.name} {IN_WORDS[rejected.kind]}"
                call.again(f"{state} ({rejected.why})", rejected.usage)
                rejected.usage = Usage()
                if not call.wait(seconds, state):
                    raise
            else:
                usage = self._add_cost(provider, reply.usage, reply.answered_by)
                return replace(reply, usage=usage, provider=provider.name, model=provider.model)

    def _add_cost(self, provider: Provider, usage: Usage, answered_by: str) -> Usage:
        return add_cost(usage, (provider.model, answered_by), self.prices, provider.is_subscription())


def add_cost(usage: Usage, models: Sequence[str], prices: Sequence[Price], is_subscription: bool) -> Usage:
    """The usage with its cost in dollars. An estimate is marked; a subscription's cost moves to ``about_usd``.

    ``models`` are the names of the model; the first that has a price counts.
    """
    if usage.cost_usd is None and usage.tokens:
        price = next((price for model in models for price in prices if model and price.model == model), None)
        if price:
            cost = (
                usage.input_tokens * price.input
                + usage.cached_tokens * (price.input if price.cached is None else price.cached)
                + usage.output_tokens * price.output
            ) / _PRICE_TOKENS
            usage = replace(usage, cost_usd=cost, estimated=True)
    if is_subscription and usage.cost_usd is not None:
        return replace(usage, cost_usd=None, about_usd=usage.cost_usd)
    return usage
