"""How several iterations at once end, at limits or by a request; what is measured alone waits for them."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from project import held_out, home, living, until
from test_queue import JUDGE, MANIFEST, NAMES, begin, move, tries_of

import goalseek
from goalseek.loop import invocation
from goalseek.loop.loop import iterate
from goalseek.manifest.loading import load
from goalseek.phase_values import Ahead
from goalseek.project.limits import Spending
from goalseek.project.opening import open_project
from goalseek.project.project import Project as OpenProject
from goalseek.project.stop import Ends, request_stop

AGENT = """\
number=0
sleep "$(cat "$HOME/sleep" 2>/dev/null || echo 0)"
echo "$GOALSEEK_ITERATION" >> "$HOME/called"
for name in a b c d e f g h; do [ $(($GOALSEEK_ITERATION % 8)) = $number ] && echo 1 > $name.txt; number=$((number + 1)); done
echo '{"input_tokens": 10, "cost_usd": 1}' > "$GOALSEEK_USAGE"
echo "idea $GOALSEEK_ITERATION"
"""
WROTE = 'echo 7 > h.txt; touch "$HOME/wrote-$GOALSEEK_ITERATION"'


@pytest.mark.slow
def test_no_limit_counts_less_than_what_is_under_way(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", agent=AGENT, limits={"cost_usd": 3.0})
    home("sleep").write_text("0.4")
    tries = tries_of(project.climb("iterate", "--jobs", "4", "-n", "99"))
    assert len(tries) == 3
    assert project.state()["stop_reason"] == "cost"
    project.set_manifest(project.manifest.read_text().replace("cost_usd = 3.0", "iterations = 5"))
    tries = tries_of(project.climb("iterate", "--jobs", "4", "-n", "99"))
    assert len(tries) == 5
    assert project.state()["stop_reason"] == "iterations"
    assert not list((project.logs.parent / "runs" / "flight").glob("begun*"))
    assert sum(record["active_seconds"] for record in tries) < sum(sum(record["seconds"].values()) for record in tries)
    project.check("audit")


def test_until_one_call_has_an_answer_no_other_begins_where_dollars_are_limited(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", agent=AGENT, limits={"cost_usd": 1.5})
    (record,) = tries_of(project.climb("iterate", "--jobs", "4", "-n", "4"))
    assert record["usage"]["cost_usd"] == 1 and home("called").read_text() == "1\n"
    assert project.state()["stop_reason"] == "cost"


@pytest.mark.slow
def test_who_would_pass_a_limit_with_the_calls_of_others_waits_until_they_end(tmp_path: Path) -> None:
    agent = """\
if [ $GOALSEEK_PHASE = plan ]; then
  echo "$GOALSEEK_ITERATION" >> "$HOME/planned"
  [ $GOALSEEK_ITERATION = 1 ] || until [ "$(wc -l < "$HOME/planned")" = 4 ]; do sleep 0.05; done
  echo '{"cost_usd": 1}' > "$GOALSEEK_USAGE"
  printf '<<<GOALSEEK PLAN %s\\nidea\\nGOALSEEK PLAN %s>>>\\n' $GOALSEEK_NONCE $GOALSEEK_NONCE
  exit
fi
sleep 0.5
"""
    # The fourth plan begins before the first record, which says that an iteration costs two dollars.
    planned = home("planned")
    judge = f'[ ! -e {planned} ] || until [ "$(wc -l < {planned})" = 4 ]; do sleep 0.05; done\n{JUDGE}'
    project = begin(tmp_path / "repository", judge)
    project.set_agent(agent + AGENT, {**MANIFEST, "limits": {"cost_usd": 6.0}}, ask_plan=True, timeout="60s")
    ended = project.run("iterate", "--jobs", "3", "--forever")
    assert ended.exit_code == 0 and "the running calls may reach a limit; the next call waits for them" in ended.stderr
    calls = home("planned").read_text().split() + home("called").read_text().split()
    assert (len(calls), len(tries_of(project.iterations()))) == (6, 2), "each call costs a dollar"
    assert project.state()["stop_reason"] == "cost"
    project.set_manifest(project.manifest.read_text().replace("cost_usd = 6.0", "cost_usd = 8.0"))
    project.check("iterate", "--jobs", "3", "--forever")
    assert sorted(home("planned").read_text().split()) == ["1", "2", "3", "4"], "the plans were stored"
    assert len(tries_of(project.iterations())) == 4 and len(home("called").read_text().split()) == 4


@pytest.mark.slow
def test_calls_end_once_together_they_have_used_up_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalseek.proposal.call.LOOK_SECONDS", 0.1)
    hangs = """\
echo "$GOALSEEK_ITERATION" >> "$HOME/asked"
[ $GOALSEEK_ITERATION = 1 ] || { echo '{"input_tokens": 400}' > "$GOALSEEK_USAGE"; sleep 60; }
"""
    project = begin(tmp_path / "repository", agent=hangs + AGENT, parallel={"agents": 3}, limits={"tokens": 1000})
    began = time.monotonic()
    list(goalseek.iterate(goalseek.load(project.manifest)))
    assert project.state()["stop_reason"] == "tokens" and time.monotonic() - began < 30
    assert [record["usage"]["input_tokens"] for record in tries_of(project.iterations())] == [10]
    asked = home("asked").read_text()
    project.check("iterate")
    assert home("asked").read_text() == asked and project.state()["stop_reason"] == "tokens"


def test_who_reports_no_dollars_holds_up_nobody_once_there_is_an_answer(tmp_path: Path) -> None:
    agent = "".join(line for line in AGENT.splitlines(keepends=True) if "USAGE" not in line)
    project = begin(tmp_path / "repository", agent=agent, limits={"cost_usd": 1.5})
    (tmp_path / "together").write_text("2")
    first, second = tries_of(project.climb("iterate", "--jobs", "2"))
    assert first["attempts"] == []
    assert [attempt["reason"] for attempt in second["attempts"]] == ["moved"]  # so it began before the first record


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "arguments", "reason"), [({"target": 11}, (), "target"), ({}, ("--until", "score>=11"), "until")]
)
def test_a_target_ends_others(tmp_path: Path, metric: dict[str, Any], arguments: tuple[str, ...], reason: str) -> None:
    agent = AGENT.replace("sleep", "[ $GOALSEEK_ITERATION = 1 ] || sleep", 1)
    metric = {"direction": "maximize", "query": "score", "noise": "none", **metric}
    project = begin(tmp_path / "repository", agent=agent, metric=metric)
    home("sleep").write_text("60")
    began = time.monotonic()
    tries = tries_of(project.climb("iterate", "--jobs", "2", "--forever", *arguments))
    assert [record["iteration"] for record in tries] == [1] and time.monotonic() - began < 30
    assert project.state()["stop_reason"] == reason


@pytest.mark.slow
def test_a_repair_that_ends_because_another_has_reached_the_target_is_paid_for(tmp_path: Path) -> None:
    agent = """\
if [ $GOALSEEK_ITERATION = 2 ]; then until [ -e "$HOME/repairs" ]; do sleep 0.05; done
elif [ $GOALSEEK_PHASE = repair ]; then
  echo '{"input_tokens": 70, "cost_usd": 3}' > "$GOALSEEK_USAGE"; touch "$HOME/repairs"; sleep 60
else rm b.txt; fi
"""
    metric = {"direction": "maximize", "query": "score", "noise": "none", "target": 11}
    agent += AGENT.replace("echo 1 > $name.txt", "[ -e $name.txt ] && echo 1 > $name.txt")
    whole = {"name": "whole", "run": "cat b.txt", "sees": "candidate"}
    verify = [whole, {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"}]
    project = begin(tmp_path / "repository", agent=agent, metric=metric, verify=verify)
    tries = {record["iteration"]: record for record in tries_of(project.climb("iterate", "--jobs", "2", "--forever"))}
    assert project.state()["stop_reason"] == "target" and tries[1]["reason"] == "verify_failed"
    paid = [(one["usage"]["input_tokens"], one["usage"]["cost_usd"]) for one in tries.values()]
    assert (80, 4) in paid, "which of them is repaired first is open"


@pytest.mark.parametrize(
    "reason", ["for", pytest.param("time", marks=pytest.mark.slow), pytest.param("deadline", marks=pytest.mark.slow)]
)
def test_at_the_end_of_the_time_measurements_finish_and_proposals_end(tmp_path: Path, reason: str) -> None:
    agent = AGENT.replace("sleep", "echo 7 > b.txt; [ $GOALSEEK_ITERATION = 1 ] || sleep", 1)
    project = begin(tmp_path / "repository", agent=agent)
    project.check("baseline")
    for path, seconds in ((tmp_path / "seconds", "4"), (home("sleep"), "60")):
        path.write_text(seconds)
    limits = {"for": "", "time": '[limits]\ntime = "3s"\n'}
    deadline = f"[limits]\ndeadline = {datetime.now(UTC) + timedelta(seconds=3):%Y-%m-%dT%H:%M:%SZ}\n"
    unlimited = project.manifest.read_text()
    project.set_manifest(unlimited + limits.get(reason, deadline))
    arguments = ("--for", "3s") if reason == "for" else ()
    (record,) = tries_of(project.climb("iterate", "--jobs", "2", "-n", "2", *arguments))
    assert (record["iteration"], record["outcome"], project.state()["stop_reason"]) == (1, "kept", reason)
    assert "b.txt" in (project.run_folder(2) / "changes.diff").read_text()
    for path in (tmp_path / "seconds", home("sleep")):
        path.write_text("0")
    project.set_manifest(unlimited)
    tries = tries_of(project.climb("iterate", "--jobs", "2", "-n", "1"))
    assert sorted(record["iteration"] for record in tries) == [1, 2]
    project.check("audit")


def test_no_time_for_another_ends_none_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = AGENT.replace("sleep", "[ $GOALSEEK_ITERATION = 1 ] || sleep", 1)
    project = begin(tmp_path / "repository", agent=agent, parallel={"agents": 2}, limits={"time": "60s"})
    home("sleep").write_text("1")
    monkeypatch.setattr(
        "goalseek.project.progress.median_iteration_seconds", lambda records: 1000.0 if list(records)[1:] else None
    )
    list(goalseek.iterate(goalseek.load(project.manifest)))
    assert {1, 2} <= {record["iteration"] for record in project.iterations()}
    assert project.state()["stop_reason"] == "time"
    project.check("audit")


@pytest.mark.slow
def test_a_request_to_stop_a_detached_climb_drops_proposals_and_keeps_what_they_have_edited(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", agent=AGENT.replace("sleep", f"{WROTE}; sleep", 1))
    home("sleep").write_text("30")
    project.check("iterate", "--detach", "--jobs", "4", "-n", "99")
    until(lambda: len([*home().glob("wrote-*")]) == 4)
    until(lambda: "running, 4 proposing\n" in project.check("status"))
    refused = project.run("iterate")
    assert refused.exit_code == 4 and "with 4 iterations under way: 4 proposing" in refused.stderr
    assert "drops" in project.check("stop")
    until(lambda: not living(home()))
    assert project.state()["stop_reason"] == "asked"
    for number in range(1, 5):
        assert "h.txt" in (project.run_folder(number) / "changes.diff").read_text()
    home("sleep").write_text("0")
    tries = tries_of(project.climb("iterate", "--jobs", "4", "-n", "4"))
    assert sorted(record["iteration"] for record in tries) == [1, 2, 3, 4]
    project.check("audit")


@pytest.mark.slow
def test_a_look_at_the_holdout_waits_until_nothing_is_under_way_and_the_queue_fills_again(tmp_path: Path) -> None:
    judge = JUDGE.replace("sleep", 'touch "$HOME/busy-$GOALSEEK_SLOT"; sleep', 1) + 'rm "$HOME/busy-$GOALSEEK_SLOT"\n'
    look = """\
cat ?.txt | tr -d '\\n' >> "$HOME/looked"
ls "$HOME" | grep busy >> "$HOME/looked"
echo >> "$HOME/looked"
echo '{"hidden": 1}' > "$GOALSEEK_RUN_DIR/metrics.json"
"""
    holdout = held_out("sh hidden/final.sh", query="hidden", when="kept")
    project = begin(tmp_path / "repository", judge=judge, parallel={"landings": 20}, **holdout)
    project.write({"hidden/final.sh": look})
    project.commit()
    (tmp_path / "seconds").write_text("0.3")
    project.set_moves(*(move(f"try {name}", **{name: 1}) for name in NAMES))
    tries = tries_of(project.climb("iterate", "-n", "5", "--jobs", "2"))
    assert len(tries) == 5 and {record["outcome"] for record in tries} == {"kept"}
    looks = [line for line in home("looked").read_text().split("\n") if line]
    assert looks[0] == "00000000" and set("".join(looks)) == {"0", "1"}  # on the tree it is about, beside nobody
    assert len(looks) >= 3
    project.check("audit")


def test_what_is_measured_alone_has_one_bench_and_says_why(tmp_path: Path) -> None:
    metric = {"direction": "maximize", "query": "score", "noise": "none", "exclusive": "gpu"}
    project = begin(tmp_path / "repository", metric=metric)
    project.set_moves(*(move(f"try {name}", **{name: 1}) for name in "abc"))
    ended = project.run("iterate", "--jobs", "3")  # without a number one iteration for each
    assert ended.stderr.count('metric.exclusive = "gpu" allows one measurement at a time: one bench') == 1
    assert [record["benches"] for record in tries_of(project.iterations())] == [1, 1, 1]


def test_a_look_between_iterations_beats_and_costs_no_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = begin(tmp_path / "repository")
    project.set_moves(*(move(f"try {name}", **{name: 1}) for name in "ab"))
    project.check("baseline")
    looks = []

    def look(opened: OpenProject, config: object, is_end: bool) -> None:
        looks.append(opened.programs.pulse == opened.beat)
        time.sleep(0.2)

    monkeypatch.setattr(invocation, "look_at_holdout", look)
    with open_project(load(project.manifest), doing="iterate") as opened:
        began = time.monotonic()
        records = [*iterate(invocation.Invocation(opened, Ends(2), 2))]
        seconds = time.monotonic() - began
    assert looks and looks[-1]
    assert sum(record.active_seconds or 0.0 for record in records) <= seconds - 0.2 * looks.count(True)


def test_a_stop_requested_while_limits_are_asked_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = begin(tmp_path / "repository", agent=AGENT)
    project.check("baseline")
    with open_project(load(project.manifest), doing="iterate") as opened:
        requests = iter([lambda: request_stop(opened.repository.own)])
        monkeypatch.setattr(invocation, "limit_stop", lambda *_: next(requests, lambda: None)() and None)
        climb = invocation.Invocation(opened, Ends(9), 2)
        spending = Spending(ahead=(Ahead(1),))
        assert [bool(climb.next_config(lambda: spending)) for _ in range(2)] == [True, False]
        assert opened.stop and opened.stop.reason == "asked"


@pytest.mark.slow
def test_another_number_of_benches_counts_once_all_that_are_under_way_have_ended(tmp_path: Path) -> None:
    judge = 'echo "$GOALSEEK_SLOT" >> "$HOME/measured"\n' + JUDGE
    project = begin(tmp_path / "repository", judge, parallel={"agents": 2, "benches": 2})
    (tmp_path / "seconds").write_text("0.2")
    project.set_moves(*(move(f"try {name}", **{name: -1}) for name in NAMES))
    for record in goalseek.iterate(goalseek.load(project.manifest), iterations=8):
        if record.benches == 2:
            text = project.manifest.read_text()
            project.set_manifest(text.replace("benches = 2", "benches = 3"))
    benches = [record["benches"] for record in tries_of(project.iterations())]
    assert benches == sorted(benches) and set(benches) == {2, 3}
    assert {"0"} <= set(home("measured").read_text().splitlines()) <= {"0", "1", "2"}
    project.check("audit")


def test_a_candidate_on_an_earlier_tip_that_several_left_takes_nothing_back(tmp_path: Path) -> None:
    second = '[ "$(cat b.txt)" = 0 ] || { touch "$HOME/second"; sleep 60; }\n'
    first = '[ "$(cat a.txt)" = 0 ] || until [ -e "$HOME/second" ]; do sleep 0.05; done\n'
    project = begin(tmp_path / "repository", second + first + JUDGE)
    project.set_moves(move("first", a=1), move("second", b=1))
    started = project.start("iterate", "-n", "2", "--jobs", "2")
    until(lambda: len(project.iterations()) == 2)
    started.kill()
    started.communicate(timeout=30)
    records = project.climb("iterate", "-n", "1", "--new")
    ends = [(record["outcome"], record["rollback_commit_hash"]) for record in records[1:]]
    assert ends == [("kept", None), ("skipped", None)]
    assert project.git("rev-parse", "refs/goalseek/demo/tip") == records[1]["commit_hash"]
    project.check("audit")


def test_who_waits_for_a_person_alone_is_ended_before_several_begin(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", approve={"before": "each"})
    project.set_moves(move("first", a=-1), move("second", b=1), move("third", c=1))
    for arguments in ((), ("--jobs", "2")):
        assert project.run("iterate", "-n", "3", *arguments).exit_code == 5
        assert len(project.git("for-each-ref", "refs/goalseek/demo/flight").splitlines()) == 1
    project.check("approve", "1")
    assert project.run("iterate", "-n", "3", "--jobs", "2").exit_code == 5
    (first,) = tries_of(project.iterations())
    assert first["rollback_commit_hash"] == project.git("rev-parse", "refs/goalseek/demo/tip")
    assert len(project.git("for-each-ref", "refs/goalseek/demo/flight").splitlines()) == 2
    project.check("audit")
