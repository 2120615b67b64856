"""What an iteration costs beside its provider and verifier, next to the same iteration by a shell script.

    python tests/benchmarks/iteration.py [--files 10,2000,50000] [--iterations 40]
    python tests/benchmarks/iteration.py --profile --files 10 --iterations 32

Both sides do the same edits of the same repository in turn, goalseek in one process, the script in another that is
told when to do its next round; so a machine that is busy for a while is busy for both. Medians are printed, the first
two rounds left out. Whether an iteration costs more the more were done, ``soak.py`` tells.
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

WANTED = {10: 2.0, 2000: 1.5, 50000: 1.0}
WARM = 2
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "bench@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
ROUND = """\
printf '%s\\n' "$1" > value.txt
git status --porcelain > /dev/null
git add -A
git commit --quiet -m "candidate $1"
git revert --no-edit HEAD > /dev/null
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="10,2000,50000")
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--profile", action="store_true", help="where the time of an iteration goes")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as place:
        os.environ["XDG_CACHE_HOME"] = str(Path(place, "cache"))
        os.environ["HOME"] = place
        if options.profile:
            profile(Path(place), int(options.files.split(",")[0]), options.iterations or 100)
        else:
            compare(Path(place), [int(text) for text in options.files.split(",")], options.iterations)


def compare(place: Path, sizes: list[int], iterations: int | None) -> None:
    """goalseek's own time an iteration beside the script's."""
    print(f"{'files':>7} {'goalseek':>10} {'script':>10} {'ratio':>7} {'wanted':>7}   rounds")
    for size in sizes:
        rounds = iterations or (60 if size <= 10 else 40 if size <= 2000 else 15)
        own, script = [], []
        repository = make_repository(place / f"goalseek-{size}", size, rounds)
        other = make_repository(place / f"script-{size}", size, rounds)
        climb = own_seconds(repository, rounds)
        for number, seconds in enumerate(climb):
            began = time.perf_counter()
            subprocess.run(["sh", "-ec", ROUND, "round", value(number)], cwd=other, check=True)
            elapsed = time.perf_counter() - began
            if number >= WARM:
                own.append(seconds)
                script.append(elapsed)
        ours, theirs = statistics.median(own), statistics.median(script)
        wanted = WANTED.get(size)
        verdict = "" if wanted is None else f"{wanted:>7}   {len(own)}{'' if ours / theirs <= wanted else '  MISSED'}"
        print(f"{size:>7} {ours * 1000:>8.1f}ms {theirs * 1000:>8.1f}ms {ours / theirs:>7.2f} {verdict}", flush=True)


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
    """A repository of ``size`` files in folders of a hundred, and a project whose moves are all rejected."""
    top.mkdir()
    files = {"value.txt": "900000\n", "judge.sh": "cat value.txt\n"}
    files |= {f"folder-{number // 100}/file-{number}.txt": f"content of {number}\n" for number in range(size - 3)}
    for path, text in files.items():
        place = top / path
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
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
    (top / "goalseek.toml").write_text(tomli_w.dumps(manifest))
    for arguments in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "start"]):
        subprocess.run(["git", *arguments], cwd=top, check=True)
    return top


if __name__ == "__main__":
    main()
