"""Kill it anywhere, run the same command, it goes on; one phase at a time; one writer at a time."""

import json
import signal

import pytest
from project import Project, answer, home, living

from goalseek.ledger.artifacts import is_foreign
from goalseek.ledger.checkpoints import STORED

WAITING = """\
echo "$GOALSEEK_ITERATION" >> "$HOME/measured"
if [ "$GOALSEEK_ITERATION" = 1 ] && [ ! -e "$HOME/go" ]; then touch "$HOME/waiting"; sleep 30; exit 9; fi
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""
PHASES = ["READ_CONTEXT", "PLAN", "APPLY_CHANGE", "COMMIT", "VERIFY", "DECIDE"]


@pytest.fixture
def waiting(project: Project) -> Project:
    """Its verifier waits in iteration 1 until ``go`` is there; its agent counts how often it was called."""
    project.write({"hidden/judge.sh": WAITING})
    edit = "printf '{\"score\": 1%s}' $GOALSEEK_ITERATION > answer.json"
    project.set_agent(f"echo x >> $HOME/called; {edit}; echo a title\n")
    project.commit()
    return project


def test_step_does_exactly_one_phase_and_names_the_next(project: Project) -> None:
    project.set_moves(answer(2))
    told = []
    while not (project.iterations() and project.iterations()[-1]["iteration"] == 1):
        ended = project.run("step", "--json")
        assert ended.exit_code == 0, ended.stderr
        told.append(json.loads(ended.stdout))
        if len(told) > 2:  # the first two phases write no state
            assert (project.state()["status"], project.state()["stop_reason"]) == ("completed", "count")
        assert len(told) < 15
    baseline = ["READ_CONTEXT", "COMMIT", "VERIFY", "DECIDE"]
    assert [step["done"].split(" ")[0] for step in told] == [*baseline, "LOG", *PHASES, "LOG"]
    assert [step["next"] for step in told[:-1]][len(baseline) + 1 :] == [*PHASES[1:], "LOG"]
    assert told[-1] == {"done": "LOG (iteration 1: kept)", "next": "READ_CONTEXT"}
    assert [record["notes"] for record in project.iterations()] == [[], []], "nothing was cut short"


def test_a_candidate_waits_in_a_ref_of_its_own_until_its_record_moves_tip_and_branch(project: Project) -> None:
    project.set_moves(answer(0))
    project.check("baseline")
    tip, flight = "refs/goalseek/demo/tip", "refs/goalseek/demo/flight"
    before = project.git("rev-parse", tip, "goalseek/demo")
    while "done: COMMIT" not in project.check("step"):
        pass
    candidate = project.git("for-each-ref", "--format=%(objectname)", flight)
    assert candidate and project.git("rev-parse", tip, "goalseek/demo") == before
    record = project.climb("iterate", "-n", "1")[-1]
    assert (record["outcome"], record["commit_hash"]) == ("reverted", candidate)
    assert project.git("rev-parse", tip, "goalseek/demo").split() == [record["rollback_commit_hash"]] * 2
    assert project.git("rev-parse", f"{tip}^") == candidate and not project.git("for-each-ref", flight)


@pytest.mark.elsewhere
def test_after_a_sigkill_in_verify_the_agent_is_not_called_again(waiting: Project) -> None:
    waiting.kill_when(home("waiting"), "iterate", "-n", "2")
    waiting.check("exec", "--", "true")
    assert living(home()) == {}
    home("go").touch()
    records = waiting.climb("iterate", "-n", "2")
    assert [(record["iteration"], record["metric"]["value"]) for record in records] == [(0, 1), (1, 11), (2, 12)]
    assert home("called").read_text() == "x\n" * 2
    told = "an earlier invocation ended before its record; this one used its stored answers: context, plan, change, candidate"
    assert [record["notes"] for record in records] == [[], [told], []]
    assert "- resumed in the middle of an iteration: 1" in waiting.run("report", "-o", "-", "--format", "md").stdout
    assert home("measured").read_text().split() == ["0", "1", "1", "2"]
    wanted = [*waiting.git("rev-list", "--reverse", "main").split(), *(record["commit_hash"] for record in records[1:])]
    assert waiting.git("rev-list", "--reverse", "goalseek/demo").splitlines() == wanted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.slow
def test_a_signal_ends_it_at_a_place_that_resumes(waiting: Project, number: signal.Signals) -> None:
    started = waiting.start_until(home("waiting"), "iterate", "-n", "2")
    started.send_signal(number)
    _, stderr = started.communicate(timeout=20)
    assert started.returncode == 128 + number
    assert "goes on" in stderr and "Traceback" not in stderr
    assert living(home()) == {}
    state = waiting.state()
    assert (state["status"], state["stop_reason"]) == ("interrupted", "interrupted")
    home("go").touch()
    assert [record["metric"]["value"] for record in waiting.climb("iterate", "-n", "2")] == [1, 11, 12]
    assert home("called").read_text() == "x\n" * 2


@pytest.mark.parametrize("steps", [2, 3, 4, 5, 6])
def test_after_a_power_cut_no_agent_is_called_again_and_nothing_measured(waiting: Project, steps: int) -> None:
    """It leaves names and empty or torn files of what was not synced, and copies of these in what was."""
    home("go").touch()
    for _ in range(5 + steps):
        waiting.check("step")
    folder = waiting.run_folder(1)
    synced = [folder / f"{name}.json" for name, fate in STORED.items() if fate == "durable" and name != "plan"]
    for path in set(folder.glob("*.*")) - set(synced):
        path.write_bytes(path.read_bytes()[:40] + b"\0" if steps % 2 == 0 else b"")
    assert not is_foreign(folder)
    if candidate := waiting.git("for-each-ref", "--format=%(objectname)", "refs/goalseek/demo/flight"):
        waiting.git("update-ref", "-d", "refs/goalseek/demo/flight/1/1")
        for name in (candidate, waiting.git("rev-parse", f"{candidate}^{{tree}}")):
            for store in ("objects", "goalseek/demo/recent"):
                (waiting.top / ".git" / store / name[:2] / name[2:]).unlink()
    waiting.results.write_bytes(waiting.results.read_bytes()[:-9])
    assert [record["metric"]["value"] for record in waiting.climb()[:2]] == [1, 11]
    assert home("called").read_text() == "x\n"
    assert home("measured").read_text().split() == ["0", "1"]
    waiting.check("audit")


@pytest.mark.slow
def test_stored_evidence_that_somebody_changed_is_not_believed(waiting: Project) -> None:
    home("go").touch()
    for _ in range(5 + 5):
        waiting.check("step")
    evidence = waiting.run_folder(1) / "evidence.json"
    assert '"value":11' in evidence.read_text()
    evidence.write_text(evidence.read_text().replace('"value":11', '"value":99'))
    record = waiting.climb()[-1]
    assert record["metric"]["value"] == 11
    assert home("measured").read_text().split() == ["0", "1", "1"]
