"""goalseek's own processor time of an iteration as one number, the metric of ``manifests/pace.toml``.

    python tests/benchmarks/own_time.py --output metrics.json

It is the time at 10 files without a sandbox, plus that under bubblewrap: of goalseek's process, of the processes that it
keeps open, and of all that it starts. The unit is a fixed piece of work that is done between the iterations, as a second
of a busy processor does less: over five runs the milliseconds varied by 4.6 %, the multiples by 2.4 %. Of the iterations
of a climb the lower quartile counts. A folder in memory keeps the disk out of it: an fsync of a busy disk costs processor
time too. The proposals and the verifier are those of ``pace.py``.
"""

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from iteration import ENVIRONMENT
from pace import goalseek_side

import goalseek
from goalseek.sandbox.supervisor import Supervisor

WARM = 3
ITERATIONS = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--output", type=Path)
    choice.add_argument("--climb", type=Path, help=argparse.SUPPRESS)  # what a process of its own is asked
    options = parser.parse_args()
    if options.climb:
        print(json.dumps(weigh_iterations(options.climb)))
        return
    own = {}
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as place:
        environment = {**os.environ, **ENVIRONMENT, "HOME": place, "XDG_CACHE_HOME": str(Path(place, "cache"))}
        os.environ.update(environment)
        for sandbox in ("none", "bubblewrap"):
            Path(place, sandbox).mkdir()
            folder = goalseek_side(Path(place, sandbox, "goalseek"), 10, sandbox).folder
            words = [sys.executable, __file__, "--climb", str(folder)]
            own[sandbox] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    options.output.write_text(json.dumps({"cost": sum(one["cost"] for one in own.values()), **own}))


def weigh_iterations(folder: Path) -> dict[str, float]:
    """``cost`` in pieces of work, ``ms`` as it was here and now."""
    programs = 0.0

    def run(*arguments, run=Supervisor.run, **options):
        nonlocal programs
        result = run(*arguments, **options)
        programs += result.cpu_seconds
        return result

    Supervisor.run = run  # the reaper waits for the programs, so that no usage of our children has theirs
    own, pieces = [], []
    began = 0.0
    for _ in goalseek.iterate(goalseek.load(folder / "goalseek.toml"), iterations=ITERATIONS):
        ended = seconds_so_far()
        own.append(programs + ended - began)
        work()
        began = programs + seconds_so_far()
        pieces.append(began - programs - ended)
    # Each lies between two pieces of work.
    costs = [seconds / statistics.mean(pair) for seconds, pair in zip(own[1:], itertools.pairwise(pieces), strict=True)]
    return {"cost": lower_quartile(costs[WARM:]), "ms": lower_quartile(own[WARM:]) * 1000}


def lower_quartile(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=4)[0]


def work() -> None:
    """What an iteration is made of: some programs, text, paths."""
    for _ in range(3):
        subprocess.run(["git", "--version"], stdout=subprocess.DEVNULL, check=True)
    for _ in range(60):
        json.loads(json.dumps({"numbers": [str(number) for number in range(50)]}))
    for number in range(200):
        Path("/", str(number)).exists()


def seconds_so_far() -> float:
    """Of this process, its children that ended, and those that are kept open."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ended = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    children = (one for task in Path("/proc/self/task").iterdir() for one in (task / "children").read_text().split())
    return ended + sum(int(Path("/proc", child, "schedstat").read_text().split()[0]) / 1e9 for child in children)


if __name__ == "__main__":
    main()
