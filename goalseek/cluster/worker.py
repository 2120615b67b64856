"""The worker's side: a plugin that measures for drivers, each with a folder of its own on the worker's disk.

A driver sends git objects, hidden files and its pinned verifier over a connection of its own to the worker, never in a
task. It renews its lease all the time; without that, or once the worker ends, the reaper ends the driver's programs and
removes its folder.
"""

import asyncio
import contextlib
import os
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker
from distributed.worker import Worker
from msgspec import Struct, structs
from tornado.ioloop import PeriodicCallback

from goalseek import disk
from goalseek._version import __version__
from goalseek.errors import GoalseekError
from goalseek.git.command import git
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import SUBMODULE
from goalseek.humanize import pluralize
from goalseek.locks import open_lock, try_lock
from goalseek.measurement.host import kind_of_host
from goalseek.measurement.lane import Lane
from goalseek.measurement.measure import MeasurementSpec, add_measurement
from goalseek.measurement.verifier import Verifier
from goalseek.phase_values import Evidence
from goalseek.sandbox.level import Mode, probe
from goalseek.sandbox.supervisor import PROGRAMS_LOCK, Supervisor
from goalseek.workspace.checkout import TreePlan
from goalseek.workspace.places import BenchName, CachePaths, cache_folder

PLUGIN = f"goalseek-{__version__}"
LEASE_SECONDS = 20.0
_LOOK_SECONDS = 1.0
_PAUSE_SECONDS = 0.1
_SENT_BYTES = 64 * 2**20  # of a run folder, to the driver's memory
_FILE_BYTES = 1024  # that each file takes beside its content
_NEW_SECONDS = 60.0  # a folder so young may not have its lock yet
_PRIVATE = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.sharedRepository", "GIT_CONFIG_VALUE_0": "0600"}
Answer = tuple[Evidence, dict[str, bytes]]
"""The evidence with one more run, and the files of its run folder."""
Edits = dict[str, tuple[Entry, bytes] | None]
"""Changed paths, with the content of files; None removes one."""


Pinned = tuple[Verifier, TreePlan, BenchName]
"""What travels of a verifier: the fields in ``LOCAL`` are None until a worker sets its own."""
LOCAL = ("bench", "places", "programs", "on_output", "waiting", "pause", "refuse_changed", "turn")


class WorkerFacts(Struct, frozen=True):
    """``machine`` is the host's kind; ``problem`` says why the worker cannot be used, "" if it can."""

    host: str = ""
    machine: str = ""
    problem: str = ""


class Tenant:
    """What one driver has on this worker."""

    def __init__(self, home: Path, prefix: str, object_format: str, slot: int, refuse: Callable[[], None]) -> None:
        home.mkdir(parents=True, mode=0o700)
        disk.add_own(home)
        self.home = home
        self.places = CachePaths(home, prefix)
        programs = Supervisor(home.name, home / PROGRAMS_LOCK, home=home)
        programs.pulse = refuse
        programs.start()  # from now on the folder goes with this process
        git_dir = home / "objects.git"
        # Two, as one serves one thread: what arrives does not wait for a measurement.
        self.arriving, self._objects = (
            Objects(git_dir, git_dir / "objects", object_format, settings=_PRIVATE) for _ in range(2)
        )
        self.lane = Lane(self.places, self._objects, programs, slot)
        self.turn = threading.Lock()  # of its measurement
        self.verifiers: dict[str, Pinned] = {}
        self.renewed_at = time.monotonic()

    def measure(self, pinned: Pinned, spec: MeasurementSpec, evidence: Evidence) -> Answer:
        folder, (verifier, trees, bench) = self.home / "measured", pinned
        disk.recreate_folder(folder)
        verifier = structs.replace(verifier, bench=self.lane.bench(trees, bench))
        made = add_measurement(verifier, spec, evidence, folder)
        run = structs.replace(made.runs[-1], host=os.uname().nodename)
        files, room, unsent = dict[str, bytes](), _SENT_BYTES, 0
        for path, status in disk.list_files(folder):  # those of the folder itself first
            if (size := status.st_size + _FILE_BYTES) <= room:
                files[path] = disk.read_regular(folder, path)
                room -= size
            else:
                unsent += 1
        if unsent:
            left_out = f"[{pluralize(unsent, 'file')} left on the worker: more than {_SENT_BYTES // 2**20} MiB]\n"
            files["verifier.log"] += left_out.encode()
        return structs.replace(made, runs=(*made.runs[:-1], run), machine=kind_of_host()), files

    def pause(self) -> None:
        self.lane.programs.pulse()
        time.sleep(_PAUSE_SECONDS)

    def adopt(self, content: bytes, keys: Iterable[Path]) -> Pinned:
        verifier, trees, bench = pickle.loads(content)
        if trees.hidden_folder:
            trees = structs.replace(trees, hidden_folder=self.home / "hidden")
        masked = (*verifier.confines.masked, cache_folder(), *keys)  # other drivers' folders too
        own = {"scratch": self.places.scratch, "kept": self.places.cache, "masked": masked}
        verifier = structs.replace(
            verifier,
            confines=structs.replace(verifier.confines, **own),
            places=self.places,
            programs=self.lane.programs,
            slot=self.lane.slot,
            on_output=lambda chunk: None,
            waiting=lambda text: contextlib.nullcontext(),
            pause=self.pause,
            refuse_changed=lambda: None,  # the driver has looked
            turn=lambda role, number, so_far: None,
        )
        return verifier, trees, bench

    def close(self) -> None:
        self.lane.close()
        self.arriving.close()
        self._objects.close()


class MeasuringPlugin(WorkerPlugin):  # type: ignore[misc]
    """Answers drivers, and ends what the scheduler cancels or whose driver is gone; measures one tree at a time."""

    def setup(self, worker: Worker) -> None:
        self._tenants: dict[str, Tenant] = {}
        self._cancelled: set[str] = set()
        self._turn = threading.Lock()
        self._slot: int | None = None
        self._running: tuple[str, str] = ("", "")  # tenant and key
        self.renewed_at = time.monotonic()
        keys = (worker.security.tls_worker_key, worker.security.tls_client_key)
        self._keys = [Path(key).absolute() for key in keys if key and "\n" not in key]  # else it is the key itself
        worker.handlers["goalseek"] = self.answer
        self._looks = PeriodicCallback(self._end_expired, _LOOK_SECONDS * 1000)
        self._looks.start()

    def teardown(self, worker: Worker) -> None:
        self._looks.stop()
        for name in [*self._tenants]:
            self.do_close(name)

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        if start in ("executing", "long-running") and finish in ("cancelled", "resumed"):
            self._cancelled.add(str(key))
        elif finish in ("released", "forgotten"):
            self._cancelled.discard(str(key))

    async def answer(self, comm: Any = None, do: str = "", values: bytes = b"") -> bytes:
        """Calls ``do_open``, say; values and answer are pickled. An exception is raised at the driver."""
        request: Callable[..., Any] = getattr(self, f"do_{do}")
        return pickle.dumps(await asyncio.to_thread(request, **pickle.loads(values)))

    def do_describe(self, tenant: str, mode: Mode, shares: Iterable[str]) -> WorkerFacts:
        problem = ""
        if missing := ", ".join(path for path in shares if not os.path.exists(path)):
            problem = f"it does not have {missing}, which scope.share names: it must be at the same path"
        try:
            probe(mode)
        except GoalseekError as error:
            problem = f"it cannot confine programs by {mode}, as this machine does: {error.message}: {error.hint}"
        return WorkerFacts(os.uname().nodename, kind_of_host(), problem)

    def do_renew(self, tenant: str) -> str:
        """The key of the measurement at work, "" for none. Raises RuntimeError if the lease has expired."""
        if tenant not in self._tenants:
            raise RuntimeError("it was stopped for too long, and has removed what it had")
        self.renewed_at = self._tenants[tenant].renewed_at = time.monotonic()
        return self._running[1]

    def do_open(self, tenant: str, prefix: str, object_format: str, slot: int) -> int:
        """The slot of this worker: that of the first driver, so that no two workers of a host share a card."""
        self._slot = slot if self._slot is None else self._slot
        homes = cache_folder() / "cluster"
        _remove_left(homes)
        home = homes / f"{tenant}-{os.getpid()}"
        self._tenants[tenant] = Tenant(home, prefix, object_format, self._slot, self._refuse_ended)
        return self._slot

    def do_close(self, tenant: str) -> None:
        if known := self._tenants.pop(tenant, None):
            with known.turn:  # another driver's measurement may take hours
                known.close()

    def do_file(self, tenant: str, path: str, parts: bytes, is_first: bool, mode: int, time: int) -> None:
        """Writes a part of a file of the tenant's folder."""
        file = self._tenants[tenant].home / path
        if is_first:
            disk.create(file, mode).close()
        with file.open("ab") as opened:
            opened.write(parts)
        os.utime(file, ns=(time, time))

    def do_tree(self, tenant: str, before: str, tree: str, edits: Edits) -> None:
        objects = self._tenants[tenant].arriving
        for edit in edits.values():
            if edit and edit[0].mode != SUBMODULE:
                objects.write_bytes(edit[1])
        if (made := objects.splice(before, {path: edit and edit[0] for path, edit in edits.items()})) != tree:
            raise RuntimeError(f"the tree {tree} arrived as {made}")

    def do_verifier(self, tenant: str, digest: str, content: bytes) -> None:
        known = self._tenants[tenant]
        known.verifiers[digest] = known.adopt(content, self._keys)

    def measure(self, key: str, tenant: str, digest: str, spec: MeasurementSpec, evidence: Evidence) -> Answer:
        with self._turn:
            self._running = (tenant, key)
            try:
                self._refuse_ended()
                known = self._tenants[tenant]
                with known.turn:
                    self._refuse_ended()
                    return known.measure(known.verifiers[digest], spec, evidence)
            finally:
                self._running = ("", "")

    def _refuse_ended(self) -> None:
        tenant, key = self._running
        if key in self._cancelled or tenant not in self._tenants:
            raise RuntimeError(f"{key} was cancelled, or its driver is gone")

    def _end_expired(self) -> None:
        oldest = time.monotonic() - LEASE_SECONDS
        for name in [name for name, tenant in self._tenants.items() if tenant.renewed_at < oldest]:
            threading.Thread(target=self.do_close, args=(name,)).start()


async def install(dask_worker: Worker) -> None:
    if PLUGIN not in dask_worker.plugins:  # else another driver has, and its tenants stay
        await dask_worker.plugin_add(plugin=MeasuringPlugin(), name=PLUGIN)


def measure(*values: Any) -> Any:
    """The task; see ``MeasuringPlugin.measure``."""
    worker = get_worker()
    return worker.plugins[PLUGIN].measure(str(worker.get_current_task()), *values)


def git_version() -> str:
    """The first two numbers."""
    return b".".join(re.findall(rb"\d+", git("version"))[:2]).decode()


def _remove_left(homes: Path) -> None:
    """Folders of workers that were killed together with their reaper: nobody holds their lock."""
    for home in homes.glob("*"):
        with contextlib.suppress(OSError):
            if time.time() - home.stat().st_mtime > _NEW_SECONDS:
                with disk.closing(open_lock(home / PROGRAMS_LOCK)) as lock:
                    if try_lock(lock):
                        disk.add_own(home)
                        disk.remove_own(home)
