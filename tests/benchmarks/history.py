"""What looking at a long history costs: ``log``, ``status``, ``show best`` and ``report`` on generated ledgers.

    python tests/benchmarks/history.py [--records 1000,100000] [--rounds 5]

Wanted: ``status``, ``log --last 20``, ``show best`` and the first line of ``log`` at most 150 ms more than
``python -c pass``, the same on the longest as on the shortest within a half, and no more memory. The rounds go over
these commands and ledgers in turn; medians are printed. What reads every record (``log`` to its end, ``report``) is
measured once, and may take no more memory for more of them.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import goalseek
from goalseek.cli.registry import COMMANDS as COMMAND_NAMES
from goalseek.ledger.checkpoints import Seal
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import Standing
from goalseek.records import IterationRecord
from goalseek.values import to_line

sys.path.insert(0, str(Path(__file__).parent))
from iteration import ENVIRONMENT, make_repository

COMMANDS = {"status": ["status"], "log --last 20": ["log", "--last", "20"], "show best": ["show", "best"]}
WHOLE = {"log, all of it": ["log"], "report": ["report", "-o", "night.html"]}
KEPT_EVERY = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", default="1000,100000")
    parser.add_argument("--rounds", type=int, default=5)
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
            for length, folder in projects.items():
                taken.setdefault(("log, first line", length), []).append(first_line(folder))
        for name, arguments in WHOLE.items():
            for length, folder in projects.items():
                if arguments[0] in COMMAND_NAMES:
                    taken[name, length] = [cost([sys.executable, "-m", "goalseek", *arguments], folder)]
    base = statistics.median(least)
    print(f"python -c pass: {base * 1000:.0f} ms")
    for (name, length), found in taken.items():
        seconds, memory = (statistics.median(column) for column in zip(*found, strict=True))
        more = (seconds - base) * 1000
        weight = f"{memory / 1024:>6.1f} MiB" if memory else ""
        print(f"{name:<15} {length:>9} records {seconds * 1000:>7.0f} ms ({more:>+6.0f}) {weight}".rstrip())


def first_line(folder: Path) -> tuple[float, int]:
    """Seconds until ``log`` has printed; its memory is not weighed."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "goalseek", "log"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout
        assert child.stdout.read1(1)
        seconds = time.perf_counter() - began
        child.kill()
    return seconds, 0


def cost(arguments: list[str], folder: Path) -> tuple[float, int]:
    """Seconds of wall time, and the peak of resident memory in KiB."""
    weight = weigh(arguments, folder)
    return weight.seconds, weight.memory


class Weight(NamedTuple):
    """What a program took: seconds of wall time, its peak of resident memory in KiB, seconds of the processor.

    The last are its own and those of the programs that it ran.
    """

    seconds: float
    memory: int
    processor: float


def weigh(arguments: list[str], folder: Path) -> Weight:
    """Runs a program, which must end with 0."""
    asked = [sys.executable, "-I", "-S", "-c", _WEIGH, *arguments]
    ended = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True)
    *figures, code = ended.stdout.split()
    assert code == "0", (arguments, ended)
    return Weight(float(figures[0]), int(figures[1]), float(figures[2]))


# A process begins with the memory of the one that started it in its books, so a small one starts those that are weighed.
_WEIGH = """
import os, sys, time
began = time.perf_counter()
nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=nowhere)
_, status, usage = os.wait4(child, 0)
processor = usage.ru_utime + usage.ru_stime
print(time.perf_counter() - began, usage.ru_maxrss, processor, os.waitstatus_to_exitcode(status))
"""


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
    (secret,) = repository.glob(".git/goalseek/*/secret")
    seal = Seal(secret.read_bytes())
    history.save_snapshot(standing, seal)
    assert len(to_line(standing)) < 10_000 and records
    return repository


if __name__ == "__main__":
    main()
