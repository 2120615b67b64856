"""What calls cost: sums whose cost is partly unknown, what a killed agent's files tell, and the agents' own caps."""

import signal
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_agents import APPROVES, SCORES, SCORING, Fakes
from hypothesis import given
from hypothesis import strategies as st
from project import Project, Projects, home
from records import iteration
from reviewing import tokens
from test_calls import made
from test_watch import climb

from goalseek.cli.commands.status import _tokens
from goalseek.humanize import format_cost, format_dollars
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.ledger.standing import Spend
from goalseek.manifest.tables import Limits
from goalseek.proposal import call
from goalseek.proposal.usage import forecast_cost
from goalseek.values import Usage, from_plain, to_plain

COUNTS = st.integers(0, 1000)
COSTS = st.none() | st.just(0.0) | st.floats(0.01, 100)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COSTS, st.booleans(), COSTS)
TOLD, UNTOLD = Usage(10, cost_usd=4.1), Usage(5)


@given(st.lists(USAGES, min_size=2, max_size=4))
def test_a_sum_says_what_it_lacks_in_whatever_order(usages: list[Usage]) -> None:
    totals = [Usage.total(order) for order in permutations(usages)]
    lacks = any(usage.tokens and not usage.has_cost for usage in usages)
    has_dollars = any(usage.cost_usd or usage.about_usd for usage in usages)
    assert {total.cost_is_partial for total in totals} == {lacks and has_dollars}
    assert {total.has_cost for total in totals} == {has_dollars or (not lacks and totals[0].has_cost)}


def test_only_a_partial_cost_is_stored_as_one_and_old_records_are_none() -> None:
    assert "cost_is_partial" not in to_plain(TOLD) and not from_plain(Usage, to_plain(TOLD)).cost_is_partial
    partial = TOLD.plus(UNTOLD)
    assert to_plain(partial)["cost_is_partial"] is True and from_plain(Usage, to_plain(partial)) == partial
    assert Usage(cost_usd=0.0).plus(UNTOLD).cost_usd is None, "nothing was refused for nothing"


def test_dollars_below_a_cent_keep_two_digits_and_unknown_ones_are_said() -> None:
    amounts = (0, 0.0000123, 0.0042, 0.0095, 0.01, 4.1, 1234.5)
    assert [format_dollars(amount) for amount in amounts] == [
        "$0.00", "$0.000012", "$0.0042", "$0.0095", "$0.01", "$4.10", "$1,234.50",
    ]  # fmt: skip
    assert format_cost(TOLD) == "$4.10" and format_cost(UNTOLD) == "unknown"
    assert format_cost(TOLD.plus(UNTOLD)) == "at least $4.10"
    both = Usage(1, cost_usd=1, estimated=True).plus(Usage(1, about_usd=0.5)).plus(UNTOLD)
    assert format_cost(both) == "at least about $1.00 and about $0.50 by subscription"


def test_status_says_of_each_sum_that_it_is_the_least() -> None:
    spend = Spend(usage=Usage(1, about_usd=0.5).plus(UNTOLD))
    shown = _tokens(SimpleNamespace(spend=spend, outcomes={"kept": 2}))  # type: ignore[arg-type]
    assert shown == "6 tokens, at least about $0.50 by subscription; a kept change 3 tokens"


def test_a_forecast_from_partial_costs_is_the_least() -> None:
    seconds = {"PLAN": 3600.0}
    told, untold = (iteration(1, 1, "kept", "better", usage=usage, seconds=seconds) for usage in (TOLD, UNTOLD))
    assert "tokens, $32.80" in forecast_cost([told, told], Limits())
    assert "tokens, at least $32.80" in forecast_cost([told, untold], Limits())


def test_the_usual_call_of_a_first_iteration_is_what_its_other_calls_told(tmp_path: Path) -> None:
    calls = made(tmp_path, usual=Usage())
    calls.answers = {CheckpointName("plan"): Usage(1290, cost_usd=0.5), CheckpointName("review"): Usage()}
    calls.add("APPLY_CHANGE")
    calls.note(cut_short=True)
    calls.note_failure("APPLY_CHANGE", "its time was up", Usage(10))
    calls.answers = {}
    assert calls.spending().usage == Usage(1290, cost_usd=0.5, estimated=True)


AGENTS = pytest.mark.slow
ROLLOUT = """
import pathlib, time
place = pathlib.Path(home, ".codex/sessions/2026/rollout-1-" + session + ".jsonl")
place.parent.mkdir(parents=True, exist_ok=True)
total = {"input_tokens": 500, "cached_input_tokens": 100, "output_tokens": 50}
info = {"total_token_usage": total}
place.write_text(json.dumps({"type": "event_msg", "payload": {"type": "token_count", "info": info}}) + "\\n")
print(json.dumps({"type": "thread.started", "thread_id": session}), flush=True)
open(%r, "w").close()
time.sleep(60)
"""


@pytest.fixture
def agents(make_project: Projects) -> Projects:
    """Makes a project with these agents, whose edit is a score."""

    def make(provider: dict[str, Any], **tables: Any) -> Project:
        scope = {"writable": ["answer.json"], "hidden": ["hidden/**"]}
        manifest = {"scope": scope, "provider": provider, "sandbox": {"mode": "none"}, **tables}
        return make_project(files=SCORES, manifest=manifest)

    return make


def hanging(fake: Fakes) -> None:
    """A codex that hangs in its second call, once its session has used 550 tokens."""
    fake("codex", SCORING, _1=f"run {ROLLOUT % str(home('waiting'))}")


@AGENTS
def test_a_sum_of_two_agents_of_which_one_tells_no_dollars_is_a_least_everywhere(fake: Fakes, agents: Projects) -> None:
    fake("codex", SCORING), fake("claude", SCORING, always=APPROVES)
    review = {"provider": "claude", "criteria": ["It is short."]}
    project = agents({"name": "codex"}, review=review, limits={"cost_usd": 0.6})
    ended = project.run("iterate", "-n", "4")
    usage = project.iterations()[-1]["usage"]
    assert (usage["cost_usd"], usage["cost_is_partial"]) == (0.25, True)
    assert "limits.cost_usd counts only the cost that is known: some calls do not report it" in ended.stderr
    assert "cannot end this run" not in ended.stderr and len(project.iterations()) == 1 + 2
    assert " · at least $0.50, $0.25 a kept change · " in ended.stdout, ended.stdout
    assert "tokens, at least $0.50; a kept change 300 tokens, at least $0.25" in project.check("status")
    assert " out, at least $0.25\n" in project.check("show", "1")
    assert "at least $0.50" in project.check("report", "-o", "-", "--format", "md")


@AGENTS
def test_a_refused_agents_nothing_does_not_make_the_next_ones_cost_known(fake: Fakes, agents: Projects) -> None:
    fake("claude", SCORING, always="auth"), fake("codex", SCORING)
    project = agents({"name": "claude", "fallback": [{"name": "codex"}]}, limits={"cost_usd": 5})
    ended = project.run("iterate", "-n", "2")
    assert [record["usage"]["cost_usd"] for record in project.iterations()[1:]] == [None, None]
    assert "limits.cost_usd cannot end this run" in ended.stderr


@AGENTS
def test_agents_that_can_stop_themselves_hear_what_is_left(fake: Fakes, agents: Projects) -> None:
    claude = fake("claude", SCORING)
    project = agents({"name": "claude"}, limits={"cost_usd": 2})
    project.climb()
    said = [call["argv"][call["argv"].index("--max-budget-usd") + 1] for call in claude.calls]
    assert said == ["2.000000", "1.750000"]
    project.set_manifest({"provider": {"name": "claude"}, "sandbox": {"mode": "none"}})
    project.climb()
    assert "--max-budget-usd" not in claude.calls[-1]["argv"]


@AGENTS
def test_a_call_that_died_with_goalseek_is_charged_what_the_session_in_its_home_tells(
    fake: Fakes, agents: Projects
) -> None:
    hanging(fake)
    project = agents({"name": "codex"})
    started = project.start_until(home("waiting"), "iterate")
    started.send_signal(signal.SIGKILL)
    started.communicate(timeout=30)
    record = project.climb()[-1]
    assert (record["outcome"], tokens(record)) == ("kept", 100 + 450 + 100), record["notes"]
    assert "ended without an answer; it counts as 450 tokens" in record["notes"][0]


@AGENTS
def test_a_running_agent_is_ended_by_what_its_session_file_tells(
    fake: Fakes, agents: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "LOOK_SECONDS", 0.2)
    hanging(fake)
    project = agents({"name": "codex"}, limits={"tokens": 540})
    ended = climb(project, count=1)
    assert ended.stop and ended.stop.reason == "tokens" and len(ended.records) == 1, "the baseline"
    assert "limits.tokens = 540 is reached, 550 spent" in ended.stop.why
