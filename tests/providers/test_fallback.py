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
LIMIT, LIMIT_IN_SECONDS = (("rate_limited", {"usage": TOKENS, **more}) for more in ({}, {"reset": 20.0}))
OVER = ("rate_limited", {"reset": 0.0})
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
    assert why.endswith("(reason 1); goalseek asks b") and usage == Usage()
    made.now += 7202 if closed is RATE_FOR_HOURS else 61
    assert [made.edit(), made.ask()] == ["a", "a"]


CASES: dict[str, tuple[tuple[Said, ...], tuple[Said, ...], str, tuple[float, ...]]] = {
    # what a says, what b says if it is there, who answers, and the waits
    "a limit of less than a minute is waited for": ((RATE_FOR_SECONDS, ANSWER), (ANSWER,), "a", (21,)),
    "one that does not keep its word is closed": ((RATE_FOR_SECONDS,), (ANSWER,), "b", (21, 21, 21)),
    "an outage has quick tries once, then single looks; the next one begins anew": (
        (*[OUTAGE] * 11, ANSWER, *[OUTAGE] * 3, ANSWER), (), "aa",
        (*RETRY_SECONDS, *LOOK_SECONDS, 900, 900, 900, *RETRY_SECONDS),
    ),
    "a reset that is never true is asked for less and less often": (
        (*[OVER] * 7, RATE_FOR_HOURS, ANSWER), (), "a", (1, 1, 1, 1, 60, 120, 240, 7201),
    ),
    "one that failed comes after the others until it answers": (
        (*[CRASH] * 4, ANSWER), (ANSWER, ANSWER, RATE_FOR_HOURS, ANSWER), "bbaa", RETRY_SECONDS,
    ),
    "a limit per minute is waited for each time": ((*[LIMIT] * 6, ANSWER), (), "a", (60,) * 6),
    "a limit per minute that says how long": ((*[LIMIT_IN_SECONDS] * 6, ANSWER), (ANSWER,), "a", (21,) * 6),
    "a limit per minute is no reason to wait beside another": ((*[LIMIT] * 6, ANSWER), (ANSWER,), "b", ()),
    "silence after an answer is an outage": ((ANSWER, *[SILENT] * 4, ANSWER), (), "aa", (*RETRY_SECONDS, 60)),
    "silence beside one that opens later": ((SILENT, SILENT, ANSWER), (RATE_FOR_HOURS,), "a", (60, 120)),
    "silence without a token reached no model": ((SILENT, ANSWER), (), "a", RETRY_SECONDS[:1]),
    "nor did a call past its time": ((TIMEOUT, ANSWER), (), "a", (60,)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_answers_after_which_waits(night: Nights, case: str) -> None:
    says, other_says, answers, waits = CASES[case]
    made = night(Saying("a", *says), *([Saying("b", *other_says)] if other_says else []))
    assert "".join(made.ask() for _ in answers) == answers
    assert made.waits == list(waits)
    told = {why for why, _ in made.again if "could not reach" in why}
    assert len(told) <= len(answers), "one outage has one name"


def test_two_that_are_closed_in_turn_are_waited_for_until_the_first_of_them_opens(night: Nights) -> None:
    a, b = Saying("a", RATE_FOR_HOURS, RATE_FOR_HOURS, ANSWER), Saying("b", ANSWER, RATE, RATE, ANSWER, RATE_FOR_HOURS)
    made = night(a, b)
    assert [made.ask(), made.edit()] == ["b", "b"] and made.waits == [60.0, 120.0]
    made.now += 7200
    assert made.ask() == "a" and (a.calls, b.calls) == (3, 5)
    assert made.waits == [60.0, 120.0, 7201.0]


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
    alone = night(Saying("a", *[OUTAGE] * 4, REFUSED))
    with pytest.raises(GoalseekError) as caught:
        alone.ask()
    assert caught.value.stop_reason == "auth" and alone.waits == [*RETRY_SECONDS, 60.0]


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


def test_a_limit_per_minute_without_a_session_is_waited_for_longer_and_longer(night: Nights) -> None:
    made = night(Saying("a", *[LIMIT] * 6, ANSWER))
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
    made = night(Saying("a", *[SILENT] * 4, ANSWER))
    made.answered = {("a", "")}
    waits = [*RETRY_SECONDS, 60.0]
    assert made.ask() == "a" and made.waits == waits, "an earlier invocation of the run had an answer"


@pytest.mark.parametrize("said", [SILENT, TIMEOUT])
def test_one_that_reports_no_usage_and_declares_nothing_failed(night: Nights, said: Said) -> None:
    silent = Saying("a", said)
    silent.reports_usage = False
    with pytest.raises(Failed):
        night(silent).ask()


def test_without_a_login_that_is_the_reason_unless_it_has_answered_before(night: Nights) -> None:
    for said in (OUTAGE, SILENT, TIMEOUT):
        made = night(Saying("a", said, has_login=False), Saying("b", ANSWER))
        assert made.ask() == "b" and made.waits == []
        assert "no login was found" in made.chain.states[made.chain.editors[0]].refused
        answered = night(Saying("a", ANSWER, said, ANSWER, has_login=False))
        assert [answered.ask(), answered.ask()] == ["a", "a"]
    assert night(Saying("a", RATE, ANSWER, has_login=False)).ask() == "a", "a limit is declared"


def test_where_all_are_closed_past_the_end_the_run_ends_and_says_until_when(night: Nights) -> None:
    made = night(Saying("a", RATE_FOR_HOURS), Saying("b", OUTAGE))
    made.left = 50.0
    with pytest.raises(
        GoalseekError, match=r"b could not reach its model .*cannot be asked before 20\d\d-.*Z"
    ) as caught:
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
