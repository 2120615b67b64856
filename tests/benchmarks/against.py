"""This checkout against an older one, in turn: an iteration, the import of ``iterate``, quick looks, a whole ``log``.

    python tests/benchmarks/against.py /path/to/older/.venv/bin/python [--records 100000] [--rounds 15]

Wanted: a whole ``log`` and a ``report`` in a quarter of the time, an iteration and the import of what ``iterate`` uses
in two thirds, and no quick look slower. Both read equal ledgers, with compiled modules: a real climb of which one
record is repeated, and one in a noisy metric. What is printed is seconds of the processor, the median and the least of the
rounds, so that a machine that is busy says the same. What reads a whole ledger does so three times.
"""

import argparse
import hashlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import nights
from history import make_history
from iteration import ENVIRONMENT, make_repository

IMPORT = """
try:
    import goalseek.cli.commands.iterate
except ImportError:
    import goalseek.cli.iterate_command  # the name that it had
"""
JOBS = {
    "import of iterate": ["-c", IMPORT],
    "--help": ["-m", "goalseek", "--help"],
    "status": ["-m", "goalseek", "status"],
    "log --last 20": ["-m", "goalseek", "log", "--last", "20"],
    "a whole log": ["-m", "goalseek", "log"],
    "a report": ["-m", "goalseek", "report", "-o", "night.html"],
    "a noisy report": ["-m", "goalseek", "report", "../noisy/results.jsonl", "-o", "night.html"],
}
WHOLE = ("a whole log", "a report", "a noisy report")
WHOLE_ROUNDS = 3
ITERATIONS = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("older", help="its Python")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as place:
        os.environ["HOME"] = place
        compare_iterations(Path(place), options.older, max(options.rounds // 3, 2))
        folder = make_history(Path(place, "history"), options.records)
        # Each side has a ledger of its own: else one replaces the snapshot that the other reads.
        folders = {options.older: folder, sys.executable: shutil.copytree(folder, Path(place, "own"), symlinks=True)}
        nights.write(Path(place, "noisy", "results.jsonl"), nights.night(options.records))
        for name, arguments in JOBS.items():
            seconds: dict[str, list[float]] = {options.older: [], sys.executable: []}
            for python in seconds:  # its modules are compiled, and the ledger is in memory
                cost([python, *arguments], folders[python])
            for _ in range(WHOLE_ROUNDS if name in WHOLE else options.rounds):
                for python, spent in seconds.items():
                    spent.append(cost([python, *arguments], folders[python]))
            show(name, *seconds.values())


def compare_iterations(place: Path, older: str, rounds: int) -> None:
    """Prints what an iteration at 10 files costs: what more of them in one program take than one."""
    seconds: dict[str, list[float]] = {older: [], sys.executable: []}
    folders = {python: make_repository(place / f"climb-{side}", 10, 1000) for side, python in enumerate(seconds)}
    for number in range(rounds):
        for python, folder in folders.items():
            one, many = (cost([python, "-m", "goalseek", "iterate", "-n", str(n)], folder) for n in (1, 1 + ITERATIONS))
            if number:  # the first one measured the baseline
                seconds[python].append((many - one) / ITERATIONS)
    show("an iteration", *seconds.values())


def show(name: str, old: list[float], new: list[float]) -> None:
    share = statistics.median(new) / statistics.median(old)
    print(f"{name:<18} {in_ms(old)} -> {in_ms(new)}: {share:.2f}; least {min(new) / min(old):.2f}", flush=True)


def cost(arguments: list[str], folder: Path) -> float:
    """Seconds of the processor that a program takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Each side has a cache of its own: else one throws away the manifest that the other checked, and checks it anew.
    cache = folder.parent / f"cache{hashlib.sha256(arguments[0].encode()).hexdigest()[:8]}"
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    output = subprocess.DEVNULL
    subprocess.run(arguments, cwd=folder, env=environment, stdout=output, stderr=output, check=True, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def in_ms(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.0f} ms"


if __name__ == "__main__":
    main()
