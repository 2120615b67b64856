"""What becomes of several iterations at once when one fails, or a kill or a signal ends them all."""

import signal
import time
from pathlib import Path

import pytest
from project import home, living, until
from test_queue import MANIFEST, begin, tries_of
from test_queue_ends import AGENT, WROTE


@pytest.mark.slow
def test_a_login_that_is_refused_in_one_slot_ends_the_others_and_loses_nothing(tmp_path: Path) -> None:
    refused = '[ $GOALSEEK_ITERATION = 2 ] && [ ! -e "$HOME/login" ] && { echo revoked >&2; exit 77; }\nsleep'
    project = begin(tmp_path / "repository", agent=AGENT.replace("sleep", refused, 1))
    home("sleep").write_text("20")
    ended = project.run("iterate", "-n", "4", "--jobs", "4")
    assert ended.exit_code == 3 and "revoked" in ended.stderr
    assert project.state()["stop_reason"] == "auth" and not tries_of(project.iterations())
    for name, text in (("login", ""), ("sleep", "0")):
        home(name).write_text(text)
    tries = tries_of(project.climb("iterate", "-n", "4", "--jobs", "4"))
    assert sorted(record["iteration"] for record in tries) == [1, 2, 3, 4]
    project.check("audit")


def test_one_whose_workspace_somebody_removes_while_goalseek_works_in_it_goes_on_in_a_new_one(tmp_path: Path) -> None:
    lost = 'mkdir "$HOME/lost" && rm ../workspace.git/HEAD && echo >> .git/HEAD'
    agent = AGENT.replace("sleep", f"[ $GOALSEEK_ITERATION = 2 ] && {lost}\nsleep", 1)
    project = begin(tmp_path / "repository", agent=agent, parallel={"landings": 20})
    tries = tries_of(project.climb("iterate", "-n", "4", "--jobs", "4"))
    assert sorted(record["iteration"] for record in tries) == [1, 2, 3, 4]
    second = next(record for record in tries if record["iteration"] == 2)
    assert second["outcome"] == "kept" and second["usage"]["cost_usd"] == 2, "it was called twice"
    assert sorted(home("called").read_text().split()) == ["1", "2", "2", "3", "4"]
    project.check("audit")


BUG = """
from goalseek.__main__ import main
from goalseek.loop.lanes import HeldLanes
real = HeldLanes.acquire_bench
def planted(lanes):
    if lanes.number == 2:
        raise ValueError("planted")
    return real(lanes)
HeldLanes.acquire_bench = planted
main()
"""


@pytest.mark.slow
def test_a_bug_in_one_ends_the_others_with_its_traceback_and_a_later_invocation_goes_on(tmp_path: Path) -> None:
    second = '[ $GOALSEEK_ITERATION = 2 ] && until [ -e "$HOME/wrote-3" ]; do sleep 0.1; done'
    agent = AGENT.replace("sleep", f"{WROTE}; {second} || sleep", 1)
    project = begin(tmp_path / "repository", agent=agent)
    home("sleep").write_text("30")
    process = project.start("iterate", "--jobs", "4", "-n", "4", program=("-c", BUG))
    said = process.communicate(timeout=20)[1]
    assert process.returncode == 70 and "this is a bug" in said and said.count("ValueError: planted") == 1, said
    assert (project.state()["status"], project.state()["stop_reason"]) == ("failed", "bug")
    assert "7" in (project.run_folder(3) / "changes.diff").read_text()
    assert not living(home())
    home("sleep").write_text("0")
    project.climb("iterate", "--jobs", "4", "-n", str(5 - len(project.iterations())))
    assert sorted(record["iteration"] for record in project.iterations()) == [0, 1, 2, 3, 4]
    project.check("audit")


@pytest.mark.slow
def test_what_a_kill_left_under_way_is_gone_on_with_as_far_as_is_asked(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", agent=AGENT)
    (tmp_path / "seconds").write_text("0")
    home("sleep").write_text("1")
    project.kill_when(project.run_folder(4), "iterate", "-n", "9", "--jobs", "4")
    numbers = []
    for _ in range(2):
        numbers.append(len(tries_of(project.climb("iterate", "-n", "1", "--jobs", "4"))))
    assert numbers == [1, 2]
    tries = tries_of(project.climb("iterate", "-n", "3", "--jobs", "2"))
    assert sorted(record["iteration"] for record in tries) == [1, 2, 3, 4, 5]
    project.check("audit")


def test_what_waits_for_a_bench_keeps_the_diff_of_its_candidate_when_a_signal_ends_all(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", agent=AGENT, parallel={"agents": 2, "benches": 1})
    project.check("baseline")
    (tmp_path / "seconds").write_text("30")
    process = project.start_until(project.run_folder(2) / "change.json", "iterate", "-n", "2")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) and process.returncode == 130
    assert [len((project.run_folder(number) / "changes.diff").read_text()) > 0 for number in (1, 2)] == [True, True]


REPAIR = '[ $GOALSEEK_PHASE = repair ] && { echo 2 > b.txt; touch "$HOME/repairs"; sleep 30; }; echo 1 > a.txt\n'
CRASH = '[ $(cat a.txt) = 0 ] && echo \'{"score": 1}\' > "$GOALSEEK_RUN_DIR/metrics.json"'


@pytest.mark.slow
@pytest.mark.parametrize("is_asked", [False, True], ids=["by a signal", "on request"])
def test_a_repair_that_is_ended_leaves_the_candidate_before_it(tmp_path: Path, is_asked: bool) -> None:
    verify = [{"name": "judge", "run": CRASH, "sees": "candidate"}]
    project = begin(tmp_path / "repository", agent=REPAIR, verify=verify, parallel={"agents": 2})
    process = project.start_until(home("repairs"), "iterate", "-n", "1")
    if is_asked:
        project.check("stop")
    else:
        process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) and process.returncode == (0 if is_asked else 130)
    diffs = [(project.run_folder(1) / name).read_text() for name in ("changes.diff", "attempts/2/changes.diff")]
    assert ["b.txt" in diff for diff in diffs] == [False, True] and "a.txt" in diffs[0]
    refused = project.run("baseline")
    assert refused.exit_code == 2 and "goalseek iterate finishes what was begun" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("options", [("-n", "3", "--jobs", "2"), ("-n", "1", "--new")])
def test_nothing_is_left_of_calls_in_slots_that_are_used_no_more(tmp_path: Path, options: tuple[str, ...]) -> None:
    project = begin(tmp_path / "repository", agent=AGENT)
    home("sleep").write_text("30")
    process = project.start_until(project.run_folder(3) / "prompt.md", "iterate", "--jobs", "3")
    until(lambda: len([*project.trees().glob("slot-*/call")]) == 3)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)
    home("sleep").write_text("0")
    project.climb("iterate", *options)
    assert not [*project.trees().glob("slot-*/call")]


@pytest.mark.slow
def test_none_begins_in_a_slot_that_is_taken_by_what_a_kill_left(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", agent='echo >> "$HOME/asked"; sleep 30')
    asked = home("asked")
    asked.touch()
    for count, number in ((2, signal.SIGKILL), (4, signal.SIGINT)):
        process = project.start("iterate", "--jobs", "2", "--forever")
        until(lambda count=count: len(asked.read_text()) == count)
        time.sleep(0.5)
        process.send_signal(number)
        process.communicate(timeout=20)
        assert not project.run_folder(3).exists()


@pytest.mark.slow
def test_a_plan_that_a_kill_cut_short_is_asked_for_in_the_slot_of_its_iteration(tmp_path: Path) -> None:
    agent = """\
echo "$GOALSEEK_ITERATION $PWD" >> "$HOME/asked"
[ $GOALSEEK_PHASE = plan ] || { echo 1 > a.txt; exit; }
sleep "$(cat "$HOME/sleep")"
printf '<<<GOALSEEK PLAN %s\\nidea %s\\nGOALSEEK PLAN %s>>>\\n' "$GOALSEEK_NONCE" "$GOALSEEK_ITERATION" "$GOALSEEK_NONCE"
"""
    project = begin(tmp_path / "repository").set_agent(agent, MANIFEST, ask_plan=True)
    home("sleep").write_text("30")
    home("asked").touch()
    process = project.start("iterate", "--jobs", "2")
    until(lambda: len(home("asked").read_text().splitlines()) == 2)
    process.kill()
    process.communicate(timeout=20)
    home("sleep").write_text("0")
    project.climb("iterate", "--jobs", "2")
    places = {tuple(line.split()) for line in home("asked").read_text().splitlines()}
    assert places == {(str(number), str(project.trees() / f"slot-{number - 1}" / "workspace")) for number in (1, 2)}
