"""Providers in the order in which they are asked: where one cannot answer, it is waited for, or the next is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from goalseek.errors import UNFIT, GoalseekError, Rejected
from goalseek.humanize import format_duration
from goalseek.manifest.tables import Price
from goalseek.phase_values import Plan
from goalseek.providers.provider import IN_WORDS, Call, Failed, Provider, Reply, Reviewer, WritableFile
from goalseek.values import Usage

Asked = TypeVar("Asked", bound=Provider)
RETRIES = 3
RETRY_SECONDS = (2.0, 8.0, 30.0)
PAUSE_SECONDS = (30.0, 60.0, 120.0, 240.0, 480.0, 900.0)
_RESET_MARGIN = 1.0


@dataclass(frozen=True)
class Chain:
    """Who plans, edits and reviews, with those that are asked in their place. The first that edits gives the name."""

    planners: tuple[Provider, ...]
    editors: tuple[Provider, ...]
    prices: tuple[Price, ...] = ()
    reviewers: tuple[Reviewer, ...] = ()

    @property
    def everybody(self) -> tuple[Provider, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.editors, *self.planners, *self.reviewers)))

    @property
    def name(self) -> str:
        """The first editor's."""
        return self.editors[0].name

    @property
    def model(self) -> str:
        """The first editor's."""
        return self.editors[0].model

    @property
    def needs_consent(self) -> bool:
        """Whether any of them runs a program."""
        return any(provider.needs_consent for provider in self.everybody)

    @property
    def needs_sandbox(self) -> bool:
        """Whether any of them cannot do without one."""
        return any(provider.needs_sandbox for provider in self.everybody)

    @property
    def repairs(self) -> bool:
        """Whether any of those that edit can be told what was wrong with a change: a script cannot."""
        return any(_repairs(provider) for provider in self.editors)

    def played_out(self, attempt: int) -> str:
        """Why nobody could make this proposal, each being a script that has come to its end; else ""."""
        told = [getattr(provider, "played_out", lambda _: "")(attempt) for provider in self.planners]
        return str(told[0]) if told and all(told) else ""

    def check(self) -> None:
        """Each can start: one that is asked in the middle of the night only, too."""
        for provider in self.everybody:
            provider.check()

    def is_subscription(self) -> bool:
        """Whether nobody pays what the first editor says that it cost."""
        return self.editors[0].is_subscription()

    def look_over(self, files: Iterable[WritableFile]) -> str:
        """What those will do that say so. Raises GoalseekError where one of them can do nothing."""
        there = list(files)
        return "; ".join(filter(None, (provider.look_over(there) for provider in self.everybody)))

    def plan(self, call: Call) -> Reply:
        """The plan of the first that answers."""
        return self._first(self.planners, call, lambda provider: provider.plan(call))

    def apply(self, call: Call, plan: Plan) -> Reply:
        """The change of the first that answers; what one that failed had edited is put back before the next."""
        asked = self.editors
        if call.phase == "repair":
            asked = tuple(provider for provider in asked if _repairs(provider))
        return self._first(asked, call, lambda provider: provider.apply(call, plan))

    def review(self, call: Call) -> Reply:
        """The verdict of the reviewer; the first of them that answers."""
        return self._first(self.reviewers, call, lambda provider: provider.review(call))

    def _first(self, providers: tuple[Asked, ...], call: Call, ask: Callable[[Asked], Reply]) -> Reply:
        failures: list[Failed] = []
        for place, provider in enumerate(providers):
            is_last = place == len(providers) - 1
            try:
                return self._one(provider, call, ask, is_last)
            except Failed as failed:
                failures.append(failed)
                if not is_last:
                    following = providers[place + 1].name
                    call.again(f"{provider.name} {IN_WORDS[failed.kind]}; {following} is asked", failed.usage)
        last = failures[-1]
        if last.kind in ("auth", "rate_limited"):
            call.again(f"{providers[-1].name} {IN_WORDS[last.kind]} ({last.why})", last.usage)
            last.usage = Usage()
        if all(failed.kind == "auth" for failed in failures):
            raise GoalseekError(
                f"no provider accepts its key or login: {'; '.join(failed.why for failed in failures)}",
                "log in, or set another key; goalseek doctor --live shows whether it works; then: goalseek iterate",
                UNFIT,
                "auth",
            )
        if last.kind == "rate_limited":
            later = f" for {format_duration(last.reset)}" if last.reset else ""
            message = f"{last.why}: its limit holds{later}, longer than this run goes on"
            raise GoalseekError(message, "goalseek iterate goes on later", UNFIT, "provider")
        raise last

    def _one(self, provider: Asked, call: Call, ask: Callable[[Asked], Reply], is_last: bool) -> Reply:
        """The answer of one provider, however often it must be asked. Raises Failed where it is given up."""
        pauses = retries = 0
        while True:
            try:
                reply = ask(provider)
            except Failed as failed:
                failed.usage = self._paid(provider, failed.usage, "")
                if failed.kind == "transient" and retries < RETRIES:
                    seconds = RETRY_SECONDS[retries]
                    retries += 1
                elif failed.kind == "rate_limited" and (failed.reset or is_last or pauses < len(PAUSE_SECONDS)):
                    usual = PAUSE_SECONDS[min(pauses, len(PAUSE_SECONDS) - 1)]
                    seconds = usual if failed.reset is None else failed.reset + _RESET_MARGIN
                    pauses += 1
                else:
                    raise
                call.again(f"{provider.name} {IN_WORDS[failed.kind]} ({failed.why})", failed.usage)
                failed.usage = Usage()
                if not call.wait(seconds, f"{provider.name} {IN_WORDS[failed.kind]}"):
                    raise
                continue
            except Rejected as rejected:
                rejected.usage = self._paid(provider, rejected.usage, "")
                raise
            paid = self._paid(provider, reply.usage, reply.answered_by)
            return replace(reply, usage=paid, provider=provider.name, model=provider.model)

    def _paid(self, provider: Provider, usage: Usage, answered_by: str) -> Usage:
        return priced(usage, (provider.model, answered_by), self.prices, provider.is_subscription())


def _repairs(provider: Provider) -> bool:
    """Whether a provider can be told what was wrong; those of other packages can that do not say otherwise."""
    return bool(getattr(provider, "repairs", True))


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
