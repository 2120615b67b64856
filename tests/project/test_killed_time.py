"""The time of a phase that was killed or interrupted counts: for the record of that phase, for status, for the limits."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from project import FILES, Project, Projects, answer, held_out, home

from goalseek.ledger.checkpoints import Checkpoints, Seal, unrecorded_seconds
from goalseek.project.activity import PhaseSeconds

JUDGE = """\
if [ -e "$HOME/hang" ]; then touch "$HOME/waiting"; sleep 60; fi
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""
KILLED = 1.3


@pytest.fixture
def project(make_project: Projects) -> Project:
    """Its verifier hangs as long as there is ``hang``."""
    made = make_project(files={**FILES, "hidden/judge.sh": JUDGE})
    made.set_moves(answer(2), answer(3))
    return made


def cut_short(project: Project, number: signal.Signals, hang: str = "hang") -> None:
    """Climbs until the verifier hangs, lets it hang for a while, and ends goalseek by this signal."""
    home(hang).touch()
    home("waiting").unlink(missing_ok=True)
    started = project.start_until(home("waiting"), "iterate")
    time.sleep(KILLED)
    started.send_signal(number)
    started.communicate(timeout=30)
    home(hang).unlink()


def spent(project: Project) -> float:
    return float(json.loads(project.run("status", "--json").stdout)["spend"]["seconds"])


def stop_of(project: Project) -> dict[str, Any]:
    return dict(json.loads(project.run("--json", "iterate").stdout.splitlines()[-1]))


@pytest.mark.slow
def test_each_of_several_kills_counts_once_at_once_and_in_the_end(project: Project) -> None:
    project.climb("baseline")
    before = spent(project)
    for times, number in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL), 1):
        cut_short(project, number)
        assert times * 0.8 < spent(project) - before < times * (KILLED + 2.5)
    project.set_manifest({"limits": {"time": before + 2.0}})
    assert "is reached" in project.run("status").stdout
    assert stop_of(project)["stop_reason"] == "time" and len(project.iterations()) == 1
    project.set_manifest({})
    told = spent(project)
    record = project.climb()[-1]
    assert 3 * 0.8 < record["seconds"]["VERIFY"] < 3 * (KILLED + 2.5)
    assert told <= spent(project) == pytest.approx(before + sum(record["seconds"].values()), abs=1e-4)
    assert not (project.run_folder(1) / "seconds.json").exists()


@pytest.mark.slow
def test_a_new_run_begins_without_what_was_killed_in_the_last(project: Project) -> None:
    project.climb("baseline")
    cut_short(project, signal.SIGKILL)
    project.set_manifest({"limits": {"time": 1.0}})
    assert stop_of(project)["stop_reason"] == "time"
    ended = project.run("iterate", "--new", "-n", "2")
    assert [record["reason"] for record in project.iterations()[1:]] == ["interrupted", "better"], ended


@pytest.mark.slow
def test_a_baseline_that_is_killed_again_and_again_ends_at_the_limit(project: Project) -> None:
    cut_short(project, signal.SIGKILL)
    limit = spent(project) + 0.3
    project.set_manifest({"limits": {"time": limit}})
    cut_short(project, signal.SIGKILL)
    assert stop_of(project)["stop_reason"] == "time" and project.iterations() == []
    (record,) = project.climb("baseline")
    assert record["seconds"]["VERIFY"] > limit


def test_a_short_phase_counts_as_soon_as_its_command_has_ended(project: Project) -> None:
    told = 0.0
    for phase in ("READ_CONTEXT", "COMMIT", "VERIFY"):
        assert f"done: {phase}" in project.run("step").stdout
        assert told < (told := spent(project)), phase


@pytest.mark.slow
def test_a_settling_and_a_look_that_are_killed_are_charged_with_the_next(project: Project) -> None:
    noisy = JUDGE.replace("cp answer.json", 'sed "s/,/.$GOALSEEK_SEED,/" answer.json >')
    project.write({"hidden/judge.sh": noisy, "hidden/look.sh": JUDGE.replace("hang", "hang-looking")})
    project.commit()
    tables = {
        "metric": {"direction": "maximize", "query": "score", "settle": 2},
        **held_out("sh hidden/look.sh"),
    }
    project.set_manifest(tables)
    project.set_moves(answer(90))
    project.climb("iterate", "-n", "1")
    project.set_manifest({**tables, "limits": {"iterations": 1}})
    before = spent(project)
    cut_short(project, signal.SIGKILL)
    assert 0.8 < spent(project) - before < KILLED + 2.5
    cut_short(project, signal.SIGKILL, "hang-looking")
    assert 1.6 < spent(project) - before < 2 * (KILLED + 2.5)
    project.climb("iterate", "--forever")
    first, *others = (row for row in project.records() if row["kind"] == "measurement")
    assert first["seconds"] > 0.8 > max(row["seconds"] for row in others)
    looks = [row for row in project.records() if row["kind"] == "holdout"]
    assert [row["seconds"] > 0.8 for row in looks] == [False, True, False, False, False]
    told = sum(row["seconds"] for row in (first, *others, *looks))
    assert spent(project) - before == pytest.approx(told, abs=1e-4)


def test_what_a_kill_left_is_counted_on_and_a_wait_is_not(own: Path) -> None:
    now = 100.0
    memory = Checkpoints(own, Seal(b"secret"), "run", "follows")

    def opened() -> PhaseSeconds:
        return PhaseSeconds(memory, lambda: now)

    killed = opened()
    with pytest.raises(KeyboardInterrupt), killed.of("VERIFY"):
        now += 3
        killed.beat()
        assert opened().phases == {"VERIFY": 3.0}, "as a kill now would leave it"
        now += 0.25
        killed.beat()
        assert opened().phases == {"VERIFY": 3.0}, "not yet time"
        raise KeyboardInterrupt
    now += 50
    killed.beat()
    resumed = opened()
    with resumed.of("VERIFY"):
        now += 1
    with resumed.of("REVIEW"):
        now += 2
    assert opened().phases == {"VERIFY": 4.25, "REVIEW": 2.0}
    assert unrecorded_seconds(own, "run", "follows") == 6.25
    assert unrecorded_seconds(own, "run", "another") == unrecorded_seconds(own, "new", "follows") == 0.0
    assert PhaseSeconds(Checkpoints(own, Seal(b"secret"), "new", "follows"), lambda: now).phases == {}
    resumed.forget()
    assert opened().phases == {}
