"""Faults of a cluster, each in the middle of a climb, and what must hold after it: nothing lost, doubled, or left.

``FAULTS`` are functions of a folder and a seed, which picks the moment; each gives a line that says what happened.
"""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from clusters import Joined, Sshd, end_processes, environment, left_on_workers
from distributed.security import Security
from needs import AS_ROOT
from project import Project, home, living, until

NAP = 0.4
ITERATIONS = 3
JUDGE = """\
read secret < hidden/secret
echo "$GOALSEEK_ITERATION $GOALSEEK_SEED" >> "$HOME/journal"
if [ -e "$HOME/during" ]; then . "$HOME/during"; fi
total=0
for file in part/*; do total=$((total + $(cat $file))); done
sleep NAP
printf '{"score": %s}\\n' "$totalDIGITS" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
SECRET = "what-nobody-may-find"
NOISE = ("Traceback", "Task was destroyed", "never retrieved", "tornado", "- distributed.", "Exception in", "Warning:")
# A driver that gives up a stopped worker sooner, so that a test need not wait as long as a person may.
PATIENT = ("-m", "goalseek")
IMPATIENT = (
    "-c",
    "from goalseek.__main__ import main; from goalseek.cluster import cluster, members; "
    "cluster._PATIENCE_SECONDS = 3.0; members._END_SECONDS = 3.0; main()",
)


def climb(top: Path, parallel: dict[str, Any], is_noisy: bool = False, **tables: Any) -> Project:
    """Each change is in a file of its own and better than all before."""
    judge = JUDGE.replace("NAP", str(NAP)).replace("DIGITS", '.$(printf %010d "$GOALSEEK_SEED")' if is_noisy else "")
    # One more than there are iterations, as a script without a next move ends the climb by itself.
    moves = [{"title": f"move {n}", "files": {f"part/{n}": f"{10 * n}\n"}} for n in range(1, ITERATIONS + 2)]
    files = {"part/0": "1\n", "hidden/judge.sh": judge, "hidden/secret": f"{SECRET}\n"}
    metric = {"direction": "maximize", "query": "score", "settle": "none", "max_repeats": 4} | (
        {} if is_noisy else {"noise": "none"}
    )
    manifest = {
        "scope": {"writable": ["part/*"], "hidden": ["hidden/**"]},
        "metric": metric,
        "parallel": {"agents": 2, "landings": 9, **parallel},
        "search": {"stack": "none"},
        "limits": {"iterations": ITERATIONS, "stagnation": "none"},
    }
    project = Project.make(top, files, manifest | tables)
    project.set_moves(*moves)
    return project


class Climb:
    """The command at work, which is given the signals and words of a test."""

    def __init__(self, project: Project, program: Sequence[str] = PATIENT) -> None:
        self.project = project
        self.began = time.monotonic()
        self._program = program
        self.start()

    def start(self) -> None:
        self.process = self.project.start("iterate", "--forever", program=self._program)

    def await_measurement(self, number: int, delay: float) -> None:
        """Until measurement ``number`` of all has begun, and a moment more."""
        until(lambda: len(journal()) >= number or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate(timeout=60)
        time.sleep(delay)

    def end(self, code: int = 0, seconds: float = 120.0) -> str:
        """What it said; it must end by itself, with this code, and without a word of Dask's."""
        out, err = self.process.communicate(timeout=seconds)
        assert self.process.returncode == code, (self.process.returncode, out, err)
        assert not [word for word in NOISE if word in err], err
        return err

    def assert_sound(self) -> None:
        """No row is lost or doubled, no measurement either, and each change is kept."""
        project = self.project
        records = project.iterations()
        assert sorted(record["iteration"] for record in records) == [*range(ITERATIONS + 1)]
        measured = {tuple(line.split()) for line in journal()}
        for record in records:
            seeds = [run["seed"] for run in record["runs"]]
            assert record["outcome"] in ("baseline", "kept"), record
            assert len(set(seeds)) == len(seeds) > 0, record
            assert {(str(record["iteration"]), str(seed)) for seed in seeds} <= measured
        project.check("audit")
        assert "missing" not in project.git("fsck", "--strict", "--no-dangling")
        assert not project.git("for-each-ref", "refs/goalseek/demo/flight")


def journal() -> list[str]:
    place = home("journal")
    return place.read_text().splitlines() if place.exists() else []


def assert_nothing_left(*but: int, seconds: float = 40.0) -> None:
    """No process but these, no folder of a driver and no hidden file, once leases have run out."""
    assert not left_on_workers(seconds)
    deadline = time.monotonic() + seconds
    while left := {pid: words for pid, words in living(home()).items() if pid not in but}:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    found = subprocess.run(["grep", "-rlF", SECRET, os.environ["XDG_CACHE_HOME"]], capture_output=True, timeout=60)
    assert not found.stdout, found.stdout


def members() -> dict[int, str]:
    """Schedulers and workers that a driver has started, or a test: process and role."""
    found = {}
    for pid, words in living(home()).items():
        if "goalseek.cluster.member" in words and "ssh " not in words:
            found[pid] = "member"
        elif match := re.search(r"dask (scheduler|worker)", words):
            found[pid] = match[1]
    return found


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(place.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.parent.name))
    found, pending = [], [pid]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def workers_at_work(iteration: int | None = None) -> list[int]:
    """Those below which a judge runs now, of this iteration if one is named."""
    everything, mark = living(home()), b"" if iteration is None else b"\0GOALSEEK_ITERATION=%d\0" % iteration

    def is_judge(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return "judge.sh" in everything.get(pid, "") and mark in Path(f"/proc/{pid}/environ").read_bytes()
        return False

    return [pid for pid in members() if any(map(is_judge, descendants(pid)))]


def scheduler() -> int:
    """The member that started first: below it runs nothing."""
    return min(pid for pid in members() if not descendants(pid))


def kill_worker(folder: Path, seed: int, program: Sequence[str] = PATIENT) -> str:
    """SIGKILL for a worker in the middle of a measurement."""
    chance = random.Random(seed)
    at, delay, is_noisy = chance.randint(1, 5), chance.uniform(0, NAP), chance.random() < 0.5
    project = climb(folder / "climb", {"cluster": "local:2"}, is_noisy)
    run = Climb(project, program)
    run.await_measurement(at, delay)
    (worker, *_) = until(workers_at_work)
    os.kill(worker, signal.SIGKILL)
    said = run.end()
    run.assert_sound()
    assert_nothing_left()
    return f"in measurement {at} after {delay:.2f} s, noisy {is_noisy}: {count_lost(said)}"


def stop_worker(folder: Path, seed: int, program: Sequence[str] = PATIENT) -> str:
    """SIGSTOP for a worker in the middle of a measurement, and SIGCONT after a while."""
    chance = random.Random(seed)
    at, delay, is_noisy = chance.randint(1, 5), chance.uniform(0, NAP), chance.random() < 0.5
    stopped = chance.choice([1, 4, 6] if program is IMPATIENT else [2, 16, 19, 22, 30])
    project = climb(folder / "climb", {"cluster": "local:2"}, is_noisy)
    run = Climb(project, program)
    run.await_measurement(at, delay)
    (worker, *_) = until(workers_at_work)
    os.kill(worker, signal.SIGSTOP)
    time.sleep(stopped)
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, signal.SIGCONT)
    said = run.end()
    run.assert_sound()
    assert_nothing_left()
    return f"in measurement {at} after {delay:.2f} s, for {stopped} s, noisy {is_noisy}: {count_lost(said)}"


def hang_worker(folder: Path, seed: int, program: Sequence[str] = PATIENT) -> str:
    """A worker that does not answer any more, to the end."""
    return strike_once(folder, seed, program, lambda: os.kill(until(workers_at_work)[0], signal.SIGSTOP))


def kill_scheduler(folder: Path, seed: int, program: Sequence[str] = PATIENT) -> str:
    """SIGKILL for the scheduler; its driver starts another one."""
    return strike_once(folder, seed, program, lambda: os.kill(scheduler(), signal.SIGKILL))


def strike_once(folder: Path, seed: int, program: Sequence[str], strike: Callable[[], None]) -> str:
    chance = random.Random(seed)
    at, delay = chance.randint(1, 5), chance.uniform(0, NAP)
    project = climb(folder / "climb", {"cluster": "local:2"}, chance.random() < 0.5)
    run = Climb(project, program)
    run.await_measurement(at, delay)
    strike()
    said = run.end()
    run.assert_sound()
    assert_nothing_left()
    return f"in measurement {at} after {delay:.2f} s: {count_lost(said)}"


def restart_scheduler(folder: Path, seed: int, program: Sequence[str] = PATIENT) -> str:
    """As SLURM or a person does it: the scheduler of a joined cluster is gone for a while, workers come again."""
    chance = random.Random(seed)
    at, delay, gone = chance.randint(1, 5), chance.uniform(0, NAP), chance.choice([0.5, 3, 8])
    with joined("one", "two") as cluster:
        project = climb(folder / "climb", cluster.parallel, chance.random() < 0.5)
        run = Climb(project, program)
        run.await_measurement(at, delay)
        cluster.processes["scheduler"].kill()
        cluster.processes["scheduler"].wait(60)
        time.sleep(gone)
        if gone > 5:
            text = project.check("status")
            assert "no scheduler answers" in text, text
        cluster.start_scheduler()
        for name in ("one", "two"):
            end_processes([cluster.processes.pop(name)])
            cluster.start_worker(name)
        said = run.end()
        run.assert_sound()
        assert_nothing_left(*(process.pid for process in cluster.processes.values()))
    return f"in measurement {at} after {delay:.2f} s, gone for {gone} s: {count_lost(said)}"


def kill_driver(folder: Path, seed: int, program: Sequence[str] = PATIENT) -> str:
    """SIGKILL for the driver, and the same command again."""
    chance = random.Random(seed)
    at, delay, is_joined = chance.randint(1, 5), chance.uniform(0, NAP), chance.random() < 0.5
    with joined("one", "two") if is_joined else contextlib.nullcontext() as cluster:
        project = climb(
            folder / "climb", cluster.parallel if cluster else {"cluster": "local:2"}, chance.random() < 0.5
        )
        run = Climb(project, program)
        run.await_measurement(at, delay)
        run.process.kill()
        run.process.communicate(timeout=60)
        run.start()
        said = run.end()
        run.assert_sound()
        assert_nothing_left(*(process.pid for process in cluster.processes.values()) if cluster else ())
    where = "joined" if is_joined else "local"
    return f"{where}, in measurement {at} after {delay:.2f} s: {count_lost(said)}"


def fill_disk(folder: Path, seed: int, program: Sequence[str] = PATIENT) -> str:
    """The disk of one worker of two fills up in the middle of a measurement."""
    chance = random.Random(seed)
    at, delay = chance.randint(1, 4), chance.uniform(0, NAP)
    disk = home("small")
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size=16m,mode=0755,uid={os.geteuid()}", "tmpfs", str(disk)]
    subprocess.run([*AS_ROOT, *mount], check=True, timeout=60)
    try:
        with joined("one") as cluster:
            cluster.start_worker("small", XDG_CACHE_HOME=str(disk))
            project = climb(folder / "climb", cluster.parallel, chance.random() < 0.5)
            run = Climb(project, program)
            run.await_measurement(at, delay)
            with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(bytes(4096))
            said = run.end()
            run.assert_sound()
            assert_nothing_left(*(process.pid for process in cluster.processes.values()))
            until(lambda: not [*disk.glob("goalseek/cluster/*")])
    finally:
        subprocess.run([*AS_ROOT, "umount", "--lazy", str(disk)], check=True, timeout=60)
    return f"in measurement {at} after {delay:.2f} s: {count_lost(said)}"


def cut_ssh(folder: Path, seed: int, program: Sequence[str] = PATIENT) -> str:
    """A connection to one host of two breaks: by the end of ssh here, or of the session there."""
    chance = random.Random(seed)
    at, delay, is_here = chance.randint(1, 5), chance.uniform(0, NAP), chance.random() < 0.5
    sshd = Sshd("gpu1", "gpu2")
    try:
        parallel = {"cluster": "ssh:gpu1,gpu2", "python": sys.executable}
        project = climb(folder / "climb", parallel, chance.random() < 0.5)
        os.environ["PATH"] = environment()["PATH"]
        run = Climb(project, program)
        run.await_measurement(at, delay)
        words = "/usr/bin/ssh -F" if is_here else "sshd-session: "
        if is_here:
            (victim, *_) = [pid for pid, text in living(home()).items() if words in text]
        else:
            (worker, *_) = until(workers_at_work)
            victim = parent(worker)
        os.kill(victim, signal.SIGKILL)
        said = run.end()
        run.assert_sound()
        assert_nothing_left(sshd.process.pid)
    finally:
        sshd.close()
    return f"{'here' if is_here else 'there'}, in measurement {at} after {delay:.2f} s: {count_lost(said)}"


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wrong_certificate(folder: Path, seed: int, program: Sequence[str] = PATIENT) -> str:
    """In the middle of a climb another authority's certificates are in the manifest's files, then the right ones."""
    chance = random.Random(seed)
    at, delay = chance.randint(1, 5), chance.uniform(0, NAP)
    with joined("one", "two") as cluster:
        project = climb(folder / "climb", cluster.parallel, chance.random() < 0.5)
        run = Climb(project, program)
        run.await_measurement(at, delay)
        run.process.send_signal(signal.SIGINT)
        run.end(130)
        files = [Path(path) for path in cluster.parallel["tls"].values()]
        right = {path: path.read_bytes() for path in files}
        other = Security.temporary()
        for path, text in zip(files, (other.tls_ca_file, other.tls_client_cert, other.tls_client_key), strict=True):
            path.write_text(text)
        if cluster.parallel["tls"]["ca"] == cluster.parallel["tls"]["cert"]:
            files[0].write_text(other.tls_client_cert)
        began = time.monotonic()
        run.start()
        said = run.end(3)
        assert "TLS fails" in said, said
        took = time.monotonic() - began
        for path, content in right.items():
            path.write_bytes(content)
        run.start()
        run.end()
        run.assert_sound()
        assert_nothing_left(*(process.pid for process in cluster.processes.values()))
    return f"after measurement {at} and {delay:.2f} s: refused in {took:.1f} s"


@contextlib.contextmanager
def joined(*names: str) -> Iterator[Joined]:
    cluster = Joined()
    try:
        for name in names:
            cluster.start_worker(name)
        yield cluster
    finally:
        cluster.close()


def count_lost(said: str) -> str:
    return f"{said.count('made again with the same seed')} told as lost, {said.count('is dropped')} dropped"


FAULTS: dict[str, Callable[[Path, int, Sequence[str]], str]] = {
    function.__name__: function
    for function in (
        kill_worker,
        stop_worker,
        hang_worker,
        kill_scheduler,
        restart_scheduler,
        kill_driver,
        fill_disk,
        cut_ssh,
        wrong_certificate,
    )
}
