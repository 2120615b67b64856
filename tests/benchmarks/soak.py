"""A thousand iterations in one process: what is left behind, and what grew.

    python tests/benchmarks/soak.py [--iterations 1000] [--files 10]

Wanted: memory, descriptors and children flat; no temporary folder left; loose objects bounded by what gathers between
two packs; an iteration at the end costs what one at the beginning does. Every twentieth candidate is kept.
"""

import argparse
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tomli_w

import goalseek

sys.path.insert(0, str(Path(__file__).parent))
from iteration import ENVIRONMENT, make_repository, value

KEPT_EVERY = 20
EARLY = range(5, 31)
LATE = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--files", type=int, default=10)
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as place:
        for variable, folder in (("XDG_CACHE_HOME", "cache"), ("HOME", "home"), ("TMPDIR", "temporary")):
            Path(place, folder).mkdir()
            os.environ[variable] = str(Path(place, folder))
        tempfile.tempdir = os.environ["TMPDIR"]
        soak(Path(place), options.iterations, options.files)


def soak(place: Path, iterations: int, files: int) -> None:
    """Climbs, and prints figures on the way and at the end."""
    repository = make_repository(place / "repository", files, 1)
    moves = [
        {"title": f"candidate {number}", "files": {"value.txt": f"{proposed(number)}\n"}}
        for number in range(1, iterations + 1)
    ]
    (place / "repository-moves.toml").write_text(tomli_w.dumps({"move": moves}))
    users = loose(repository)
    marks = {10, iterations // 2, iterations}
    taken: list[float] = []
    most, before = 0, descriptors()
    print(f"{'iteration':>9} {'memory':>10} {'descriptors':>11} {'children':>8} {'loose':>6} {'packs':>5}")
    climb = goalseek.iterate(goalseek.load(repository / "goalseek.toml"), iterations=iterations)
    with contextlib.closing(climb):  # type: ignore[type-var]
        next(climb)
        for number in range(1, iterations + 1):
            began = time.perf_counter()
            record = next(climb)
            elapsed = time.perf_counter() - began
            taken.append(elapsed - sum(run.seconds for run in record.verify))
            assert record.outcome == ("reverted" if number % KEPT_EVERY else "kept"), record.why
            if number % 50 == 0 or number in marks:
                most = max(most, len(loose(repository) - users))
            if number in marks:
                told = f"{number:>9} {resident():>6.1f} MiB {descriptors():>11} {children():>8}"
                print(f"{told} {len(loose(repository) - users):>6} {packs(repository):>5}", flush=True)
        assert next(climb, None) is None
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.1f} MiB")
    print(f"descriptors before {before}, afterwards {descriptors()}; children afterwards {children()}")
    print(f"most loose objects seen: {most}; of the user's gone: {len(users - loose(repository))}")
    print(f"temporary folders left: {len(list(Path(os.environ['TMPDIR']).iterdir()))}")
    for name, folder in (
        ("object store", repository / ".git" / "objects"),
        ("own folder in .git", repository / ".git" / "goalseek"),
        (".goalseek", repository / ".goalseek"),
        ("run folders", next(repository.glob(".goalseek/*/runs"))),
        ("cache", Path(os.environ["XDG_CACHE_HOME"])),
    ):
        print(
            f"{name:<20} {size(folder) / 2**20:>7.2f} MiB in {sum(1 for _ in folder.rglob('*')):>6} files and folders"
        )
    early = [taken[number - 1] for number in EARLY if number <= len(taken)]
    first, last = statistics.median(early), statistics.median(taken[-LATE:])
    print(f"iterations 5 to 30: {first * 1000:.1f} ms; the last {LATE}: {last * 1000:.1f} ms; ratio {last / first:.2f}")
    print(f"slowest iteration: {max(taken) * 1000:.0f} ms, the {taken.index(max(taken)) + 1}.")
    checked = subprocess.run(["git", "fsck", "--full"], cwd=repository, capture_output=True, text=True)
    audited = subprocess.run(
        [sys.executable, "-m", "goalseek", "audit"], cwd=repository, capture_output=True, text=True
    )
    print(f"git fsck --full: {checked.returncode}; goalseek audit: {audited.returncode}")


def proposed(number: int) -> str:
    """A value that is kept, or one that is worse; another each time."""
    return value(number) if number % KEPT_EVERY else str(900_000 + number)


def loose(repository: Path) -> set[str]:
    return {path.parent.name + path.name for path in repository.glob(".git/objects/??/*")}


def packs(repository: Path) -> int:
    return len(list(repository.glob(".git/objects/pack/*.pack")))


def resident() -> float:
    """Resident memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> int:
    """How many children of this process live, or were not waited for."""
    return sum(len(path.read_text().split()) for path in Path("/proc/self/task").glob("*/children"))


def size(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


if __name__ == "__main__":
    main()
