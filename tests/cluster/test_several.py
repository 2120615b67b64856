"""A cluster that there is: two repositories on it at once, workers that join and leave, many short measurements."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from project import Project, until

from goalseek.locks import Baton
from goalseek.loop.lanes import LanePool, Resource
from goalseek.measurement.lane import Lane
from goalseek.phase_values import Evidence

JUDGE = """\
echo "$GOALSEEK_ITERATION" >> "$JOURNAL"
sleep "$(cat "$NAP")"
echo "{\\"score\\": $(cat parts/*.txt | awk '{ sum += $1 } END { print 1000 + sum }')}" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
AGENT = """\
case $GOALSEEK_ITERATION in *4) value=1;; *) value=-1;; esac
echo $value > parts/$GOALSEEK_ITERATION.txt
"""


class Joined:
    """A scheduler and its workers, as somebody else has started them: by Dask's own commands."""

    def __init__(self, folder: Path) -> None:
        security = pytest.importorskip("distributed.security").Security.temporary()
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir()
        self.tls = {"ca": str(folder / "ca"), "cert": str(folder / "cert"), "key": str(folder / "key")}
        for name, text in zip(("ca", "cert", "key"), ("ca_file", "client_cert", "client_key"), strict=True):
            Path(self.tls[name]).write_text(getattr(security, f"tls_{text}"))
        self._file = folder / "scheduler.json"
        self._start("scheduler", "--port", "0", "--no-dashboard")
        until(self._file.exists)
        self.address = json.loads(self._file.read_text())["address"]

    def add_worker(self, name: str) -> None:
        self._start("worker", "--name", name, "--nthreads", "1", "--no-nanny", "--no-dashboard", name=name)

    def remove_worker(self, name: str) -> None:
        worker = self._started.pop(name)
        worker.terminate()
        worker.communicate(timeout=60)

    def close(self) -> None:
        for name in [*self._started][::-1]:
            self.remove_worker(name)

    def _start(self, role: str, *arguments: str, name: str = "") -> None:
        tls = ["--tls-ca-file", self.tls["ca"], "--tls-cert", self.tls["cert"], "--tls-key", self.tls["key"]]
        common = ["--protocol", "tls", "--host", "127.0.0.1", "--scheduler-file", str(self._file)]
        command = [sys.executable, "-m", "dask", role, *tls, *common, *arguments]
        self._started[name or role] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[Joined]:
    with contextlib.closing(Joined(tmp_path / "tls")) as cluster:
        yield cluster


def begin(top: Path, nap: float, **parallel: Any) -> Project:
    (top.parent / "nap").write_text(f"{nap}\n")
    variables = {"NAP": str(top.parent / "nap"), "JOURNAL": str(top.parent / f"{top.name}.journal")}
    tables = {
        "scope": {"writable": ["parts/**"], "hidden": ["hidden/**"]},
        "search": {"stack": "none"},
        "limits": {"stagnation": "none"},
        "env": {"verify": {"set": variables}},
        "parallel": parallel,
    }
    project = Project.make(top, {"parts/0.txt": "0\n", "hidden/judge.sh": JUDGE})
    project.set_agent(AGENT, tables)
    project.commit()
    return project


def refuse_lost(project: Project, losses: int = 0) -> list[dict[str, Any]]:
    """Each iteration has one row; its last candidate was measured as often as that says, but for so many losses."""
    records = project.iterations()
    assert sorted(record["iteration"] for record in records) == [*range(len(records))]
    measured = Counter(map(int, (project.top.parent / f"{project.top.name}.journal").read_text().split()))
    alone = {record["iteration"]: len(record["runs"]) for record in records if not record["attempts"]}
    assert not [number for number, runs in alone.items() if measured[number] < runs]
    assert sum(measured[number] - runs for number, runs in alone.items()) <= losses
    assert all(run["host"] == os.uname().nodename for record in records for run in record["runs"])
    project.check("audit")
    return records


def refuse_left() -> None:
    assert not [*Path(os.environ["XDG_CACHE_HOME"], "goalseek", "cluster").glob("*")]


def test_each_lane_has_a_folder_of_its_own_however_often_workers_come_and_go() -> None:
    def add_lane(name: str, slot: int) -> Lane:
        return cast(Lane, SimpleNamespace(name=name, slot=slot, is_held=False))

    with Baton() as baton:
        bench = Resource("a bench", baton, [add_lane("", 0)])
        pool = cast(LanePool, SimpleNamespace(bench=bench, _lanes=[], _project=SimpleNamespace(add_lane=add_lane)))
        LanePool.set_benches(pool, 3)
        held = [bench.acquire(number, lambda: None) for number in range(3)]
        LanePool.set_benches(pool, 1)
        bench.release(held.pop(0))
        bench.release(held.pop(0))
        assert not bench.is_free  # as many are held as there are workers
        LanePool.set_benches(pool, 4)
        assert bench.is_free
        held += [bench.acquire(number, lambda: None) for number in range(3)]
        assert not bench.is_free
        assert sorted(lane.slot for lane in held) == [0, 1, 2, 3]


def test_a_worker_has_two_measurements_at_most_and_lanes_that_nobody_holds_do_not_count() -> None:
    cluster_module = pytest.importorskip("goalseek.cluster.cluster")
    facts = SimpleNamespace(machine="m", host="h")
    first, second = (cluster_module.RemoteWorker(name, name, "t", facts) for name in "ab")
    cluster = cluster_module.Cluster.__new__(cluster_module.Cluster)
    cluster._workers, cluster._problem, cluster._is_alone = {"a": first, "b": second}, "", False
    cluster._client = SimpleNamespace(status="running")
    lanes = [Lane(cast(Any, None), cast(Any, None), cast(Any, None), number) for number in range(4)]
    asked = [SimpleNamespace(lane=lane, evidence=Evidence(), machine=None, avoided=set(), waits="") for lane in lanes]
    cluster._worker_of = {lanes[0]: first, lanes[1]: second}  # of which only the former is held
    lanes[0].is_held = True

    async def place(number: int) -> Any:
        worker = await asyncio.wait_for(cluster._place(asked[number]), 1)
        worker.tasks[str(number)] = "a measurement"
        lanes[number].is_held = True
        return worker

    assert asyncio.run(place(2)) is second
    del cluster._workers["b"]
    assert (asyncio.run(place(0)), asyncio.run(place(2))) == (first, first)
    with pytest.raises(TimeoutError):
        asyncio.run(place(3))
    assert asked[3].waits == "waits for the cluster: each worker has 2 measurements"
    first.tasks.clear()
    assert asyncio.run(place(3)) is first


def test_one_worker_of_a_host_counts_where_times_are_measured() -> None:
    cluster_module = pytest.importorskip("goalseek.cluster.cluster")
    cluster = cluster_module.Cluster.__new__(cluster_module.Cluster)
    facts = [SimpleNamespace(machine="m", host=host) for host in ("h", "h", "other")]
    workers = [cluster_module.RemoteWorker(name, name, "t", fact) for name, fact in zip("abc", facts, strict=True)]
    cluster._workers, cluster._is_alone, cluster._machine = {one.name: one for one in workers}, True, None
    workers[0].slot = 1
    assert (cluster.count, cluster.most_on_a_host) == (2, 1)
    assert cluster._line(workers[0]).startswith("a: idle: its host has another worker")
    cluster._workers["b"].problem = "it does not answer"
    assert (cluster.count, cluster._line(workers[0])) == (2, "a: idle")


@pytest.mark.slow
def test_two_repositories_climb_on_one_cluster_at_once(tmp_path: Path, joined: Joined) -> None:
    for name in ("one", "two"):
        joined.add_worker(name)
    projects = [begin(tmp_path / name, 0.1, cluster=joined.address, tls=joined.tls) for name in ("a", "b")]
    climbs = [project.start("iterate", "--jobs", "2", "-n", "12") for project in projects]
    told = [climb.communicate(timeout=120) for climb in climbs]
    assert [climb.returncode for climb in climbs] == [0, 0], told
    for project in projects:
        assert len(refuse_lost(project)) == 13
    refuse_left()


@pytest.mark.slow
def test_lanes_follow_a_worker_that_joins_and_one_that_leaves(tmp_path: Path, joined: Joined) -> None:
    joined.add_worker("first")
    project = begin(tmp_path / "repository", 0.5, cluster=joined.address, tls=joined.tls)
    climb = project.start("iterate", "--jobs", "3", "--forever")

    def at_work(count: int) -> bool:
        assert climb.poll() is None, climb.communicate(timeout=60)[1][-2000:]
        lines = project.state()["workers"] if (project.logs / "state.json").exists() else []
        return len(lines) == count and sum("iteration" in line for line in lines) == count

    until(lambda: len(project.iterations()) > 2 and at_work(1))
    joined.add_worker("second")
    until(lambda: at_work(2))
    joined.remove_worker("first")
    until(lambda: at_work(1))
    joined.add_worker("third")
    until(lambda: at_work(2))
    project.check("stop")
    told = climb.communicate(timeout=120)
    assert climb.returncode == 0, told
    assert len(refuse_lost(project, losses=1)) > 4  # the measurement of the worker that left
    refuse_left()


@pytest.mark.slow
def test_many_short_measurements_each_have_one_row(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    project = begin(tmp_path / "repository", 0.01, cluster="local:2")
    project.check("iterate", "--jobs", "2", "-n", "100")
    assert len(refuse_lost(project)) == 101
    refuse_left()
