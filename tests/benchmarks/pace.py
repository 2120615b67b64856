"""goalseek's own cost of an iteration beside labloop 1.0.5 and bare git, in one table.

    pip install labloop==1.0.5    # in an environment of its own
    python tests/benchmarks/pace.py --labloop /path/to/venv/bin [--only 10,2000] [--blocks 5]

Every side gets the same proposals, ``sh`` that writes one file, and the same verifier, ``echo``, so all candidates are
rejected. What is neither agent nor verifier is the tool's. A block is a long climb less a climb of one iteration, each a
process of its own; the sides take turns, so a busy machine is busy for all. Medians of the blocks are printed. CPU is
user and system time of a tool and all its children. labloop has no protected file, and a ledger that begins anew with
each size: its cheapest case.

    10        10 files, without a sandbox and under bubblewrap, where labloop confines the agent alone and goalseek the
              verifier too; the floor, which is what the two programs of an iteration cost to start alone (``sh -c``, or
              bwrap with the same arguments around ``true``); a second table has the CPU of each process
    2000      2,000 files
    20000     20,000 files
    50000     50,000 files: wall time beside a shell script of git commands, round by round
    calls     git processes started, fsyncs and renames in an iteration, git's and the reaper's included, by strace
    long      iteration 10,000 beside iteration 10, after records of one iteration under other numbers
    bench     a second bench in a repository of 50,000 files, and whether its files are clones (``ioctl FICLONE``)
    parallel  candidates decided by four agents and four benches that sleep a second each, beside one of each
    start     wall time of quick commands over ``python -c pass``, with bytecode, as after an install

Without --labloop the rows have no rival. Wall times mean something on an idle machine only, CPU and counts on any.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import operator
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tomli_w

import goalseek
from goalseek.project.opening import open_project

sys.path.insert(0, str(Path(__file__).parent))
from history import cost, make_history
from iteration import ENVIRONMENT, WARM, commit_files
from parallel import lengthen, sleeping

PROPOSE = 'read -r id < /proc/sys/kernel/random/uuid; echo "$id" > value.txt'
VERIFY = "echo value: 1"
ROUND = """\
sh -c "$1"
git status --porcelain > /dev/null
git add -A
git commit --quiet -m candidate
sh -c "$2" > /dev/null
git revert --no-edit HEAD > /dev/null
"""
KEPT_FOLDERS = 500  # the default of log.keep_runs
FLOOR_STARTS = 10


class Row(NamedTuple):
    """``wanted`` is a most or a least, such as "<= 0.9"; "" for a figure that is only shown."""

    name: str
    own: str
    beside: str = ""
    figure: float | None = None
    wanted: str = ""

    def cells(self) -> tuple[str, ...]:
        figure = "" if self.figure is None else f"{self.figure:.2f}"
        verdict = "shown"
        if self.wanted and self.figure is not None:
            sign, bound = self.wanted.split()
            is_met = {"<=": operator.le, ">=": operator.ge}[sign](self.figure, float(bound))
            verdict = "met" if is_met else "MISSED"
        return (self.name, self.own, self.beside, figure, self.wanted, verdict)


class Side(NamedTuple):
    """A tool at work in a folder; ``words`` gives its arguments for so many iterations."""

    name: str
    python: str
    folder: Path
    words: Callable[[int], list[str]]


def goalseek_side(top: Path, size: int, sandbox: str = "none", files: Mapping[str, str] = {}) -> Side:
    manifest = {
        "version": 1,
        "project": {"name": "benchmark"},
        "scope": {"writable": ["value.txt"]},
        "metric": {"direction": "maximize", "regex": r"value: (\S+)", "name": "value", "settle": "none"},
        "verify": [{"run": VERIFY}],
        "provider": {"name": "command", "command": ["sh", "-c", PROPOSE]},
        "limits": {"stagnation": "none"},
        "search": {"stack": "none"},
        "sandbox": {"mode": sandbox},
    }
    own = {"value.txt": "0\n", ".gitignore": ".goalseek\n", "goalseek.toml": tomli_w.dumps(manifest)}
    commit_files(top, size, {**own, **files})
    return Side("goalseek", sys.executable, top, lambda count: ["goalseek", "-q", "iterate", "-n", str(count)])


def labloop_side(bin: Path, top: Path, size: int, sandbox: str = "none") -> Side:
    commit_files(top, size, {"value.txt": "0\n", ".gitignore": "labloop.jsonl*\n"})
    common = ["--run", VERIFY, "--metric", "value", "--goal", "maximize"]
    subprocess.run([bin / "labloop", "baseline", *common], cwd=top, check=True, stdout=subprocess.DEVNULL)
    box = {"none": "none", "bubblewrap": "bwrap"}[sandbox]
    words = ["labloop", "run", *common, "--propose", PROPOSE, "--sandbox", box, "--give-up-after", "0", "--trials"]
    return Side("labloop", str(bin / "python"), top, lambda count: [*words, str(count)])


# Runs a tool in this process, and writes the seconds of the processor that it and each kind of child took. bwrap does
# not wait for its first process: only a subreaper learns what that took.
_WEIGHED = """
import ctypes, json, os, resource, subprocess, sys, time
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
place, floor_starts, *sys.argv = sys.argv[1:]
spent = {}
def add(name, usage):
    spent[name] = spent.get(name, 0.0) + usage.ru_utime + usage.ru_stime
def try_wait(child, flags):
    pid, status, usage = os.wait4(child.pid, flags)
    if pid:
        is_git = not isinstance(child.args, str) and child.args[0] == "git"
        add(getattr(child, "name", "git, started" if is_git else "programs"), usage)
    return pid, status
subprocess.Popen._try_wait = try_wait
if sys.argv[0] == "goalseek":
    from goalseek import process
    from goalseek.__main__ import main
    from goalseek.sandbox.supervisor import Supervisor
    def named(start, name):
        def start_named(*arguments, **options):
            child = start(*arguments, **options)
            child.name = name
            return child
        return start_named
    process.start_batch = named(process.start_batch, "git, kept open")
    process.start_helper = named(process.start_helper, "reaper")
    def start_alone(launch):
        words = [*launch.arguments]
        words = [*words[: words.index("--") + 1], "true"] if launch.is_cage else ["sh", "-c", "true"]
        asked = [sys.executable, "-I", "-S", "-c", START_ALONE, floor_starts, *words]
        took = subprocess.run(asked, env=launch.environment, stdout=subprocess.PIPE, check=True).stdout
        spent["floor"] = spent.get("floor", 0.0) + float(took)
    def run(programs, launch, *arguments, run=Supervisor.run, **options):
        if floor_starts != "0":
            start_alone(launch)
        result = run(programs, launch, *arguments, **options)
        spent["programs"] = spent.get("programs", 0.0) + result.cpu_seconds
        spent["reaper"] = spent.get("reaper", 0.0) - result.cpu_seconds
        return result
    Supervisor.run = run
else:
    from labloop.cli import main
began, code = time.perf_counter(), 0
try:
    code = main()
except SystemExit as ended:
    code = ended.code
spent["wall"] = time.perf_counter() - began
add("the tool's own process", resource.getrusage(resource.RUSAGE_SELF))
try:
    while True:
        add("programs", os.wait4(-1, 0)[2])
except ChildProcessError:
    pass
add("all", resource.getrusage(resource.RUSAGE_SELF))
add("all", resource.getrusage(resource.RUSAGE_CHILDREN))
with open(place, "w") as file:
    json.dump(spent, file)
sys.exit(code)
"""
# Gives the seconds of the processor that a program took in so many starts, its first process in a sandbox included.
_START_ALONE = """
import ctypes, os, resource, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
for _ in range(int(sys.argv[1])):
    child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
    assert os.waitpid(child, 0)[1] == 0
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime)
"""
_WEIGHED = f"START_ALONE = {_START_ALONE!r}{_WEIGHED}"
PROCESSES = ("the tool's own process", "git, kept open", "git, started", "reaper", "programs", "all", "wall")
Spent = dict[str, float]  # seconds, by PROCESSES


def weigh_climb(side: Side, count: int, floor_starts: int = 0) -> Spent:
    place = side.folder.parent / "spent.json"
    words = [side.python, "-c", _WEIGHED, str(place), str(floor_starts), *side.words(count)]
    ended = subprocess.run(words, cwd=side.folder, capture_output=True, text=True)
    assert ended.returncode == 0, (words, ended)
    return json.loads(place.read_text())


def weigh_in_turn(sides: Sequence[Side], blocks: int, count: int) -> list[Spent]:
    """The median spend of an iteration of each side. ``count`` iterations are a block."""
    for side in sides:
        weigh_climb(side, 1)  # the baseline and its trees are made, and files are in memory
    found: list[list[Spent]] = [[] for _ in sides]
    for _ in range(blocks):
        for side, taken in zip(sides, found, strict=True):
            short, long = weigh_climb(side, 1), weigh_climb(side, 1 + count)
            taken.append({name: (seconds - short[name]) / count for name, seconds in long.items()})
    return [{name: statistics.median(one[name] for one in taken) for name in taken[0]} for taken in found]


class Bounds(NamedTuple):
    """Where and how much to measure; ``labloop`` is the bin folder of its environment."""

    place: Path
    labloop: Path | None
    blocks: int


def sides_of(bounds: Bounds, size: int, sandbox: str = "none") -> list[Side]:
    folder = bounds.place / f"{size}-{sandbox}"
    folder.mkdir()
    sides = [goalseek_side(folder / "goalseek", size, sandbox)]
    if bounds.labloop:
        sides.append(labloop_side(bounds.labloop, folder / "labloop", size, sandbox))
    return sides


def compare_cpu(name: str, spent: Sequence[Spent], wanted: str) -> Row:
    own, *rivals = (one["all"] for one in spent)
    if not rivals:
        return Row(name, ms(own))
    return Row(name, ms(own), f"labloop {ms(rivals[0])}", own / rivals[0], wanted)


def smallest(bounds: Bounds) -> Iterator[Row]:
    """Rows and the second table at 10 files."""
    columns: dict[str, Spent] = {}
    for sandbox, wanted in (("none", "<= 0.9"), ("bubblewrap", "<= 1.5")):
        sides = sides_of(bounds, 10, sandbox)
        spent = weigh_in_turn(sides, bounds.blocks, 20)
        columns |= {f"{side.name}, {sandbox}": one for side, one in zip(sides, spent, strict=True)}
        yield compare_cpu(f"10 files, CPU, {sandbox}", spent, wanted)
        # Both programs of an iteration are started FLOOR_STARTS times alone, where they stand.
        floor = statistics.median(weigh_climb(sides[0], 1, FLOOR_STARTS)["floor"] for _ in range(bounds.blocks))
        floor /= FLOOR_STARTS
        name = "sh -c" if sandbox == "none" else "bwrap ... true"
        others = "".join(f"; labloop {one['all'] / floor:.1f} times" for one in spent[1:])
        yield Row(f"as a multiple of two starts of {name}", ms(floor), others[2:], spent[0]["all"] / floor)
    print_table(("CPU of an iteration at 10 files", *columns), [processes_row(columns, name) for name in PROCESSES])


def processes_row(columns: dict[str, Spent], name: str) -> tuple[str, ...]:
    return (name, *(ms(spent[name]) if name in spent else "" for spent in columns.values()))


def larger(bounds: Bounds, size: int, count: int, wanted: str) -> Iterator[Row]:
    yield compare_cpu(f"{size:,} files, CPU", weigh_in_turn(sides_of(bounds, size), bounds.blocks, count), wanted)


def beside_git(bounds: Bounds, size: int = 50_000) -> Iterator[Row]:
    rounds = 3 * bounds.blocks
    script = commit_files(bounds.place / "script", size, {"value.txt": "0\n"})
    own_folder = goalseek_side(bounds.place / "wall", size).folder
    climb = goalseek.iterate(goalseek.load(own_folder / "goalseek.toml"), iterations=rounds + WARM)
    words = ["sh", "-ec", ROUND, "round", PROPOSE, VERIFY]
    taken: list[tuple[float, float]] = []
    with contextlib.closing(climb):  # type: ignore[type-var]
        next(climb)  # the baseline
        for _ in range(rounds + WARM):
            own = seconds(lambda: next(climb))
            taken.append((own, seconds(lambda: subprocess.run(words, cwd=script, check=True))))
    own, git = (statistics.median(column) for column in zip(*taken[WARM:], strict=True))
    yield Row(f"{size:,} files, wall", ms(own), f"git {ms(git)}", own / git, "<= 0.5")


def calls(bounds: Bounds) -> Iterator[Row]:
    """Counts of a climb of 22 iterations less one of 2."""
    counted = []
    sides = sides_of(bounds, 11)
    for side in sides:
        weigh_climb(side, 1)
        short, long = count_calls(side, 2), count_calls(side, 22)
        counted.append({name: (long[name] - short[name]) / 20 for name in long})
    for name, wanted in (("git processes started", "<= 2"), ("fsyncs", "<= 5"), ("files renamed", "<= 8")):
        own, *rivals = (counts[name] for counts in counted)
        beside = "".join(f"labloop {count:.1f}" for count in rivals)
        yield Row(f"{name} in an iteration", f"{own:.1f}", beside, own, wanted)


def count_calls(side: Side, count: int) -> Counter[str]:
    """Calls that succeeded, in all processes of a climb."""
    main = {"goalseek": "from goalseek.__main__ import main", "labloop": "from labloop.cli import main"}[side.name]
    code = f"import sys; sys.argv = sys.argv[1:]; {main}; sys.exit(main())"
    names = "execve,fsync,fdatasync,rename,renameat,renameat2"
    with tempfile.TemporaryDirectory(dir=side.folder.parent) as place:
        traced = ["strace", "-ff", "-qq", "-o", f"{place}/of", "-e", f"trace={names}", "-e", "signal=none"]
        subprocess.run(
            [*traced, side.python, "-c", code, *side.words(count)], cwd=side.folder, check=True, capture_output=True
        )
        lines = [line for path in Path(place).iterdir() for line in path.read_text(errors="replace").splitlines()]
    done = [line for line in lines if line.endswith("= 0")]
    kinds = {"git processes started": r'execve\("[^"]*/git"', "fsyncs": r"f(data)?sync\(", "files renamed": "rename"}
    return Counter({name: sum(bool(re.match(kind, line)) for line in done) for name, kind in kinds.items()})


def long_climb(bounds: Bounds) -> Iterator[Row]:
    sides = []
    for length in (10, 10_000):
        folder = bounds.place / f"after-{length}"
        folder.mkdir()
        own = goalseek_side(folder / "goalseek", 10)
        weigh_climb(own, 1)
        lengthen(own.folder, length)
        (first,) = own.folder.glob(".goalseek/*/runs/0001")
        for number in range(max(2, length - KEPT_FOLDERS), length):
            shutil.copytree(first, first.with_name(f"{number:04d}"))
        sides.append(own)
        if bounds.labloop:
            rival = labloop_side(bounds.labloop, folder / "labloop", 10)
            weigh_climb(rival, 1)
            ledger = rival.folder / "labloop.jsonl"
            *_, last = ledger.read_text().splitlines()
            rows = ({**json.loads(last), "index": number} for number in range(2, length))
            with ledger.open("a") as file:
                file.writelines(json.dumps(row, sort_keys=True) + "\n" for row in rows)
            sides.append(rival)
    spent = [one["all"] for one in weigh_in_turn(sides, bounds.blocks, 10)]
    early, late = spent[: len(spent) // 2], spent[len(spent) // 2 :]
    beside = "".join(
        f"; labloop {ms(then)} after {ms(at_first)}" for at_first, then in zip(early[1:], late[1:], strict=True)
    )
    own = f"{ms(late[0])} after {ms(early[0])}"
    yield Row("iteration 10,000 beside iteration 10, CPU", own, beside[2:], late[0] / early[0], "<= 1.1")


def second_bench(bounds: Bounds, size: int = 50_000) -> Iterator[Row]:
    # A file system may keep a small file without a block of its own.
    side = goalseek_side(bounds.place / "bench", size, files={"large.txt": "0" * 2**16})
    weigh_climb(side, 1)
    with open_project(goalseek.load(side.folder / "goalseek.toml")) as project:
        config, incumbent = project.config(), project.standing.incumbent
        assert incumbent
        with contextlib.closing(project.add_lane("bench-1", 1)) as lane:
            bench, sees = lane.bench(config.trees, "a"), config.manifest.commands[0].sees or "both"
            began = time.perf_counter()
            tree = bench.sync_to(sees, incumbent.tree)
            elapsed = time.perf_counter() - began
        is_cloned = "files cloned" if shares_blocks(tree / "large.txt") else "files written"
        possible = "" if can_clone(tree) else " (no clones on this file system)"
    yield Row(f"a second bench, {size:,} files, wall", f"{elapsed:.2f} s, {is_cloned}{possible}")


def can_clone(folder: Path) -> bool:
    clone_file = 0x40049409  # FICLONE
    with tempfile.TemporaryFile(dir=folder) as one, tempfile.TemporaryFile(dir=folder) as other:
        one.write(b"\0" * 65536)
        one.flush()
        try:
            fcntl.ioctl(other.fileno(), clone_file, one.fileno())
        except OSError:
            return False
    return True


class _Extents(ctypes.Structure):
    """``struct fiemap`` with room for one extent."""

    _fields_ = (
        ("start", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("mapped", ctypes.c_uint32),
        ("room", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("places", ctypes.c_uint64 * 5),
        ("extent_flags", ctypes.c_uint32),
        ("rest", ctypes.c_uint32 * 3),
    )


def shares_blocks(path: Path) -> bool:
    get_extents, shared, sync = 0xC020660B, 0x2000, 1  # FS_IOC_FIEMAP, FIEMAP_EXTENT_SHARED, FIEMAP_FLAG_SYNC
    asked = _Extents(length=2**64 - 1, flags=sync, room=1)
    with path.open("rb") as file:
        try:
            fcntl.ioctl(file.fileno(), get_extents, asked)
        except OSError:
            return False
    return bool(asked.mapped and asked.extent_flags & shared)


def parallel(bounds: Bounds) -> Iterator[Row]:
    with contextlib.redirect_stdout(sys.stderr):
        decided, _ = sleeping(bounds.place / "parallel", 1, 30.0, sleep=1.0)
    yield Row("decided by four of each beside one of each, asleep", f"{decided:.2f} times", "", decided, ">= 6")


def start(bounds: Bounds) -> Iterator[Row]:
    folder = make_history(bounds.place / "start", 1000)
    commands = {"--help": 30, "status": 80, "log --last 20": 80}
    asked = {name: [sys.executable, "-m", "goalseek", *name.split()] for name in commands}
    asked["python -c pass"] = [sys.executable, "-c", "pass"]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for words in asked.values():
        cost(words, folder)
    taken: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(3 * bounds.blocks):
        for name, words in asked.items():
            taken[name].append(cost(words, folder)[0])
    medians = {name: statistics.median(found) for name, found in taken.items()}
    least = medians["python -c pass"]
    for name, most in commands.items():
        more = medians[name] - least
        yield Row(f"{name}, wall over python -c pass, ms", ms(medians[name]), ms(least), more * 1000, f"<= {most}")


ROWS: dict[str, Callable[[Bounds], Iterator[Row]]] = {
    "10": smallest,
    "2000": lambda bounds: larger(bounds, 2000, 20, "<= 0.8"),
    "20000": lambda bounds: larger(bounds, 20_000, 8, "<= 0.5"),
    "50000": beside_git,
    "calls": calls,
    "long": long_climb,
    "bench": second_bench,
    "parallel": parallel,
    "start": start,
}


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for cells in (head, ["-" * width for width in widths], *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(ROWS), metavar="ROW,...")
    parser.add_argument("--labloop", type=Path, metavar="BIN")
    parser.add_argument("--blocks", type=int, default=5)
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    # A lookup of a program costs a call for each folder before its own.
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys((*map(folder_of, ("git", "sh")), *os.defpath.split(":"))))
    rows = []
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as place:
        os.environ["XDG_CACHE_HOME"] = str(Path(place, "cache"))
        os.environ["HOME"] = place
        for name in options.only.split(","):
            for row in ROWS[name](Bounds(Path(place), options.labloop, options.blocks)):
                print(" | ".join(row.cells()), file=sys.stderr, flush=True)
                rows.append(row.cells())
    print_table(("an iteration", "goalseek", "beside it", "figure", "wanted", ""), rows)


def folder_of(program: str) -> str:
    found = shutil.which(program)
    return str(Path(found).parent) if found else "/usr/bin"


if __name__ == "__main__":
    main()
