"""Sessions of agents: who goes on with which, and that each call is charged what it added to what a session tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_agents import COSTS, Fakes
from test_presets import GOING_ON, Asked

from goalseek.errors import GoalseekError
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Plan, Session
from goalseek.providers.coding_agent import session_after, usage_of_call
from goalseek.providers.preset import Answer
from goalseek.values import Usage

TOTAL = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")


def each(name: str) -> Usage:
    """What one answer of a pretended agent costs."""
    return Usage(70, 20, 10, 0.25 if name in COSTS else None)


def went_on(asked: Asked) -> list[bool]:
    """Of each call, whether it went on with a session."""
    return [bool({"--resume", "resume", "--session"} & set(started.arguments)) for started in asked.started]


@pytest.mark.parametrize("name", GOING_ON)
def test_a_repair_goes_on_where_its_apply_was_and_each_is_charged(fake: Fakes, tmp_path: Path, name: str) -> None:
    fake(name)
    asked = Asked(tmp_path, name)
    replies = [asked.plan(), asked.apply(), asked.apply(phase="repair"), asked.apply(phase="repair")]
    assert [reply.usage for reply in replies] == [each(name)] * 4
    assert went_on(asked) == [False, True, True, True]
    session = asked.sessions[name]
    assert session and all(session.name in started.arguments for started in asked.started[1:])


def test_a_plan_of_another_provider_is_not_looked_for_in_a_session_without_it(fake: Fakes, tmp_path: Path) -> None:
    fake("claude")
    asked = Asked(tmp_path, "claude")
    asked.plan()
    asked.apply(Plan("a title", "", provider="another"))
    asked.apply(Plan("a title", "", provider="another"), phase="repair")
    assert went_on(asked) == [False, False, True]


@pytest.mark.parametrize("name", GOING_ON)
@pytest.mark.parametrize("act", ["transient", "half", "rate 0", "spent 0"])
@pytest.mark.slow
def test_a_failed_call_in_a_session_is_charged_once(fake: Fakes, tmp_path: Path, name: str, act: str) -> None:
    made = fake(name)
    made.acts(_1=act, _3=act)
    asked = Asked(tmp_path, name)
    charged = [asked.plan().usage, asked.apply().usage, asked.apply(phase="repair").usage]
    charged += [usage for _, usage in asked.again]
    assert (len(made.calls), len(asked.again), went_on(asked)) == (5, 2, [False, True, True, True, True])
    answers = 5 if act in ("half", "spent 0") and name in ("claude", "codex") else 3
    assert sum(usage.tokens for usage in charged) == 100 * answers
    assert sum(usage.cost_usd or 0 for usage in charged) == (0.25 * answers if name in COSTS else 0)
    if name == "claude":
        used = [Usage()] * 2 if answers == 3 else [each(name)] * 2
        assert [usage.tokens for _, usage in asked.again] == [usage.tokens for usage in used]
        assert charged[:3] == [each(name)] * 3


@pytest.mark.parametrize("name", GOING_ON)
def test_a_session_that_is_gone_is_not_waited_for(fake: Fakes, tmp_path: Path, name: str) -> None:
    made = fake(name)
    asked = Asked(tmp_path, name)
    asked.plan()
    for place in (tmp_path / "agent-home" / "sessions").iterdir():
        place.unlink()
    assert asked.apply().usage == each(name)
    assert (len(made.calls), went_on(asked), asked.waits) == (3, [False, True, False], [])
    ((why, usage),) = asked.again
    assert f"{name} cannot go on with its session" in why and usage.tokens == 0
    assert asked.apply(phase="repair").usage == each(name) and went_on(asked)[-1]


def test_a_crash_begins_a_session_anew_and_where_that_crashes_too_it_is_given_up(fake: Fakes, tmp_path: Path) -> None:
    made = fake("codex")
    made.acts(apply="crash")
    asked = Asked(tmp_path, "codex")
    asked.plan()
    asked.left = 0.0
    with pytest.raises(GoalseekError):
        asked.apply()
    assert (len(made.calls), went_on(asked)) == (3, [False, True, False])
    made.acts()
    asked.left = 60.0
    asked.apply()
    assert went_on(asked)[-1] is False, "a call that crashed leaves no session"


@pytest.mark.parametrize("name", [7, ["s"], {"s": 1}, "", "--add-dir=/", "-", "two words", "a\nb", "s" * 201, None])
def test_what_is_no_name_of_a_session_never_becomes_a_word_of_a_command_line(name: object) -> None:
    assert session_after(Answer(session=name), None, "") is None  # type: ignore[arg-type]
    assert session_after(Answer(session="5e55-10_n.1:a"), None, "m") == Session("5e55-10_n.1:a", "m")


def test_another_model_and_a_review_begin_a_session_of_their_own(fake: Fakes, tmp_path: Path) -> None:
    fake("claude")
    asked = Asked(tmp_path, "claude", model="large", plan=ProviderTable(name="claude", model="s"))
    asked.plan()
    asked.apply()
    assert went_on(asked) == [False, False]
    asked.apply(phase="repair")
    assert went_on(asked)[-1]
    asked.phase = "review"
    author = asked.chain.editors[0]
    author.review(asked.made())  # type: ignore[attr-defined]
    assert not went_on(asked)[-1]


def test_a_total_of_dollars_beside_tokens_of_each_call_is_no_total_of_tokens(fake: Fakes, tmp_path: Path) -> None:
    fake("claude").acts(always="short")
    asked = Asked(tmp_path, "claude")
    main = Usage(60, 20, 10, 0.25)
    asked.phase = "apply"
    assert [asked.apply(phase=phase).usage for phase in ("apply", "repair", "repair")] == [main] * 3


@pytest.mark.parametrize(
    ("told", "whole", "before", "wanted"),
    [
        (Usage(300, 60, 30, 0.75), TOTAL, Usage(200, 40, 20, 0.5), Usage(100, 20, 10, 0.25)),
        (Usage(100, 20, 10, 0.25), TOTAL, Usage(200, 40, 20, 0.5), Usage(100, 20, 10, 0.25)),
        (Usage(300, 10, 30, 0.75), TOTAL, Usage(200, 40, 20, 0.5), Usage(300, 10, 30, 0.75)),
        (Usage(200, 40, 20, 0.3), TOTAL, Usage(200, 40, 20, 0.1 + 0.2), Usage(0, 0, 0, 0.0)),
        (Usage(300, 60, 30), TOTAL, Usage(200, 40, 20, 0.5), Usage(100, 20, 10)),
        (Usage(300, 60, 30, 0.75), TOTAL[:3], Usage(200, 40, 20), Usage(100, 20, 10, 0.75)),
        (Usage(30, 6, 3, 0.75), TOTAL[3:], Usage(200, 40, 20, 0.5), Usage(30, 6, 3, 0.25)),
        (Usage(30, 6, 3, 0.75), (), Usage(200, 40, 20, 0.5), Usage(30, 6, 3, 0.75)),
    ],
)
def test_what_a_call_added_to_a_total(told: Usage, whole: tuple[str, ...], before: Usage, wanted: Usage) -> None:
    """A total below the one before was begun anew, and rounded dollars alone say nothing of that."""
    assert usage_of_call(Answer(usage=told, whole_session=whole), Session("s", told=before)) == wanted
    assert usage_of_call(Answer(usage=told, whole_session=whole), None) == told
