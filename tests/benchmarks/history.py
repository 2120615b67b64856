"""What looking at a long history costs: ``status``, ``log --last 20`` and ``show best`` on generated ledgers.

    python tests/benchmarks/history.py [--records 1000,1000000] [--rounds 7]

Wanted: at most 150 ms more than ``python -c pass``, the same on the longest as on the shortest within a half, and no
more memory. The rounds go over all commands and ledgers in turn; medians are printed. ``log`` and ``report`` read every
record: they are run once, and only their memory must not grow.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import goalseek
from goalseek.history import History
from goalseek.plain import to_line
from goalseek.records import IterationRecord
from goalseek.standing import Standing

sys.path.insert(0, str(Path(__file__).parent))
from iteration import ENVIRONMENT, make_repository

COMMANDS = {"status": ["status"], "log --last 20": ["log", "--last", "20"], "show best": ["show", "best"]}
WHOLE = {"log": ["log"], "report": ["report", "--format", "html", "-o", os.devnull]}
KEPT_EVERY = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", default="1000,1000000")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as place:
        os.environ["XDG_CACHE_HOME"] = str(Path(place, "cache"))
        os.environ["HOME"] = place
        lengths = [int(text) for text in options.records.split(",")]
        projects = {length: make_history(Path(place, str(length)), length) for length in lengths}
        taken: dict[tuple[str, int], list[tuple[float, int]]] = {}
        least = []
        for _ in range(options.rounds):
            least.append(cost([sys.executable, "-c", "pass"], Path(place))[0])
            for name, arguments in COMMANDS.items():
                for length, folder in projects.items():
                    found = cost([sys.executable, "-m", "goalseek", *arguments], folder)
                    taken.setdefault((name, length), []).append(found)
        for name, arguments in WHOLE.items():
            for length, folder in projects.items():
                taken[name, length] = [cost([sys.executable, "-m", "goalseek", *arguments], folder)]
    base = statistics.median(least)
    print(f"python -c pass: {base * 1000:.0f} ms")
    for name in (*COMMANDS, *WHOLE):
        for length in lengths:
            seconds, memory = (statistics.median(column) for column in zip(*taken[name, length], strict=True))
            more = (seconds - base) * 1000
            print(f"{name:<14} {length:>9} records {seconds * 1000:>6.0f} ms ({more:>+5.0f}) {memory / 1024:>6.1f} MiB")


def cost(arguments: list[str], folder: Path) -> tuple[float, int]:
    """Seconds of wall time, and the peak of resident memory in KiB."""
    began = time.perf_counter()
    with subprocess.Popen(arguments, cwd=folder, stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, (arguments, child.returncode)
    return time.perf_counter() - began, usage.ru_maxrss


def make_history(top: Path, length: int) -> Path:
    """A real climb of one rejected candidate, whose record is then repeated under other numbers."""
    repository = make_repository(top, 10, 1)
    records = list(goalseek.iterate(goalseek.load(repository / "goalseek.toml"), iterations=1))
    (path,) = repository.glob(".goalseek/*/logs/results.jsonl")
    written = path.read_text().splitlines(keepends=True)
    template = written[-1]
    numbered = template.replace('"seq":2,', '"seq":%(seq)d,').replace(
        '"iteration":1,"outcome"', '"iteration":%(n)d,"outcome"'
    )
    assert numbered.count("%") == 2, template
    kept = numbered.replace('"outcome":"reverted","reason":"worse"', '"outcome":"kept","reason":"better"')
    standing = Standing()
    for record in goalseek.read_results(path):
        standing = standing.after(record)
    with path.open("w") as file:
        file.writelines(written)
        for number in range(2, length):
            line = (kept if number % KEPT_EVERY == 0 else numbered) % {"seq": number + 1, "n": number}
            file.write(line)
    history = History(path)
    newest = []
    for record in history.newest():
        newest.append(record)
        if isinstance(record, IterationRecord) and record.outcome == "kept":
            break
    for record in reversed(newest):
        standing = standing.after(record)
    history.remember(standing, lambda body: "")
    assert len(to_line(standing)) < 10_000 and records
    return repository


if __name__ == "__main__":
    main()
