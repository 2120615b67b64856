"""Who is asked next: closed, refused and failed providers, and what an invocation remembers of each."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from test_tune import call as tune_call

from goalseek.errors import GoalseekError, Rejected
from goalseek.manifest.tables import ProviderTable, ReviewTable, Search
from goalseek.phase_values import Plan, Session
from goalseek.providers import fallback
from goalseek.providers.command import CommandProvider
from goalseek.providers.fallback import LOOK_SECONDS, RETRY_SECONDS, Failed, ProviderChain
from goalseek.providers.provider import Call, CallHost, Provider, Reply
from goalseek.providers.registry import ProviderChoice
from goalseek.sandbox import environment
from goalseek.sandbox.supervisor import ProgramResult
from goalseek.values import Outcome, Reason, Usage

TOKENS = Usage(70, 20, 10)
RATE, RATE_FOR_HOURS, RATE_FOR_SECONDS = ("rate_limited", {}), ("rate_limited", {"reset": 7200.0}), ("rate_limited", {"reset": 20.0})  # fmt: skip
OUTAGE, REFUSED, SILENT = ("transient", {}), ("auth", {}), ("undeclared", {})
CRASH, TIMEOUT, LATE = ("crashed", {}), ("timeout", {}), ("timeout", {"usage": TOKENS})
BROKEN = ("undeclared", {"usage": TOKENS})
ANSWER: tuple[str, dict[str, Any]] = ("answer", {})
Said = tuple[str, dict[str, Any]]


class Saying(Provider):
    """A provider that ends its calls with these words, the last of them for ever."""

    reports_usage = True

    has_login = True  # type: ignore[assignment]

    def __init__(self, name: str, *words: Said, has_login: bool = True) -> None:
        self.name, self._words, self.has_login = name, words, has_login  # type: ignore[misc]
        self.calls = 0

    def plan(self, call: Call) -> Reply:
        word, more = self._words[min(self.calls, len(self._words) - 1)]
        self.calls += 1
        if word == "answer":
            return Reply(self.name)
        if word == "no_plan":
            raise Rejected(Outcome.SKIPPED, Reason.NO_PLAN, "no plan")
        raise Failed(word, f"reason {self.calls}", **more)  # type: ignore[arg-type]

    def apply(self, call: Call, plan: Plan) -> Reply:
        return self.plan(call)


class Night(CallHost):
    """A chain of such providers on a clock that only waits move, in a run of ``left`` seconds."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *providers: Provider) -> None:
        self.now, self.left = 1000.0, 1e6
        self.waits: list[float] = []
        self.again: list[tuple[str, Usage]] = []
        monkeypatch.setattr(fallback, "seconds_with_sleep", lambda: self.now)
        self.chain = ProviderChain(providers, providers)
        self.answered: set[tuple[str, str]] = set()
        self.has_session = True
        self._call = replace(tune_call(folder, []), host=self)

    def on_retry(self, why: str, usage: Usage, is_told: bool = False) -> None:
        self.again.append((why, usage))

    def session(self, name: str, model: str) -> Session | None:
        return Session("one") if self.has_session else None

    def wait(self, seconds: float, why: str) -> bool:
        if seconds > self.left:
            return False
        self.waits.append(seconds)
        self.now += seconds
        self.left -= seconds
        return True

    def ask(self) -> str:
        """The name of who answers; the phases take turns."""
        return self.chain.plan(replace(self._call, answered=frozenset(self.answered))).provider or ""

    def edit(self) -> str:
        return self.chain.apply(self._call, Plan("", "")).provider


Nights = Callable[..., Night]


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nights]:
    yield lambda *providers: Night(tmp_path, monkeypatch, *providers)


@pytest.mark.parametrize("closed", [RATE, RATE_FOR_HOURS, OUTAGE])
def test_a_fallback_takes_over_at_once_and_the_first_is_asked_again_when_it_opens(night: Nights, closed: Said) -> None:
    first, second = Saying("a", closed, ANSWER), Saying("b", ANSWER)
    made = night(first, second)
    assert [made.ask(), made.edit(), made.ask(), made.edit()] == ["b"] * 4
    assert (first.calls, made.waits) == (1, []), "one look, for plans and edits alike"
    ((why, usage),) = made.again
    assert why.endswith("(reason 1); b is asked") and usage == Usage()
    made.now += 7202 if closed is RATE_FOR_HOURS else 61
    assert [made.edit(), made.ask()] == ["a", "a"]


def test_a_limit_of_less_than_a_minute_is_no_reason_to_go_to_another(night: Nights) -> None:
    made = night(Saying("a", RATE_FOR_SECONDS, ANSWER), Saying("b", ANSWER))
    assert (made.ask(), made.waits) == ("a", [21.0])
    made = night(Saying("a", RATE_FOR_SECONDS), Saying("b", ANSWER))
    assert (made.ask(), made.waits) == ("b", [21.0] * 3), "but one that does not keep its word is closed"


def test_an_outage_has_quick_tries_once_and_then_a_single_look_each_time(night: Nights) -> None:
    first = Saying("a", *[OUTAGE] * 11, ANSWER)
    made = night(first)
    assert made.ask() == "a"
    assert made.waits == [*RETRY_SECONDS, *LOOK_SECONDS, 900.0, 900.0, 900.0]
    assert {why for why, _ in made.again} == {"a could not reach its model (reason 1)"}
    first.calls = 0
    assert made.ask() == "a" and made.waits[11:14] == list(RETRY_SECONDS), "the next outage begins anew"


def test_two_that_are_closed_in_turn_are_waited_for_until_the_first_of_them_opens(night: Nights) -> None:
    a, b = Saying("a", RATE_FOR_HOURS, RATE_FOR_HOURS, ANSWER), Saying("b", ANSWER, RATE, RATE, ANSWER, RATE_FOR_HOURS)
    made = night(a, b)
    assert [made.ask(), made.edit()] == ["b", "b"] and made.waits == [60.0, 120.0]
    made.now += 7200
    assert made.ask() == "a" and (a.calls, b.calls) == (3, 5)
    assert made.waits == [60.0, 120.0, 7201.0]


def test_a_reset_that_is_never_true_is_asked_for_less_and_less_often(night: Nights) -> None:
    over = ("rate_limited", {"reset": 0.0})
    made = night(Saying("a", *[over] * 7, RATE_FOR_HOURS, ANSWER))
    assert made.ask() == "a"
    assert made.waits == [1.0, 1.0, 1.0, 1.0, 60.0, 120.0, 240.0, 7201.0]


def test_one_that_is_refused_is_never_asked_again_and_the_run_ends_when_all_are(night: Nights) -> None:
    a, b = Saying("a", ANSWER, REFUSED), Saying("b", RATE, ANSWER, RATE_FOR_HOURS, REFUSED)
    made = night(a, b)
    assert [made.ask(), made.edit()] == ["a", "b"] and made.waits == [60.0], "a closed one is waited for"
    with pytest.raises(GoalseekError, match="reason 2; reason 4") as caught:
        made.ask()
    assert made.waits == [60.0, 7201.0] and (a.calls, b.calls) == (2, 4)
    assert (caught.value.exit_code, caught.value.stop_reason) == (3, "auth")
    with pytest.raises(GoalseekError):
        made.edit()
    assert (a.calls, b.calls) == (2, 4), "both are remembered"


def test_closed_and_then_refused(night: Nights) -> None:
    made = night(Saying("a", OUTAGE, OUTAGE, OUTAGE, OUTAGE, REFUSED))
    with pytest.raises(GoalseekError) as caught:
        made.ask()
    assert caught.value.stop_reason == "auth" and made.waits == [*RETRY_SECONDS, 60.0]


@pytest.mark.parametrize(("failed", "tries"), [(CRASH, 4), (BROKEN, 4), (LATE, 1)])
def test_what_failed_is_tried_again_quickly_and_then_goes_to_the_next(night: Nights, failed: Said, tries: int) -> None:
    a = Saying("a", failed)
    made = night(a, Saying("b", ANSWER))
    assert (made.ask(), made.waits, a.calls) == ("b", list(RETRY_SECONDS)[: tries - 1], tries)
    is_remembered = failed is CRASH  # it used nothing
    assert made.edit() == "b" and a.calls == (tries if is_remembered else 2 * tries)
    alone = night(Saying("a", failed))
    with pytest.raises(Failed) as caught:
        alone.ask()
    assert caught.value.reason in ("provider_failed", "provider_timeout") and len(alone.again) == tries - 1


def test_one_that_failed_comes_after_the_others_until_it_answers(night: Nights) -> None:
    made = night(Saying("a", *[CRASH] * 4, ANSWER), Saying("b", ANSWER, ANSWER, RATE_FOR_HOURS, ANSWER))
    assert [made.ask(), made.edit(), made.ask(), made.edit()] == ["b", "b", "a", "a"]


@pytest.mark.parametrize("reset", [{}, {"reset": 20.0}])
def test_a_limit_per_minute_is_waited_for_each_time_in_the_same_way(night: Nights, reset: dict[str, Any]) -> None:
    limit: Said = ("rate_limited", {"usage": TOKENS, **reset})
    made = night(Saying("a", *[limit] * 6, ANSWER))
    assert made.ask() == "a" and made.waits == [21.0 if reset else 60.0] * 6
    made = night(Saying("a", *[limit] * 6, ANSWER), Saying("b", ANSWER))
    assert made.ask() == ("a" if reset else "b")
    made = night(Saying("a", *[limit] * 6, ANSWER))
    made.has_session = False  # each try begins from nothing, and none may ever end
    assert made.ask() == "a" and made.waits[-1] > 5 * made.waits[0]


@pytest.mark.parametrize("others", [(RATE,), (REFUSED,), (RATE_FOR_HOURS, CRASH)])
def test_where_one_failed_and_nobody_else_is_open_the_failure_is_the_iterations(
    night: Nights, others: tuple[Said, ...]
) -> None:
    for order in (1, -1):
        made = night(*[Saying("a", *others), Saying("b", LATE)][::order])
        with pytest.raises(Failed) as caught:
            made.ask()
        assert caught.value.kind == "timeout" and made.waits == []


def test_one_that_never_answered_and_does_not_say_why_ends_the_run_after_the_quick_tries(night: Nights) -> None:
    made = night(Saying("a", SILENT))
    with pytest.raises(GoalseekError, match=r"a gave no answer \(reason 1\); it has not answered in this run") as caught:  # fmt: skip
        made.ask()
    assert (caught.value.stop_reason, made.waits) == ("provider", list(RETRY_SECONDS))
    outage = (*RETRY_SECONDS, 60.0)
    made = night(Saying("a", ANSWER, *[SILENT] * 4, ANSWER))
    assert [made.ask(), made.ask()] == ["a", "a"] and made.waits == [*outage], "it has answered"
    made = night(Saying("a", *[SILENT] * 4, ANSWER))
    made.answered = {("a", "")}
    assert made.ask() == "a" and made.waits == [*outage], "an earlier invocation of the run had an answer"
    made = night(Saying("a", SILENT, SILENT, ANSWER), Saying("b", RATE_FOR_HOURS))
    assert made.ask() == "a" and made.waits == [60.0, 120.0], "another one opens later"


@pytest.mark.parametrize("said", [SILENT, TIMEOUT])
def test_what_declares_nothing_and_used_no_token_did_not_reach_a_model(night: Nights, said: Said) -> None:
    made = night(Saying("a", said, ANSWER))
    assert made.ask() == "a" and made.waits == [RETRY_SECONDS[0] if said is SILENT else 60.0]
    a = Saying("a", said)
    a.reports_usage = False
    with pytest.raises(Failed):
        night(a).ask()


def test_without_a_login_that_is_the_reason_unless_it_has_answered_before(night: Nights) -> None:
    for said in (OUTAGE, SILENT, TIMEOUT):
        made = night(Saying("a", said, has_login=False), Saying("b", ANSWER))
        assert made.ask() == "b" and made.waits == [] and "no login was found" in made.chain.states[made.chain.editors[0]].refused  # fmt: skip
        assert night(Saying("a", ANSWER, said, ANSWER, has_login=False)).ask() == "a"
    made = night(Saying("a", ANSWER, OUTAGE, ANSWER, has_login=False))
    assert [made.ask(), made.ask()] == ["a", "a"]
    made = night(Saying("a", RATE, ANSWER, has_login=False))
    assert made.ask() == "a", "a limit is declared"


def test_where_all_are_closed_past_the_end_the_run_ends_and_says_until_when(night: Nights) -> None:
    made = night(Saying("a", RATE_FOR_HOURS), Saying("b", OUTAGE))
    made.left = 50.0
    with pytest.raises(GoalseekError, match=r"b could not reach its model .*closed until 20\d\d-.*Z") as caught:
        made.ask()
    assert (caught.value.exit_code, caught.value.stop_reason) == (3, "provider")
    assert [why.split(" (")[0] for why, _ in made.again][0] == "a is rate limited"


def test_an_answer_without_a_plan_is_an_answer(night: Nights) -> None:
    made = night(Saying("a", RATE_FOR_SECONDS, ("no_plan", {})), Saying("b", ANSWER))
    with pytest.raises(Rejected) as caught:
        made.ask()
    assert caught.value.reason == "no_plan" and made.waits == [21.0]
    state = made.chain.states[made.chain.editors[0]]
    assert state.has_answered and not state.problem


@pytest.mark.parametrize(("code", "kind"), [(75, "later"), (77, "auth"), (1, "crashed"), (78, "crashed")])
def test_a_command_declares_by_its_exit_code(tmp_path: Path, code: int, kind: str) -> None:
    host = SimpleNamespace(start=lambda *_: ProgramResult(code, 0.1, False, 0, b"", b"later\n"))
    call: Any = SimpleNamespace(host=host, usage_file=tmp_path / "usage.json")
    with pytest.raises(Failed, match=f"ended with {code}: later") as caught:
        CommandProvider(ProviderTable(name="command", command=("true",)), tmp_path).ask(call)
    assert caught.value.kind == kind


def test_what_is_known_of_a_provider_outlives_a_change_of_the_reviewer(tmp_path: Path) -> None:
    table = ProviderTable(name="command", command=("true",))
    manifest = SimpleNamespace(review=None, price=(), provider=table, search=Search())
    loaded: Any = SimpleNamespace(manifest=manifest, folder=tmp_path)
    choice = ProviderChoice(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "refuse_unconfined", lambda *_: None)
        chain = choice.build(loaded)
        chain.states[chain.editors[0]] = fallback.ProviderState(refused="no")
        manifest.review = ReviewTable(provider=ProviderTable(name="claude", command=("true",)), criteria=("Short.",))
        changed = choice.build(loaded)
    assert changed is not chain and changed.states[changed.editors[0]].refused == "no"
