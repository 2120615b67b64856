"""The calls that the next record pays for: what each is charged, sums with unknown costs, and the agents' own caps."""

import json
import signal
import subprocess
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from fake_agents import APPROVES, SCORES, SCORING, Fakes
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from project import Project, Projects, answer, home
from records import iteration
from reviewing import REPORT, USAGE, tokens
from test_watch import climb

from goalseek.humanize import format_cost, format_dollars
from goalseek.ledger.checkpoints import CheckpointName, Checkpoints, Seal
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Limits
from goalseek.phase_values import Session
from goalseek.proposal import call
from goalseek.proposal.usage import MEDIAN_ITERATIONS, UsageLog, forecast_cost, killed_call_usage, median_call
from goalseek.records import IterationRecord
from goalseek.values import Attempt, Usage, from_plain, to_plain

USUAL = Usage(50, 20, 10, 0.1)
NOTHING = Usage()
SESSION = Session("s", "large", Usage(300, 60, 30, 0.75))


def made(folder: Path, reported: Usage = NOTHING, usual: Usage = USUAL) -> UsageLog:
    """As another process finds them."""
    checkpoints = Checkpoints(folder, Seal(b"secret"), "", "follows")
    calls = UsageLog(checkpoints, lambda call, session: reported, lambda calls_each: usual, Standing)
    calls.current_step = "change"
    return calls


def test_a_session_is_that_of_the_last_call_in_its_home_until_that_call_is_charged_as_killed(tmp_path: Path) -> None:
    calls = made(tmp_path)
    assert calls.session("1 claude") is None
    calls.add("APPLY_CHANGE", "1 claude")
    calls.note(session=SESSION)
    calls.add("REVIEW", "1 review claude")
    assert made(tmp_path).session("1 claude") == SESSION and made(tmp_path).session("1 review claude") is None
    calls.answers[CheckpointName("change")] = Usage()
    calls.settle()
    assert calls.session("1 claude") == SESSION and calls.spending().usage == Usage()
    calls.add("APPLY_CHANGE", "1 claude")
    assert made(tmp_path).session("1 claude") is None, "that call may have died in it"
    calls.note(session=SESSION)
    again = made(tmp_path, Usage(70))
    again.settle()
    assert again.session("1 claude") is None and again.spending().usage == Usage(170, 60, 30, pytest.approx(0.3), True)


def test_a_call_that_ended_before_a_kill_is_charged_from_the_session_before_it(tmp_path: Path) -> None:
    calls = made(tmp_path)
    calls.add("PLAN", "1 claude")
    calls.note(session=Session("s"))
    calls.add("APPLY_CHANGE", "1 claude")
    calls.note(session=SESSION)  # it ended, and goalseek was killed before the answer was stored
    before: list[Session | None] = []

    def usage_left(call: object, session: Session | None) -> Usage:
        before.append(session)
        return Usage()

    checkpoints = Checkpoints(tmp_path, Seal(b"secret"), "", "follows")
    UsageLog(checkpoints, usage_left, lambda calls_each: USUAL, Standing).settle()
    assert before == [Session("s")], "its own totals would leave nothing of what it used"


def test_a_failed_call_is_charged_what_it_told_and_one_past_its_time_the_usual_at_least(tmp_path: Path) -> None:
    calls = made(tmp_path)
    calls.add("APPLY_CHANGE")
    calls.note(killed=0, cut_short=False)
    calls.note_failure("APPLY_CHANGE", "it crashed", Usage(1))
    assert calls.spending().usage == Usage(1)
    calls.add("APPLY_CHANGE")
    calls.note(killed=2, cut_short=True)
    calls.note_failure("APPLY_CHANGE", "its time was up", Usage(80))
    assert calls.spending().usage == Usage(81, 20, 10, 0.1, True, cost_is_partial=True), "the first one told no dollars"
    calls.note_failure("APPLY_CHANGE", "there is no program", Usage())
    assert calls.spending().usage.tokens == 111, "the one past its time is charged once"
    calls.answers[CheckpointName("plan")] = Usage(0, 0, 0, 0.1)
    calls.add("APPLY_CHANGE")
    calls.note_failure("APPLY_CHANGE", "it crashed", Usage(0, 0, 0, 0.6))
    assert calls.spending().usage.cost_usd == 0.1 + (0.1 + 0.6), "as earlier versions add them up"


def test_a_failure_without_a_call_is_told_under_its_own_phase(tmp_path: Path) -> None:
    calls = made(tmp_path)
    calls.current_step = "plan"
    calls.add("PLAN")
    calls.current_step = "change"
    calls.note_failure("APPLY_CHANGE", "there is no program", Usage())
    assert made(tmp_path).notes == ("in APPLY_CHANGE there is no program",) and calls.spending().usage == Usage()
    calls.answers[CheckpointName("plan")] = Usage()
    calls.settle()
    assert calls.spending().usage == Usage()


COUNTS = st.integers(0, 10**6)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, st.none() | st.floats(0, 100))


def used(usage: Usage) -> IterationRecord:
    return iteration(1, 1, "kept", "better", usage=usage)


@given(USAGES, USAGES)
def test_a_killed_call_is_charged_no_less_than_it_reported_and_than_is_usual(reported: Usage, usual: Usage) -> None:
    charged = killed_call_usage(reported, usual)
    for name in ("input_tokens", "cached_tokens", "output_tokens"):
        assert getattr(charged, name) == max(getattr(reported, name), getattr(usual, name))
    costs = [cost for cost in (reported.cost_usd, usual.cost_usd) if cost is not None]
    if reported.cost_usd is not None or reported.tokens <= usual.tokens:
        assert charged.cost_usd == max(costs, default=None)
    elif usual.cost_usd is not None and usual.tokens:
        assert charged.cost_usd == pytest.approx(usual.cost_usd * reported.tokens / usual.tokens)
    assert charged.estimated == (replace(charged, estimated=False) != reported)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=MEDIAN_ITERATIONS), st.integers(1, 2))
def test_the_usual_call_is_the_median_of_those_that_reported(counts: list[int], calls_each: int) -> None:
    told = [used(Usage(count, 0, 1, count / 10)) for count in counts]
    silent = [used(Usage()), used(Usage(10**9, estimated=True))]
    usual = median_call([*silent, *told], calls_each)
    middle = sorted(counts)
    low, high = middle[(len(middle) - 1) // 2], middle[len(middle) // 2]
    assert low <= usual.input_tokens * calls_each <= high + calls_each
    assert usual.cost_usd == pytest.approx((low + high) / 20 / calls_each)
    assert not usual.estimated


def test_nobody_was_called_for_what_git_moved_to_a_later_tip() -> None:
    moved, repaired = Attempt("m", "moved", Usage(), "base"), Attempt("r", "verify_failed", Usage())
    for attempts, calls in (((moved,), 1), ((moved, moved), 1), ((repaired, moved), 2)):
        assert median_call([replace(used(Usage(100 * calls)), attempts=attempts)], 1) == Usage(100)


def test_only_the_newest_count_and_where_nobody_reported_nothing_is_usual() -> None:
    assert median_call([used(Usage(5))] * MEDIAN_ITERATIONS + [used(Usage(10**6))] * 99, 1) == Usage(5)
    assert median_call([used(Usage())], 1) == median_call([], 2) == Usage()
    assert killed_call_usage(Usage(), Usage()) == Usage()


BETTER = "printf '{\"score\": %s}' $((GOALSEEK_ITERATION + 1)) > answer.json; echo a title\n"
HANGS = """\
if [ -e "$HOME/hang" ]; then
  [ -e "$HOME/told" ] && cp "$HOME/told" "$GOALSEEK_USAGE"
  rm "$HOME/hang"; touch "$HOME/waiting"; sleep 60
fi
"""
PLANS = (
    "[ $GOALSEEK_PHASE = plan ] && "
    "{ printf '<<<GOALSEEK PLAN %s\\na title\\nGOALSEEK PLAN %s>>>\\n' $GOALSEEK_NONCE $GOALSEEK_NONCE; exit; }\n"
)


def killed_in_the_call(project: Project, number: signal.Signals, told: object = None) -> None:
    """Starts to climb, and kills the tool while the agent is at work, after it reported ``told``."""
    home("hang").touch()
    home("waiting").unlink(missing_ok=True)
    home("told").unlink(missing_ok=True)
    if told is not None:
        home("told").write_text(json.dumps(told))
    started: subprocess.Popen[str] = project.start_until(home("waiting"), "iterate")
    started.send_signal(number)
    started.communicate(timeout=30)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("cat answer.json > new; cp new answer.json; rm new", "no_change"),
        ("""printf '{"score": 1}' > answer.json; touch "$GOALSEEK_PROJECT_ROOT/.git/x"; exit 3""", "provider_failed"),
    ],
)
@pytest.mark.slow
def test_a_call_that_failed_is_charged_what_it_reported(project: Project, script: str, reason: str) -> None:
    record = project.set_agent(REPORT + script).climb()[-1]
    tries = 4 if reason == "provider_failed" else 1
    usage = {**{name: tries * amount for name, amount in USAGE.items()}, "estimated": False}
    assert (record["reason"], record["usage"]) == (reason, usage)
    assert ["failed" in note for note in record["notes"]] == ([True, True] if tries > 1 else []), "once for all tries"


def test_a_change_that_goes_back_and_a_plan_that_is_none_are_charged_for_each_call(project: Project) -> None:
    record = project.set_agent(REPORT + "echo x > other.txt", repair=2).climb()[-1]
    assert (record["reason"], tokens(record), record["usage"]["cost_usd"]) == ("out_of_scope", 300, 0.75)
    assert [attempt["usage"]["cost_usd"] for attempt in record["attempts"]] == [0.25, 0.25]
    assert record["notes"] == []
    record = project.set_agent(REPORT + "echo no plan", ask_plan=True).climb()[-1]
    assert (record["reason"], tokens(record)) == ("no_plan", 200), "it was asked for once more"
    record = project.set_agent(REPORT + PLANS + "exit 1", ask_plan=True).climb()[-1]
    assert (record["reason"], tokens(record), record["usage"]["cost_usd"]) == ("provider_failed", 500, 1.25)


@pytest.mark.slow
def test_a_step_that_failed_is_charged_when_another_process_records_it(project: Project) -> None:
    project.set_agent(REPORT + "exit 1")
    for _ in range(5 + 3):
        ended = project.run("step")
    assert "next: LOG" in ended.stdout, ended
    record = project.climb("iterate", "-n", "1")[-1]
    assert (record["iteration"], tokens(record), record["usage"]["estimated"]) == (1, 4 * 100, False)


@pytest.mark.slow
def test_a_call_past_its_time_or_killed_by_others_is_charged_the_median_call_at_least(project: Project) -> None:
    project.set_agent(REPORT + BETTER).climb("iterate", "-n", "2")
    few = """printf '{"input_tokens": 100}' > "$GOALSEEK_USAGE"\n"""
    record = project.set_agent(few + "sleep 60", timeout=0.5).climb()[-1]
    assert record["reason"] == "provider_timeout"
    assert record["usage"] == {**USAGE, "input_tokens": 100, "estimated": True}
    record = project.set_agent("kill -9 $$").climb()[-1]
    assert record["reason"] == "provider_failed"
    assert record["usage"] == {**{name: 4 * amount for name, amount in USAGE.items()}, "estimated": True}


RESUMED = "an earlier invocation ended before its record; this one used its stored answers: context"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plans", "phase", "used"), [("", "APPLY_CHANGE", f"{RESUMED}, plan"), (PLANS, "PLAN", RESUMED)]
)
def test_a_call_that_was_killed_is_charged_the_median_call(project: Project, plans: str, phase: str, used: str) -> None:
    """A plan is half of what an iteration costs."""
    project.set_agent(HANGS + REPORT + plans + BETTER, ask_plan=bool(plans)).climb("iterate", "-n", "2")
    calls_each = 2 if plans else 1
    assert tokens(project.iterations()[-1]) == calls_each * 100
    killed_in_the_call(project, signal.SIGKILL)
    record = project.climb()[-1]
    assert (record["iteration"], record["outcome"]) == (3, "kept")
    whole = {name: (calls_each + 1) * amount for name, amount in USAGE.items()}
    assert record["usage"] == {**whole, "estimated": True}
    charged = f"a call in {phase} ended without an answer; it counts as 100 tokens, 0.25 dollars"
    assert record["notes"] == [charged, used]
    record = project.climb()[-1]
    assert (tokens(record), record["usage"]["estimated"], record["notes"]) == (calls_each * 100, False, [])


@pytest.mark.slow
def test_kills_are_each_charged_and_count_for_the_limit(project: Project) -> None:
    limits = {"limits": {"tokens": 1000}}
    project.set_agent(HANGS + REPORT + BETTER, limits)
    killed_in_the_call(project, signal.SIGKILL, {"input_tokens": 600})
    killed_in_the_call(project, signal.SIGTERM, {"input_tokens": 500})
    assert project.run("exec", "--", "true").exit_code == 0, "another command in between"
    ended = project.run("--json", "iterate", "--forever")
    assert (ended.exit_code, json.loads(ended.stdout.splitlines()[-1])["stop_reason"]) == (0, "tokens")
    assert len(project.iterations()) == 1
    record = project.set_agent(HANGS + REPORT + BETTER, {"limits": {"tokens": 2000}}).climb()[-1]
    assert (record["iteration"], tokens(record)) == (1, 600 + 500 + 100)
    assert not record["usage"]["estimated"], "each said what it used, and nothing else is known"
    *charged, resumed = record["notes"]
    assert [note.partition("counts as ")[2] for note in charged] == ["600 tokens", "500 tokens"]
    assert resumed.startswith(RESUMED)


@pytest.mark.parametrize("arguments", [("baseline",), ("iterate", "--new")])
@pytest.mark.slow
def test_a_killed_call_is_charged_to_what_comes_in_its_place(project: Project, arguments: tuple[str, ...]) -> None:
    project.set_agent(HANGS + REPORT + BETTER).climb()
    killed_in_the_call(project, signal.SIGKILL)
    assert project.run(*arguments).exit_code == 0
    record = project.iterations()[-1]
    charge = record["usage"] if arguments == ("baseline",) else record["usage_before_run"]
    assert tokens(record) == 100 and charge["estimated"] and charge["input_tokens"] == 70, "a run pays for its own"
    assert len(record["notes"]) == 1


def test_a_provider_that_starts_no_program_spends_nothing(project: Project) -> None:
    project.set_moves(answer(2))
    record = project.climb()[-1]
    assert tokens(record) == 0 and not (project.run_folder(1) / "calls.json").exists()


COSTS = st.none() | st.just(0.0) | st.floats(0.01, 100)
SUMMANDS = st.builds(Usage, COUNTS, COUNTS, COUNTS, COSTS, st.booleans(), COSTS)
TOLD, UNTOLD = Usage(10, cost_usd=4.1), Usage(5)


@given(st.lists(SUMMANDS, min_size=2, max_size=4))
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_refused_agents_nothing_does_not_make_the_next_ones_cost_known(fake: Fakes, agents: Projects) -> None:
    fake("claude", SCORING, always="auth"), fake("codex", SCORING)
    project = agents({"name": "claude", "fallback": [{"name": "codex"}]}, limits={"cost_usd": 5})
    ended = project.run("iterate", "-n", "2")
    assert [record["usage"]["cost_usd"] for record in project.iterations()[1:]] == [None, None]
    assert "limits.cost_usd cannot end this run" in ended.stderr


@pytest.mark.slow
def test_agents_that_can_stop_themselves_hear_what_is_left(fake: Fakes, agents: Projects) -> None:
    claude = fake("claude", SCORING)
    project = agents({"name": "claude"}, limits={"cost_usd": 2})
    project.climb()
    said = [call["argv"][call["argv"].index("--max-budget-usd") + 1] for call in claude.calls]
    assert said == ["2.000000", "1.750000"]
    project.set_manifest({"provider": {"name": "claude"}, "sandbox": {"mode": "none"}})
    project.climb()
    assert "--max-budget-usd" not in claude.calls[-1]["argv"]


@pytest.mark.slow
def test_a_call_that_died_with_goalseek_is_charged_by_its_session(fake: Fakes, agents: Projects) -> None:
    hanging(fake)
    project = agents({"name": "codex"})
    project.kill_when(home("waiting"), "iterate")
    record = project.climb()[-1]
    assert (record["outcome"], tokens(record)) == ("kept", 100 + 450 + 100), record["notes"]
    assert "ended without an answer; it counts as 450 tokens" in record["notes"][0]


@pytest.mark.slow
def test_an_agent_is_ended_by_its_session_file(fake: Fakes, agents: Projects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "LOOK_SECONDS", 0.2)
    hanging(fake)
    project = agents({"name": "codex"}, limits={"tokens": 540})
    ended = climb(project, count=1)
    assert ended.stop and ended.stop.reason == "tokens" and len(ended.records) == 1, "the baseline"
    assert "limits.tokens = 540 is reached, 550 spent" in ended.stop.why
