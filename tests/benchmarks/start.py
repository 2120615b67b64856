"""What the sandbox adds to the start of a command, at each level.

    python tests/benchmarks/start.py [--starts 50]

Every command is started and ended by the reaper, as the loop does it. The levels take turns with a plain start, so that
a machine that is busy for a while is busy for all. In milliseconds: the median and the best of making ready and running
``true``, and the median of what was added to the plain start. "as VERIFY does" is the whole way of a verify command:
finding what its words need, fresh folders, the place, the start. Ends with 1 where a level adds more than is wanted.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from goalseek.manifest.tables import SandboxTable
from goalseek.sandbox.level import Name, probe
from goalseek.sandbox.policy import ProgramAccess, SandboxPolicy
from goalseek.sandbox.supervisor import Supervisor
from goalseek.sandbox.view import Launch, Mount, build_view

WANTED = 15.0
LEVELS: tuple[Name, ...] = ("landlock", "bubblewrap")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=50)
    starts = parser.parse_args().starts
    with tempfile.TemporaryDirectory() as made, Supervisor("benchmark") as programs:
        folder = Path(made).resolve()
        for name in ("repository", "cache/tree", "cache/scratch/run"):
            (folder / name).mkdir(parents=True)
        ways = {"plain": lambda: Launch(("true",), dict(os.environ), folder)}
        for level in LEVELS:
            ways[level] = way(level, folder, False)
            ways[f"{level}, network"] = way(level, folder, True)
        for level in ("none", *LEVELS):
            ways[f"{level}, as VERIFY does"] = whole_way(level, folder)
        took: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(starts):
            for name, make_ready in ways.items():
                took[name].append(start(programs, make_ready))
    is_within = True
    for name, times in took.items():
        added = statistics.median(own - plain for own, plain in zip(times, took["plain"], strict=True))
        told = f"{name:28} median {statistics.median(times):6.2f}  best {min(times):6.2f}"
        if name != "plain":
            is_within = is_within and added <= WANTED
            told += f"  added {added:6.2f}  {'within' if added <= WANTED else 'NOT within'} {WANTED:.0f} ms"
        print(told)
    return 0 if is_within else 1


def way(level: Name, folder: Path, network: bool) -> Callable[[], Launch]:
    keeper, cache = probe(level), folder / "cache"
    scratch = cache / "scratch"
    seen = build_view(cache / "tree", folder / "repository", scratch)
    run = Mount.in_place(scratch / "run", writable=True)
    seen = structs.replace(seen, shown=(run,), masked=(cache, *seen.masked), network=network)
    return lambda: keeper.launch(seen, ["true"], os.environ, seen.tree.source)


def whole_way(level: Name, folder: Path) -> Callable[[], Launch]:
    top, cache = folder / "repository", folder / "cache"
    scratch = cache / "scratch"
    confines = SandboxPolicy(probe(level), SandboxTable(), top, top, scratch, cache / "kept", (), (cache,))
    job = ProgramAccess(cache / "tree", ["true"], writable=(scratch / "run",), caches="tree", devices=True)
    return lambda: confines.launch(job, ["sh", "-c", "true"], os.environ, job.tree)


def start(programs: Supervisor, make_ready: Callable[[], Launch]) -> float:
    """Makes a program ready and runs it to its end; milliseconds."""
    began = time.perf_counter()
    ready = make_ready()
    done = programs.run(ready)
    took = (time.perf_counter() - began) * 1000
    assert done.exit_code == 0, done
    return took


if __name__ == "__main__":
    sys.exit(main())
