"""What reading a long history costs, of two programs in turn: ``report`` and a whole ``log`` of the same records.

    python tests/benchmarks/side_by_side.py OTHER_PYTHON [--records 100000] [--rounds 3] [--commands report,log]

OTHER_PYTHON is the interpreter with the other goalseek, such as one of before a change. The records are those of a
climb in a noisy metric, and of a real climb of which one record is repeated; of each the seconds of processor time are
printed, medians over the rounds, and their ratio: more than 1 where this checkout's program is the faster one.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import nights
from history import make_history
from iteration import ENVIRONMENT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commands", default="report,log")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as top:
        os.environ["HOME"], os.environ["XDG_CACHE_HOME"] = top, str(Path(top, "cache"))
        noisy = nights.write(Path(top, "noisy", "results.jsonl"), nights.night(options.records))
        repeated = make_history(Path(top, "repeated"), options.records)
        measured = {
            "report of a noisy night": (noisy.parent, ["report", str(noisy), "-o", "night.html"]),
            "report of a real climb": (repeated, ["report", "-o", "night.html"]),
            "log of a real climb": (repeated, ["log"]),
        }
        for name, (folder, arguments) in measured.items():
            if arguments[0] not in options.commands.split(","):
                continue
            both: dict[str, list[float]] = {options.other: [], sys.executable: []}
            for _ in range(options.rounds):
                for python, seconds in both.items():
                    seconds.append(processor_seconds([python, "-m", "goalseek", *arguments], folder))
            before, after = (statistics.median(seconds) for seconds in both.values())
            print(f"{name:<24} {before:>7.2f} s, here {after:>6.2f} s, ratio {before / after:.1f}", flush=True)


def processor_seconds(command: list[str], folder: Path) -> float:
    """The seconds that a command and its children kept a processor busy."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True, timeout=1800)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
