"""What the sandbox adds to the start of a command, at each level.

    python tests/benchmarks/start.py [--starts 50]

The levels take turns with a plain start, so that a machine that is busy for a while is busy for all. In milliseconds:
the median and the best of making ready and running ``true``, and the median of what was added to the plain start.
"as VERIFY does" is the whole way of a verify command: finding what its words need, fresh folders, the place, the start.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from goalseek.confinement.furnish import furnish
from goalseek.confinement.level import find
from goalseek.confinement.view import View
from goalseek.confines import Confines, Job
from goalseek.manifest import SandboxTable

WANTED = 15.0
CASES = {
    "plain": ("none", False),
    "bubblewrap": ("bubblewrap", False),
    "bubblewrap, network": ("bubblewrap", True),
    "landlock": ("landlock", False),
}
WHOLE_WAYS = {f"{level}, as VERIFY does": level for level in ("none", "landlock", "bubblewrap")}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=50)
    starts = parser.parse_args().starts
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        for name in ("repository", "cache/tree", "cache/scratch/run"):
            (folder / name).mkdir(parents=True)
        views = {network: view(folder, network) for network in (False, True)}
        took: dict[str, list[float]] = {name: [] for name in CASES}
        for _ in range(starts):
            for name, (level, network) in CASES.items():
                took[name].append(start(level, views[network]))
            for name, level in WHOLE_WAYS.items():
                took.setdefault(name, []).append(whole_way(level, folder))
    for name, times in took.items():
        added = statistics.median(own - plain for own, plain in zip(times, took["plain"], strict=True))
        told = f"{name:20} median {statistics.median(times):6.2f}  best {min(times):6.2f}  added {added:6.2f}"
        print(told + (f"  wanted {WANTED}" if name == "bubblewrap" else ""))


def view(folder: Path, network: bool) -> View:
    cache = folder / "cache"
    scratch = cache / "scratch"
    return furnish(
        cache / "tree", folder / "repository", scratch, writable=[scratch / "run"], masked=[cache], network=network
    )


@functools.cache
def confines_at(level: str, folder: Path) -> Confines:
    top, cache = folder / "repository", folder / "cache"
    keeper = find(level)  # type: ignore[arg-type]
    return Confines(keeper, SandboxTable(), top, top, cache / "scratch", cache / "kept", (), (cache,))


def whole_way(level: str, folder: Path) -> float:
    """A verify command's way; milliseconds."""
    scratch = folder / "cache" / "scratch"
    confines = confines_at(level, folder)
    job = Job(folder / "cache" / "tree", ["true"], writable=(scratch / "run",), caches="tree", devices=True)
    began = time.perf_counter()
    ready = confines.launch(job, ["sh", "-c", "true"], os.environ, job.tree)
    done = subprocess.run(ready.arguments, env=ready.environment, cwd=ready.folder, stdin=subprocess.DEVNULL)
    took = (time.perf_counter() - began) * 1000
    assert done.returncode == 0
    return took


def start(level: str, seen: View) -> float:
    """Makes a program ready and runs it; milliseconds."""
    keeper = find(level)  # type: ignore[arg-type]
    began = time.perf_counter()
    ready = keeper.launch(seen, ["true"], os.environ, seen.tree.source)
    done = subprocess.run(ready.arguments, env=ready.environment, cwd=ready.folder, stdin=subprocess.DEVNULL)
    took = (time.perf_counter() - began) * 1000
    assert done.returncode == 0
    return took


if __name__ == "__main__":
    main()
