"""What a run may spend, through the real command line: it ends there, warns before, and goes on when there is more."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from project import Ended, Project, Projects, home

from goalseek.manifest.exposure import EXPOSED

USAGE = {"input_tokens": 70, "cached_tokens": 20, "output_tokens": 10, "cost_usd": 0.25}
BETTER = "printf '{\"score\": %s}' $((GOALSEEK_ITERATION + 1)) > answer.json; echo a title\n"
WORSE = 'printf \'{"score": 0, "x": %s}\' $GOALSEEK_ITERATION > answer.json; echo a title\n'


@pytest.fixture
def spending(project: Project) -> Projects:
    """Makes a project whose agent reports 100 tokens and a quarter of a dollar an iteration, under these limits."""

    def make(limits: dict[str, Any], script: str = BETTER, usage: str = json.dumps(USAGE), **more: Any) -> Project:
        report = f"printf '%s' '{usage}' > \"$GOALSEEK_USAGE\"\n"
        return project.set_agent(report + script, {"limits": limits}, **more)

    return make


def end(project: Project, *arguments: str) -> tuple[Ended, dict[str, Any]]:
    """Climbs with JSON events; how it ended, and the last event."""
    ended = project.run("--json", "iterate", *(arguments or ("--forever",)))
    return ended, json.loads(ended.stdout.splitlines()[-1])


def spent(project: Project) -> float:
    return float(json.loads(project.check("status", "--json"))["spend"]["seconds"])


def notes(ended: Ended) -> list[str]:
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    texts = [event["text"] for event in events if event["event"] == "note"]
    return [text for text in texts if not text.startswith(EXPOSED)]


@pytest.mark.slow
def test_a_limit_ends_a_run_with_0_and_a_new_one_begins_at_none_but_for_totals(spending: Projects) -> None:
    project = spending({"tokens": 299, "total": {"cost_usd": 1}})
    named = "limits.tokens = 299 leaves 99; a call takes about 100 and would not fit"
    for _ in range(2):
        ended, last = end(project)
        assert (ended.exit_code, last["stop_reason"], last["why"]) == (0, "tokens", named)
        assert len(project.iterations()) == 1 + 2
    for arguments in (("--forever", "--new"), ("--new",)):
        ended, last = end(project, *arguments)
        assert (ended.exit_code, last["stop_reason"]) == (0, "cost")
        assert last["why"] == "limits.total.cost_usd = 1 is reached, 1 spent" and "--new" not in last["next"]
        assert len(project.iterations()) == 1 + 4


def test_stagnation_stop_asks_for_a_person_with_5(spending: Projects) -> None:
    project = spending({"stagnation_stop": 2}, WORSE)
    ended, last = end(project)
    assert (ended.exit_code, last["stop_reason"]) == (5, "needs_human")
    assert "nothing was kept in 2 iterations" in last["why"]
    assert "goalseek direct" in last["next"] and "--new" in last["next"]
    state = project.state()
    assert (state["status"], state["stop_reason"], state["next"]) == ("blocked", "needs_human", last["next"])
    assert end(project)[0].exit_code == 5
    assert len(project.iterations()) == 1 + 2


@pytest.mark.slow
def test_an_iteration_that_cannot_end_in_time_is_not_begun_and_one_with_a_candidate_may_finish(
    spending: Projects,
) -> None:
    script = f"[ $GOALSEEK_ITERATION = 2 ] || sleep 5; {BETTER}"
    project = spending({}, script)
    assert end(project, "-n", "1")[0].exit_code == 0
    spending({"deadline": datetime.now(UTC) + timedelta(seconds=4)}, script)
    ended, last = end(project)
    assert (ended.exit_code, last["stop_reason"]) == (0, "deadline")
    spending({"time": spent(project) + 4}, script)
    last = end(project)[1]
    assert last["stop_reason"] == "time" and "could not end before" in last["why"]
    shown = project.run("status").stdout
    assert "next: the limit of time is reached, or the next iteration could exceed it; raise it in the" in shown, shown
    assert len(project.iterations()) == 1 + 1
    spending({}, script)
    for _ in ("READ_CONTEXT", "PLAN", "APPLY_CHANGE", "COMMIT"):
        ended = project.run("step")
    assert "next: VERIFY" in ended.stdout
    spending({"time": spent(project) + 4}, script)
    end(project, "-n", "1")
    assert len(project.iterations()) == 1 + 2


PLANNING = """\
echo $GOALSEEK_PHASE >> "$HOME/phases"
if [ $GOALSEEK_PHASE = plan ]; then
  printf '<<<GOALSEEK PLAN %s\\na title\\nGOALSEEK PLAN %s>>>\\n' $GOALSEEK_NONCE $GOALSEEK_NONCE; exit
fi
"""


def phases() -> list[str]:
    return home("phases").read_text().split()


@pytest.mark.parametrize(
    ("limits", "name", "spent"),
    [
        ({"cost_usd": 0.25}, "cost", "cost_usd 0.25 of 0.25"),
        ({"total": {"tokens": 99}}, "tokens", "total.tokens 100 of 99"),
    ],
    ids=["run", "total"],
)
@pytest.mark.slow
def test_a_budget_that_the_plan_used_up_ends_the_run_before_the_change_and_a_higher_one_goes_on_from_there(
    spending: Projects, limits: dict[str, Any], name: str, spent: str
) -> None:
    project = spending(limits, PLANNING + BETTER, ask_plan=True)
    over = f"next: the limit of {name} is reached, or the next call could exceed it; raise it in the manifest"
    for _ in range(2):
        ended, last = end(project)
        assert (ended.exit_code, last["event"], last["stop_reason"]) == (0, "stopped", name)
        assert len(project.iterations()) == 1 and phases() == ["plan"] and "is reached" in last["why"]
        status = project.check("status")
        assert spent in status and over in status, "the plan is in no record yet"
    stepped = project.run("step")
    assert stepped.exit_code == 0 and "is reached" in stepped.stderr
    spending({}, PLANNING + BETTER, ask_plan=True)
    assert over not in project.check("status"), "it is raised"
    assert end(project, "-n", "1")[1]["stop_reason"] == "count"
    assert phases() == ["plan", "apply"], "the plan was stored"
    record = project.iterations()[-1]
    assert record["usage"]["input_tokens"] == 140 and not record["usage"]["estimated"]
    assert record["notes"] == [
        "an earlier invocation ended before its record; this one used its stored answers: context, plan"
    ]


@pytest.mark.slow
def test_time_that_is_over_ends_a_change_at_work_and_tokens_that_it_used_up_keep_no_measurement_back(
    spending: Projects,
) -> None:
    project = spending({})
    project.check("baseline")
    spending({"time": spent(project) + 1.5}, f'echo x >> "$HOME/phases"; sleep 30; {BETTER}')
    ended, last = end(project)
    assert (ended.exit_code, last["stop_reason"]) == (0, "time")
    assert not (project.run_folder(1) / "change.json").exists() and len(project.iterations()) == 1
    spending({"tokens": 150}, f'echo x >> "$HOME/phases"; {BETTER}')
    assert end(project)[1]["stop_reason"] == "tokens"
    assert [record["outcome"] for record in project.iterations()] == ["baseline", "kept"] and phases() == ["x", "x"]
    assert project.iterations()[1]["usage"]["input_tokens"] == 140, "the one that was ended is charged"


@pytest.mark.slow
def test_what_a_run_had_spent_when_a_limit_ended_it_does_not_end_the_new_one(spending: Projects) -> None:
    project = spending({}, f'touch "$HOME/begun"; sleep 30; {BETTER}')
    project.kill_when(home("begun"), "iterate")
    spending({"tokens": 100})
    assert end(project)[1]["why"] == "limits.tokens = 100 is reached, 100 spent"
    assert "tokens 100 of 100" in project.check("status"), "the killed call is charged"
    assert end(project, "--new")[1]["stop_reason"] == "tokens"
    (record,) = project.iterations()[1:]
    assert [record[name]["input_tokens"] for name in ("usage", "usage_before_run")] == [70, 70]


@pytest.mark.slow
def test_a_plan_that_a_new_run_gives_up_counts_in_the_total_of_all_runs(spending: Projects) -> None:
    project = spending({"tokens": 100, "total": {"tokens": 200}}, PLANNING + BETTER, ask_plan=True)
    assert end(project)[1]["stop_reason"] == end(project, "--new")[1]["stop_reason"] == "tokens"
    assert end(project, "--new")[1]["why"] == "limits.total.tokens = 200 is reached, 200 spent"
    assert "tokens 0 of 100; total.tokens 200 of 200" in project.check("status")
    assert phases() == ["plan", "plan"]
    spending({"total": {"tokens": 1000}}, PLANNING + BETTER, ask_plan=True)
    assert end(project, "-n", "1")[1]["stop_reason"] == "count"
    record = project.iterations()[-1]
    assert [record[name]["input_tokens"] for name in ("usage", "usage_before_run")] == [140, 140]
    assert record["notes"][0] == "in PLAN an answer was not used; it counts as 100 tokens, 0.25 dollars"
    assert "total.tokens 400 of 1000" in project.check("status")


@pytest.mark.slow
def test_at_three_quarters_each_budget_is_warned_of_once_a_run(spending: Projects) -> None:
    project = spending({"iterations": 4, "tokens": 10_000, "total": {"cost_usd": 1.25}})
    ended, last = end(project)
    assert last["stop_reason"] == "iterations"
    assert notes(ended) == [
        "three quarters of limits.iterations = 4 are spent: 3",
        "three quarters of limits.total.cost_usd = 1.25 are spent: 1",
    ]
    spending({"iterations": 6})
    assert notes(end(project, "-n", "1")[0]) == ["three quarters of limits.iterations = 6 are spent: 5"]
    assert notes(end(project, "-n", "1")[0]) == [], "another tick of cron says nothing again"


def test_a_limit_that_is_past_at_the_start_ends_it_before_anything_begins(spending: Projects) -> None:
    project = spending({"deadline": datetime(2001, 1, 1, tzinfo=UTC)})
    for arguments in ((), ("--forever", "--new"), ("-n", "3")):
        ended, last = end(project, *arguments)
        assert (ended.exit_code, last["stop_reason"]) == (0, "deadline")
        assert [json.loads(line)["event"] for line in ended.stdout.splitlines()] == ["note", "sandbox", "stopped"]
    assert project.records() == []
    assert project.git("for-each-ref", "refs/goalseek") == ""
    spending({"deadline": datetime.now(UTC) + timedelta(days=1)})
    assert end(project, "-n", "1")[1]["stop_reason"] == "count"
    assert len(project.iterations()) == 1 + 1


def test_status_says_what_ends_the_run_and_what_to_do_not_that_it_goes_on(spending: Projects) -> None:
    project = spending({"iterations": 1})
    end(project)
    assert (
        "next: limits.iterations = 1 is reached, 1 spent; raise it in the manifest, or begin a new run with: "
        "goalseek iterate --new; goalseek promote applies the kept changes missing from HEAD\n"
        in project.run("status").stdout
    )
    spending({"iterations": 2, "tokens": 1000, "stagnation_stop": 3, "total": {"cost_usd": 7}})
    shown = project.run("status").stdout
    assert "next: goalseek iterate goes on" in shown
    spent = "iterations 1 of 2; tokens 100 of 1000; total.cost_usd 0.25 of 7; stagnation_stop 0 of 3"
    assert re.search(rf"^  limits +{spent}$", shown, re.MULTILINE), shown
