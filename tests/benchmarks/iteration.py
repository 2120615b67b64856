"""Where the time of an iteration goes: calls of Python functions by file, and a profile.

    python tests/benchmarks/iteration.py [--files 10] [--iterations 100]

The provider is scripted and every candidate is rejected. The first two iterations are left out. What an iteration costs
beside other tools tells ``pace.py``; whether it costs more the more were done, ``soak.py``.
"""

import argparse
import contextlib
import cProfile
import os
import pstats
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import tomli_w

import goalseek

WARM = 2
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "bench@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=100)
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as place:
        os.environ["XDG_CACHE_HOME"] = str(Path(place, "cache"))
        os.environ["HOME"] = place
        profile(Path(place), options.files, options.iterations)


def profile(place: Path, size: int, iterations: int) -> None:
    seconds = own_seconds(make_repository(place / "profile", size, iterations), iterations)
    for _ in range(WARM):
        next(seconds)
    measured = cProfile.Profile()
    measured.enable()
    rest = list(seconds)
    measured.disable()
    print(f"own time: {statistics.median(rest) * 1000:.1f} ms an iteration, under the profiler")
    calls = Counter[str]()
    for (file, *_), (_, count, *_) in pstats.Stats(measured).stats.items():  # type: ignore[attr-defined]
        calls[file] += count / len(rest)
    in_c = calls.pop("~")  # what is written in C has no file
    print(f"calls of Python functions: {calls.total():.0f} an iteration, of C functions: {in_c:.0f}; by file:")
    for file, count in calls.most_common(20):
        print(f"{count:>8.0f}  {file}")
    for order in ("cumulative", "tottime"):
        pstats.Stats(measured).sort_stats(order).print_stats(45)


def own_seconds(repository: Path, iterations: int) -> Iterator[float]:
    """Wall time of each iteration less what its provider and its verifier took, in one process."""
    climb = goalseek.iterate(goalseek.load(repository / "goalseek.toml"), iterations=iterations)
    with contextlib.closing(climb):  # type: ignore[type-var]
        next(climb)
        while True:
            began = time.perf_counter()
            record = next(climb, None)
            elapsed = time.perf_counter() - began
            if record is None:
                return
            assert record.reason == "worse", (record.iteration, record.reason, record.why)
            yield elapsed - sum(run.seconds for run in record.verify)


def value(number: int) -> str:
    """A value worse than the baseline's, another each time, always of the same length."""
    return str(500_000 - number)


def make_repository(top: Path, size: int, moves: int) -> Path:
    """A repository of ``size`` files, and a project whose moves are all rejected."""
    script = top.parent / f"{top.name}-moves.toml"
    played = [{"title": f"candidate {number}", "files": {"value.txt": value(number) + "\n"}} for number in range(moves)]
    script.write_text(tomli_w.dumps({"move": played}))
    manifest = {
        "version": 1,
        "project": {"name": "benchmark"},
        "scope": {"writable": ["value.txt"], "hidden": ["judge.sh"]},
        "metric": {"direction": "maximize", "regex": "([0-9]+)", "name": "value"},
        "verify": [{"run": "sh judge.sh", "sees": "both"}],
        "provider": {"name": "scripted", "script": str(script)},
        "limits": {"stagnation": "none"},
    }
    files = {"value.txt": "900000\n", "judge.sh": "cat value.txt\n", "goalseek.toml": tomli_w.dumps(manifest)}
    return commit_files(top, size, files)


def commit_files(top: Path, size: int, files: dict[str, str]) -> Path:
    """A repository of ``size`` files in folders of a hundred, these among them."""
    top.mkdir()
    others = range(size - len(files))
    files = {**files, **{f"folder-{number // 100}/file-{number}.txt": f"content of {number}\n" for number in others}}
    for path, text in files.items():
        place = top / path
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    for arguments in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "start"]):
        subprocess.run(["git", *arguments], cwd=top, check=True)
    return top


if __name__ == "__main__":
    main()
