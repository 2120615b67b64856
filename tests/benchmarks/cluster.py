"""Measurements on a Dask cluster beside benches of this machine, in one table.

    pip install -e '.[cluster]'
    python tests/benchmarks/cluster.py [--only way,four,eight,short,memory] [--rounds 3] [--seconds 60]

The workers are ``local:`` ones, so agents and verifiers sleep: two processors are enough for eight of each. Sides take
turns in repositories of their own, so a busy machine is busy for all; medians of the rounds are printed.

    way       what a measurement of a new tree takes beyond its verifier, which sleeps 10 ms
    four      candidates decided in an hour by four agents and ``local:4``, beside four benches
    eight     the same by eight agents and ``local:8``, beside eight agents and ``local:1``
    short     1,000 measurements of 10 ms: the same by four agents and ``local:4``, beside four benches; no row is lost
    memory    the peak of resident memory (VmHWM) of a climb with eight workers on ten thousand records; its workers are
              other processes

A climb's pace counts from the record after the first two for each bench, when all are at work. ``way`` means something on
an idle machine only: each of its ten changes of process waits for a processor.
"""

import argparse
import contextlib
import itertools
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import tomli_w

import goalseek
from goalseek.git.objects import Entry
from goalseek.measurement.measure import MeasurementSpec
from goalseek.phase_values import Evidence
from goalseek.project.opening import open_project
from goalseek.project.project import Project

sys.path.insert(0, str(Path(__file__).parent))
from iteration import ENVIRONMENT
from pace import Row, ms, print_table
from parallel import decided, lengthen, make_repository

NAP = 0.01
SLEEP = 2.0
SHORT = 1000


class Bounds(NamedTuple):
    place: Path
    rounds: int
    seconds: float


def make_side(top: Path, cluster: str, benches: int, sleep: float, agent: float) -> Path:
    """A repository whose measurements are made by the workers, or by so many benches if ``cluster`` is "none"."""
    manifest = make_repository(top, agent, f"sleep {sleep}") / "goalseek.toml"
    where = {"benches": benches} if cluster == "none" else {"cluster": cluster}
    manifest.write_text(tomli_w.dumps({**tomllib.loads(manifest.read_text()), "parallel": where}))
    return top


def way(bounds: Bounds) -> Iterator[Row]:
    folders = [make_side(bounds.place / name, name, 1, NAP, NAP) for name in ("none", "local:1")]
    with contextlib.ExitStack() as stack:
        projects = [stack.enter_context(open_project(goalseek.load(one / "goalseek.toml"))) for one in folders]
        taken: dict[Project, list[float]] = {project: [] for project in projects}
        for number in range(1 + 10 * bounds.rounds):
            for project, found in taken.items():
                found += [measure(project, 10 * number + more) for more in range(10)]
        own, away = (statistics.median(found[10:]) for found in taken.values())  # the first ten build the trees
    yield Row("a measurement, beyond its verifier, ms", ms(away), ms(own), away * 1000, "<= 25")


def measure(project: Project, number: int) -> float:
    """Measures a tree that nobody has seen; gives what it took less what its verifier took."""
    standing, objects, config = project.standing, project.repository.objects, project.config()
    assert standing.incumbent and standing.baseline
    blob = Entry("100644", objects.write_bytes(b"-%d\n" % (number + 1)))
    tree = objects.splice(standing.incumbent.tree, {f"parts/{number % 50 + 10}.txt": blob})
    spec = MeasurementSpec(tree, number, number)
    baseline = standing.baseline
    began = time.perf_counter()
    verifier = project.verifier(config, standing.ruler, baseline.tree, baseline.seconds)
    evidence = project.measure(verifier, spec, Evidence(), project.run_folder(number))
    elapsed = time.perf_counter() - began
    (run,) = evidence.runs
    assert (run.seed, run.value) == (number, 1000 - number - 1), evidence
    return elapsed - run.seconds


def four(bounds: Bounds) -> Iterator[Row]:
    away, own = paces(bounds, {"local:4": (4, 4), "none": (4, 4)}, SLEEP, SLEEP, "--for", f"{bounds.seconds:g}s")
    yield Row("local:4, beside four benches, decided an hour", f"{away:.0f}", f"{own:.0f}", away / own, ">= 0.9")


def eight(bounds: Bounds) -> Iterator[Row]:
    many, one = paces(bounds, {"local:8": (8, 8), "local:1": (1, 8)}, SLEEP, SLEEP / 4, "--for", f"{bounds.seconds:g}s")
    yield Row("local:8, beside local:1, decided an hour", f"{many:.0f}", f"{one:.0f}", many / one, ">= 7")


def short(bounds: Bounds) -> Iterator[Row]:
    count = str(math.ceil(SHORT / bounds.rounds))
    away, own = paces(bounds, {"local:4": (4, 4), "none": (4, 4)}, NAP, NAP, "-n", count)
    yield Row(f"{SHORT:,} measurements of 10 ms, decided an hour", f"{away:.0f}", f"{own:.0f}", away / own)


def paces(
    bounds: Bounds, sides: dict[str, tuple[int, int]], sleep: float, agent: float, *bound: str
) -> Iterator[float]:
    """Candidates decided in an hour, medians of the rounds; a side is a cluster, its benches and agents."""
    folders = {name: make_side(bounds.place / name, name, count, sleep, agent) for name, (count, _) in sides.items()}
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _, (name, (benches, agents)) in itertools.product(range(bounds.rounds), sides.items()):
        before = len(decided(folders[name]))
        climb(folders[name], agents, *bound)
        records = decided(folders[name])
        assert sorted(record.iteration for record in records) == [*range(1, len(records) + 1)], (
            "a row is lost or doubled"
        )
        # At the end the agents stop, and what they have begun is decided by fewer and fewer benches.
        moments = [datetime.fromisoformat(record.timestamp) for record in records[before:]][
            2 * benches : -agents - benches
        ]
        found[name].append((len(moments) - 1) * 3600 / (moments[-1] - moments[0]).total_seconds())
        print(f"{name:<8} {found[name][-1]:>6.0f} an hour", file=sys.stderr, flush=True)
    return map(statistics.median, found.values())


def memory(bounds: Bounds) -> Iterator[Row]:
    peaks = []
    for name in ("local:8", "none"):
        folder = make_side(bounds.place / name, name, 8, 0.2, 0.2)
        lengthen(folder, 10_000)
        peaks.append(climb(folder, 8, "-n", "80"))
    away, own = peaks
    name = "memory with eight workers and 10,000 records, MiB"
    yield Row(name, f"{away:.0f}", f"{own:.0f}", away, "<= 150")


def climb(folder: Path, agents: int, *bound: str) -> float:
    """Gives the peak of memory of this process alone, in MiB: what ``wait`` tells counts the workers, its children."""
    words = [sys.executable, "-m", "goalseek", "iterate", "--jobs", str(agents), *bound]
    peak = 0
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with contextlib.suppress(OSError):
                found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
                peak = max(peak, int(found[1]) if found else 0)
            time.sleep(0.1)
    assert process.returncode == 0, process.returncode
    return peak / 1024


ROWS: dict[str, Callable[[Bounds], Iterator[Row]]] = {
    "way": way,
    "four": four,
    "eight": eight,
    "short": short,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(ROWS), metavar="ROW,...")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    rows = []
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as place:
        os.environ["HOME"] = place
        os.environ["XDG_CACHE_HOME"] = str(Path(place, "cache"))
        for name in options.only.split(","):
            for row in ROWS[name](Bounds(Path(place, name), options.rounds, options.seconds)):
                print(" | ".join(row.cells()), file=sys.stderr, flush=True)
                rows.append(row.cells())
    print_table(("", "cluster", "beside it", "figure", "wanted", ""), rows)
    print(f"load of {os.cpu_count()} processors in the last 15 minutes: {os.getloadavg()[2]:.1f}")


if __name__ == "__main__":
    main()
