"""Faults of a cluster, one moment of each: tests/benchmarks/faults.py has ten of each, with a driver's own patience."""

import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cluster_faults import (
    FAULTS,
    IMPATIENT,
    Climb,
    assert_nothing_left,
    climb,
    joined,
    journal,
    workers_at_work,
)
from clusters import environment
from project import Project, home, until

NEEDS = {"cut_ssh": "sshd", "fill_disk": "mount"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seed"),
    [pytest.param(name, 7, marks=[pytest.mark.needs(NEEDS[name])] if name in NEEDS else []) for name in FAULTS],
)
def test_nothing_is_lost_doubled_or_left(tmp_path: Path, name: str, seed: int) -> None:
    assert FAULTS[name](tmp_path, seed, IMPATIENT)


def climbing(top: Path, during: str, cluster: dict[str, Any], **tables: Any) -> Project:
    """Before each measurement the judge does what ``during`` says."""
    home("during").write_text(during)
    return climb(top, cluster, **tables)


KILLS_ITS_WORKER = """\
if [ "$GOALSEEK_ITERATION" = 1 ]; then
    pid=$$
    until grep -q cluster.member /proc/$pid/cmdline; do pid=$(awk '/^PPid/ { print $2 }' /proc/$pid/status); done
    kill -9 $pid
    sleep 5
fi
"""


@pytest.mark.slow
def test_a_measurement_that_is_lost_four_times_ends_the_climb_and_has_one_seed(tmp_path: Path) -> None:
    project = climbing(tmp_path / "climb", KILLS_ITS_WORKER, {"cluster": "local:2"})
    run = Climb(project)
    said = run.end(3)
    assert re.search(r"-1-1-\d+ was lost 4 times: (local-[01]: it [^;]+(; )?){4}\n", said), said
    assert project.state()["stop_reason"] == "cluster"
    seeds = Counter(line for line in journal() if line.startswith("1 "))
    assert len(seeds) == 1 and seeds.total() >= 4
    assert not [
        line for line in said.splitlines() if re.search(r"-[023]-\d+-\d+ was lost", line)
    ]  # it shared its workers
    home("during").unlink()
    run.start()
    run.end()
    run.assert_sound()
    assert_nothing_left()


@pytest.mark.slow
def test_a_scheduler_that_allows_no_failure_ends_no_climb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    with joined("one", "two") as cluster:
        run = Climb(climb(tmp_path / "climb", cluster.parallel))
        run.await_measurement(2, 0.1)
        (worker, *_) = until(workers_at_work)
        os.kill(worker, signal.SIGKILL)
        run.end()
        run.assert_sound()
        assert_nothing_left(*(process.pid for process in cluster.processes.values()))


@pytest.mark.slow
def test_of_two_answers_the_first_counts_and_the_other_is_told(tmp_path: Path) -> None:
    wait = 'echo $$ >> "$HOME/begun"; while [ ! -e "$HOME/go" ]; do sleep 0.05; done'
    project = climbing(tmp_path / "climb", wait, {"cluster": "local:2", "agents": 1})
    run = Climb(project, IMPATIENT)
    run.await_measurement(1, 0)
    (worker,) = until(workers_at_work)
    os.kill(worker, signal.SIGSTOP)
    run.await_measurement(2, 0)  # the other worker makes it again
    os.kill(worker, signal.SIGCONT)
    until(lambda: not any("does not answer" in line for line in project.state()["workers"]))
    home("go").touch()
    said = run.end()
    assert re.search(r"-0-1-\d+ has its answer: a second one, of local-[01], is dropped", said), said
    run.assert_sound()
    assert journal()[0] == journal()[1]
    assert_nothing_left()


@pytest.mark.slow
def test_a_failing_verifier_is_evidence_and_asked_once(tmp_path: Path) -> None:
    project = climbing(tmp_path / "climb", '[ "$GOALSEEK_ITERATION" != 2 ] || exit 3', {"cluster": "local:2"})
    run = Climb(project)
    said = run.end()
    (failed,) = (record for record in project.iterations() if record["iteration"] == 2)
    assert (failed["outcome"], failed["reason"]) == ("reverted", "verify_failed"), failed
    assert len([line for line in journal() if line.startswith("2 ")]) == 1 and "lost" not in said
    assert_nothing_left()


HOST = """\
import os
uname = os.uname()
os.uname = lambda: os.uname_result((uname.sysname, os.environ["ITS_NAME"], *uname[2:]))
"""


@pytest.mark.slow
def test_a_comparison_begins_again_on_another_host(tmp_path: Path) -> None:
    home("other").mkdir()
    home("other", "sitecustomize.py").write_text(HOST)
    paths = os.pathsep.join((str(home("other")), environment()["PYTHONPATH"]))
    with joined() as cluster:
        for name in ("one", "two"):
            cluster.start_worker(name, PYTHONPATH=paths, ITS_NAME=f"host-{name}")
        project = climb(tmp_path / "climb", {**cluster.parallel, "agents": 1}, is_noisy=True)
        run = Climb(project)
        begun = until(lambda: [line for line in journal() if line.startswith("1 ")])
        until(lambda: len([line for line in journal() if line.startswith("1 ")]) > 1)
        (worker,) = until(lambda: workers_at_work(1))  # another iteration may be on the other one
        os.kill(worker, signal.SIGKILL)
        run.end()
        run.assert_sound()
        (record,) = (record for record in project.iterations() if record["iteration"] == 1)
        assert len({run["host"] for run in record["runs"]}) == 1
        assert journal().count(begun[0]) == 2  # on either host
        assert_nothing_left(*(process.pid for process in cluster.processes.values()))
