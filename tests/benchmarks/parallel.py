"""Several agents and benches at once beside one of each: candidates decided, goalseek's own time, and memory.

    python tests/benchmarks/parallel.py [--only sleeping,busy,memory] [--rounds 3] [--seconds 60] [--records 10000]

Wanted, with agents and a verifier that sleep two seconds each: four of each decide at least 6 times the candidates that
one of each does in the same time (8 would be all of it, as an agent goes on while its candidate is measured), and an
iteration takes at most 1.3 times the time of the processor, git's and that of the shells included. With a verifier that
keeps a processor busy, two benches on two processors: 1.7 times, where two shells that do that work over and over reach 2;
on a machine that is at other work 0.85 of what they reach. With eight slots and ten thousand records: 90 MiB.

One candidate in ten is kept. Both sides climb in turn, in repositories of their own, so a machine that is busy for a
while is busy for both; the median of the rounds is printed. What a short climb costs is taken off the time of the
processor, as it begins and ends like the long one.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import tomli_w
from msgspec.structs import replace

import goalseek
from goalseek.project.opening import open_project
from goalseek.records import IterationRecord

sys.path.insert(0, str(Path(__file__).parent))
from history import weigh
from iteration import ENVIRONMENT

AGENT = """\
sleep {sleep}
case $GOALSEEK_ITERATION in *0) value=1;; *) value=-1;; esac
echo "candidate $GOALSEEK_ITERATION"
echo $value > parts/$GOALSEEK_ITERATION.txt
"""
JUDGE = """\
{work}
cat parts/*.txt | awk '{{ sum += $1 }} END {{ print 1000 + sum }}'
"""
BUSY = "python3 -c 'for _ in range({rounds}): pass'"


class Climb(NamedTuple):
    """A climb of ``seconds``: how many candidates it decided, and what an iteration took of the processor."""

    decided: int
    processor: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="sleeping,busy,memory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--records", type=int, default=10_000)
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    parts: dict[str, Callable[[Path], None]] = {
        "sleeping": lambda place: sleeping(place, options.rounds, options.seconds),
        "busy": lambda place: busy(place, options.rounds, options.seconds),
        "memory": lambda place: memory(place, options.records),
    }
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as place:
        os.environ["XDG_CACHE_HOME"] = str(Path(place, "cache"))
        os.environ["HOME"] = place
        for name in options.only.split(","):
            parts[name](Path(place, name))


def sleeping(place: Path, rounds: int, seconds: float, sleep: float = 2.0) -> tuple[float, float]:
    """Four agents and benches beside one of each, all asleep most of the time; gives both ratios."""
    climbs = _climb_in_turn(place, 4, rounds, seconds, sleep, f"sleep {sleep}")
    decided, own_time = (_ratio(climbs, unit) for unit in Climb._fields)
    print(f"{place.name:<9} decided: {decided:.2f} times, wanted 6{'' if decided >= 6 else '  MISSED'}")
    print(
        f"{place.name:<9} own time: {own_time:.2f} times, wanted 1.3{'' if own_time <= 1.3 else '  MISSED'}", flush=True
    )
    return decided, own_time


def busy(place: Path, rounds: int, seconds: float, work: int = 40_000_000) -> tuple[float, float]:
    """Two agents and benches beside one of each, on a verifier that keeps a processor busy.

    Gives the ratio of what they decide, and the ratio of what two shells and one do of the same work.
    """
    command = BUSY.format(rounds=work)
    shells: dict[int, list[int]] = {1: [], 2: []}

    def add_shells(count: int) -> None:
        shells[count].append(_work_in_shells(command, count, seconds / 2))

    climbs = _climb_in_turn(place, 2, rounds, seconds, 0.1, command, add_shells)
    decided = _ratio(climbs, "decided")
    reached = statistics.median(shells[2]) / statistics.median(shells[1])
    wanted = f"{reached:.2f} by shells, wanted {0.85 * reached:.2f}"
    missed = "" if decided >= 0.85 * reached else "  MISSED"
    print(f"{place.name:<9} decided: {decided:.2f} times, {wanted}{missed}", flush=True)
    return decided, reached


def _climb_in_turn(
    place: Path,
    jobs: int,
    rounds: int,
    seconds: float,
    sleep: float,
    work: str,
    after_each: Callable[[int], None] = lambda count: None,
) -> dict[int, list[Climb]]:
    folders = {count: make_repository(place / str(count), sleep, work) for count in (1, jobs)}
    climbs: dict[int, list[Climb]] = {1: [], jobs: []}
    for _ in range(rounds):
        for count, folder in folders.items():
            climbs[count].append(climb(folder, count, seconds))
            decided, processor = climbs[count][-1]
            print(
                f"{place.name:<9} {count} of each: {decided:>4} decided, {processor * 1000:>6.0f} ms each", flush=True
            )
            after_each(count)
    return climbs


def _ratio(climbs: dict[int, list[Climb]], unit: str) -> float:
    one, many = (statistics.median(getattr(made, unit) for made in climbs[count]) for count in sorted(climbs))
    return many / one


def _work_in_shells(command: str, count: int, seconds: float) -> int:
    """How often so many shells together do a command in this time."""
    script = f"while :; do {command} && echo; done"
    shells = [["timeout", f"{seconds:g}", "sh", "-c", script] for _ in range(count)]
    started = [subprocess.Popen(shell, stdout=subprocess.PIPE, text=True) for shell in shells]
    return sum(len(shell.communicate()[0]) for shell in started)


def climb(folder: Path, jobs: int, seconds: float) -> Climb:
    """Climbs for so long; what is under way then is finished, and not counted as decided."""
    short, counts = [weigh(_iterate(jobs, "-n", str(jobs)), folder).processor], [len(decided(folder))]
    began = datetime.now(UTC)
    short.append(weigh(_iterate(jobs, "--for", f"{seconds:g}s"), folder).processor)
    counts.append(len(decided(folder)))
    until = (began + timedelta(seconds=seconds)).isoformat()
    in_time = [record for record in decided(folder)[counts[0] :] if record.timestamp.replace("Z", "+00:00") <= until]
    return Climb(len(in_time), (short[1] - short[0]) / (counts[1] - counts[0] - jobs))


def _iterate(jobs: int, *bound: str) -> list[str]:
    return [sys.executable, "-m", "goalseek", "iterate", "--jobs", str(jobs), *bound]


def decided(folder: Path) -> list[IterationRecord]:
    """The records of the candidates that were measured."""
    (path,) = folder.glob(".goalseek/*/logs/results.jsonl")
    records = (record for record in goalseek.read_results(path) if isinstance(record, IterationRecord))
    return [record for record in records if record.outcome in ("kept", "reverted")]


def memory(place: Path, length: int, iterations: int = 40) -> float:
    """The peak of resident memory in MiB of eight slots on a ledger of so many records."""
    folder = make_repository(place, 0.2, "sleep 0.2")
    began = time.perf_counter()
    lengthen(folder, length)
    print(f"{place.name:<9} {length} records, written in {time.perf_counter() - began:.0f} s", flush=True)
    for jobs in (1, 8):
        peak = weigh(_iterate(jobs, "-n", str(iterations)), folder).memory / 1024
        print(f"{place.name:<9} {jobs} of each: {peak:.1f} MiB{'  MISSED' if peak > 90 else ''}", flush=True)
    return peak


def lengthen(folder: Path, length: int) -> None:
    """Writes the record of a rejected candidate again and again, each as a further iteration."""
    with open_project(goalseek.load(folder / "goalseek.toml")) as project:
        ledger = project.ledger
        template = ledger.recent[0]
        for number in range(ledger.standing.last_iteration + 1, length):
            ledger.append(replace(template, iteration=number))


def make_repository(top: Path, sleep: float, work: str) -> Path:
    """A project whose candidates merge with one another, with a baseline and a rejected candidate."""
    script = top.parent / f"{top.name}-agent.sh"
    manifest = {
        "version": 1,
        "project": {"name": "benchmark"},
        "scope": {"writable": ["parts/**"], "hidden": ["judge.sh"]},
        "metric": {"direction": "maximize", "regex": "([0-9]+)", "name": "value", "settle": "none"},
        "verify": [{"run": "sh judge.sh", "sees": "both"}],
        "provider": {"name": "command", "command": ["sh", str(script)]},
        "limits": {"stagnation": "none"},
        "search": {"stack": "none"},
    }
    (top / "parts").mkdir(parents=True)
    script.write_text(AGENT.format(sleep=sleep))
    (top / "parts" / "start.txt").write_text("0\n")
    (top / "judge.sh").write_text(JUDGE.format(work=work))
    (top / "goalseek.toml").write_text(tomli_w.dumps(manifest))
    for arguments in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "start"]):
        subprocess.run(["git", *arguments], cwd=top, check=True)
    weigh(_iterate(1, "-n", "1"), top)
    return top


if __name__ == "__main__":
    main()
