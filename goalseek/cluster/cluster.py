"""The driver's side: the workers of a cluster, and measurements made on them, each asked until one answers.

Dask's objects live in a thread with an event loop of its own. A measurement is one task, bound to one worker, whose key
names run, iteration, measurement and attempt. Dask may run it twice or lose it: the first evidence counts, an attempt
that a worker lost is asked again with the same seed, and the scheduler may be gone for a while.
"""

import asyncio
import contextlib
import hashlib
import importlib.metadata
import itertools
import json
import logging
import os
import pickle
import ssl
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from distributed import Client
from distributed.client import FutureCancelledError
from distributed.comm.core import FatalCommClosedError
from msgspec import Struct, field, structs

from goalseek import disk
from goalseek._version import __version__
from goalseek.cluster.member import security_of
from goalseek.cluster.members import Members
from goalseek.cluster.worker import LOCAL, Answer, Edits, Pinned, WorkerFacts, git_version, install, measure
from goalseek.errors import GoalseekError
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import SUBMODULE
from goalseek.humanize import format_moment
from goalseek.manifest.tables import Parallel
from goalseek.measurement.lane import Lane
from goalseek.measurement.measure import OUTPUTS, MeasurementSpec, begin_run_folder
from goalseek.measurement.verifier import Verifier
from goalseek.phase_values import Evidence
from goalseek.sandbox.environment import expand_path
from goalseek.sandbox.policy import SandboxPolicy
from goalseek.values import StopReason
from goalseek.workspace.listing import digest_of
from goalseek.workspace.places import BenchName, CachePaths

Result = TypeVar("Result")
_GLANCE_SECONDS = 0.05
_BEAT_SECONDS = 0.5
_PATIENCE_SECONDS = 15.0  # without an answer, a worker is lost: less than its lease
_CONNECT_SECONDS = 5.0
_SEND_SECONDS = 0.001  # between two messages to the scheduler; Dask's ten delay each measurement by four
_OPENING_SECONDS = 60.0
_PART_BYTES = 4 * 2**20
_MOST_TASKS = 2  # of a worker at once
_ATTEMPTS = 4  # the first, and three more
_OF_DRIVER = (StopReason.INCUMBENT_FAILED, StopReason.TAMPERED)  # no fault of the worker's machine
_HINT = "see the workers' own output; goalseek doctor; then run the same command again"
_SILENT = "it does not answer"
_VERSIONS: dict[str, tuple[Callable[..., str], *tuple[str, ...]]] = {
    "goalseek": (importlib.metadata.version, "goalseek"),
    "Python": (sysconfig.get_python_version,),
    "git": (git_version,),
}


class RemoteWorker(Struct, eq=False):
    """A worker as its driver knows it. Unless there is a ``problem``, it can measure.

    ``tasks`` are its measurements, in order: the key of each, and what it is.
    """

    address: str
    name: str
    tenant: str  # what the driver is called there: another name after a loss
    facts: WorkerFacts = WorkerFacts()
    problem: str = ""
    slot: int = 0
    trees: list[str] = field(default_factory=list)  # that it has
    sent: set[str] = field(default_factory=set)  # digests of verifiers and of lists of hidden files
    tasks: dict[str, str] = field(default_factory=dict)
    running: str = ""  # the key of any driver's measurement at work
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # of what is sent

    @property
    def at_work(self) -> str:
        """The key of the measurement that its loss is the fault of, "" for none."""
        return self.running or next(iter(self.tasks), "")

    def forget(self, key: str) -> None:
        self.tasks.pop(key, None)
        self.running = "" if self.running == key else self.running


class Asked(Struct, eq=False):
    """A measurement to be made; ``waits`` says why it is not at work.

    ``machine`` is the kind of host that counts, None for any.
    """

    key: str
    lane: Lane
    pinned: Pinned
    spec: MeasurementSpec
    evidence: Evidence
    machine: str | None
    waits: str = ""
    lost: list[str] = field(default_factory=list)  # what became of each attempt
    avoided: set[str] = field(default_factory=set)  # addresses


class Cluster:
    """The workers of ``parallel.cluster``; ``confines`` is the driver's policy, which a worker must be able to follow.

    ``is_alone``: one measurement at a time on a host. Close it when done. Raises GoalseekError, ``cluster``, if no
    scheduler can be reached, or a worker is unfit.
    """

    def __init__(
        self,
        parallel: Parallel,
        folder: Path,
        places: CachePaths,
        objects: Objects,
        confines: SandboxPolicy,
        is_alone: bool,
        note: Callable[[str], None],
    ) -> None:
        for logger in ("distributed", "distributed.client", "tornado.application"):  # what they say is said here
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        self._parallel = parallel
        self._folder = folder
        self._places = places
        self._tenant = f"{places.owner}-{os.urandom(4).hex()}"
        self._objects = Objects(objects.git_dir, objects.store, objects.object_format)  # its own, for its own thread
        self._reader = ThreadPoolExecutor(1)  # of these objects: the processes of git serve one thread
        self._confines = confines
        self._is_alone = is_alone
        self._note = note
        self._members = Members(parallel) if parallel.cluster.startswith(("local:", "ssh:")) else None
        self._client: Client | None = None
        self._workers: dict[str, RemoteWorker] = {}
        self._worker_of: dict[Lane, RemoteWorker] = {}  # its last one
        self._tasks: set[asyncio.Task[Any]] = set()
        self._numbers = itertools.count()
        self._problem = ""
        self._notes = deque[str]()
        self._machine: str | None = None  # that was asked for last
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: None)  # of what tornado leaves after a cancelled wait
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster", daemon=True)
        self._thread.start()
        opening = asyncio.run_coroutine_threadsafe(self._open(), self._loop)
        try:
            opening.result()
        except BaseException:
            opening.cancel()
            self.close()
            raise

    @property
    def count(self) -> int:
        """Of the workers that can measure, at least one."""
        return max(len(self._hosts), 1)

    @property
    def most_on_a_host(self) -> int:
        return max(map(self._hosts.count, self._hosts), default=1)

    @property
    def _hosts(self) -> list[str]:
        return [worker.facts.host for worker in [*self._workers.values()] if not self._why_idle(worker, None)]

    @property
    def lines(self) -> tuple[str, ...]:
        """One for each worker; first what is wrong with the cluster, if anything is."""
        workers = {worker.name: self._line(worker) for worker in [*self._workers.values()]}
        lost = [one for one in self._members.workers if one.name not in workers] if self._members else []
        texts = [one.failure.message if one.failure else f"{one.name}: {_SILENT}" for one in lost]
        return (*filter(None, [self._problem]), *texts, *sorted(workers.values()))

    def _line(self, worker: RemoteWorker) -> str:
        at_work = worker.tasks.get(worker.at_work) or ("busy for another climb" if worker.at_work else "")
        return f"{worker.name}: {worker.problem or at_work or self._why_idle(worker, self._machine) or 'idle'}"

    def _why_idle(self, worker: RemoteWorker, machine: str | None) -> str:
        """Why it is not asked; "" if it can be."""
        if worker.problem or machine not in (None, worker.facts.machine):
            return worker.problem or f"not of the baseline's kind of machine: {worker.facts.machine}"
        workers = [*self._workers.values()]
        of_host = [one for one in workers if not one.problem and one.facts.host == worker.facts.host]
        if self._is_alone and any(one.slot < worker.slot for one in of_host):
            return "idle: its host has another worker, and times are measured one at a time"
        return ""

    def measure(
        self,
        verifier: Verifier,
        lane: Lane,
        spec: MeasurementSpec,
        evidence: Evidence,
        run_folder: Path,
        run_id: str,
        machine: str | None,
    ) -> Evidence:
        """As ``add_measurement``, on a worker; no evidence at all if a comparison has to begin again on another host.

        Raises GoalseekError, ``cluster``, if four workers in turn were lost or failed.
        """
        number, self._machine = len(evidence.runs) + 1, machine
        verifier.turn(spec.role or spec.side, number, spec.so_far)
        verifier.refuse_changed()
        confines = structs.replace(verifier.confines, _required={}, _views={})
        pinned = structs.replace(verifier, confines=confines, **dict.fromkeys(LOCAL))
        key = f"goalseek-{run_id}-{spec.iteration}-{number}-{spec.seed}"
        bench: BenchName = "a" if verifier.bench.folder == verifier.places.bench("a") else "b"
        asked = Asked(key, lane, (pinned, verifier.bench.plan, bench), spec, evidence, machine)
        answer = asyncio.run_coroutine_threadsafe(self._measure(asked), self._loop)
        try:
            while not answer.done():
                shown = asked.waits
                with verifier.waiting(shown) if shown else contextlib.nullcontext():
                    while not answer.done() and asked.waits == shown:
                        verifier.pause(wait=partial(futures.wait, [answer]))
                        self._tell()
        finally:
            answer.cancel()
        self._tell()
        if (made := answer.result()) is None:
            return Evidence()
        verifier.refuse_changed()
        _write_files(run_folder, made[1], number, verifier.on_output)
        return made[0]

    def _tell(self) -> None:
        while self._notes:
            self._note(self._notes.popleft())

    def close(self) -> None:
        leaving = asyncio.run_coroutine_threadsafe(self._leave(), self._loop)
        with contextlib.suppress(TimeoutError):
            leaving.result(_PATIENCE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._members:
            self._members.close()
        self._reader.shutdown()
        self._objects.close()

    async def _open(self) -> None:
        deadline = time.monotonic() + _OPENING_SECONDS
        expected = len(self._members.workers) if self._members else 0
        while True:
            await self._look()
            problems = [worker.problem for worker in self._workers.values()]
            if not self._problem and len(problems) >= expected and _SILENT not in problems:
                break
            failure, is_late = self._members and self._members.failure, time.monotonic() > deadline
            if is_late and not failure and "" in problems:
                break  # one is stopped, say
            if failure or is_late or (self._problem and not self._members):
                why = self._problem or f"{len(problems) - problems.count(_SILENT)} of {expected} workers answer"
                failure = failure or GoalseekError(why, "goalseek help cluster")
                raise GoalseekError(f"parallel.cluster: {failure.message}", failure.hint or _HINT, StopReason.CLUSTER)
            await asyncio.sleep(_GLANCE_SECONDS)
        if unfit := [self._line(worker) for worker in self._workers.values() if worker.problem not in ("", _SILENT)]:
            message, hint = "parallel.cluster: " + "\n".join(unfit), "make them alike, or leave them out"
            raise GoalseekError(message, f"{hint}: goalseek help cluster", StopReason.CLUSTER)
        self._start(self._keep())

    def _start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(_BEAT_SECONDS)

    async def _look(self) -> None:
        """Connects if it is not connected, and meets new workers. What is wrong is in ``_problem`` then."""
        try:
            if self._members:
                await asyncio.to_thread(self._members.keep)
            if self._client is None or self._client.status != "running":
                await self._connect()
            assert self._client
            known = await asyncio.wait_for(self._client.scheduler.ncores(), _PATIENCE_SECONDS)
            self._problem = ""
        except Exception as error:  # of a file, of a connection, or of Dask
            self._problem = self._words(error)
            known = {}
        for address in self._workers.keys() - known.keys():
            worker = self._workers.pop(address)
            worker.problem = self._problem or "it has left the cluster"
            if self._problem:
                worker.running, worker.tasks = "", {}  # which the loss of the scheduler is not the fault of
        for address in known.keys() - self._workers.keys():
            tenant = f"{self._tenant}-{next(self._numbers)}"
            worker = self._workers[address] = RemoteWorker(address, address, tenant, problem=_SILENT)
            self._start(self._attend(worker))

    def _words(self, error: Exception) -> str:
        cause = error.__cause__ or error
        if isinstance(cause, ssl.SSLError) or isinstance(error, FatalCommClosedError):
            return f"{self._parallel.cluster}: TLS fails, its certificates are not those of [parallel.tls]: {cause}"
        if isinstance(error, OSError) and error.filename:
            return f"{error.filename}: {error.strerror}"
        return f"no scheduler answers, {self._parallel.cluster}: {error or 'no answer'}"

    @property
    def _address(self) -> str:
        """Raises OSError or ValueError if the scheduler's file cannot be read, or has no TLS address."""
        kind, _, path = self._parallel.cluster.partition(":")
        if self._members:
            return self._members.address
        if kind == "tls":
            return self._parallel.cluster
        try:
            address = str(json.loads(expand_path("parallel.cluster", path, self._folder).read_bytes())["address"])
        except (ValueError, LookupError, TypeError):
            raise ValueError(f"{path} is no scheduler file of Dask") from None
        if not address.startswith("tls://"):
            raise ValueError(f"{path} names {address}: only tls:// is safe from whoever reaches its port")
        return address

    async def _connect(self) -> None:
        if self._client:
            await self._client.close(timeout=0)
            self._client = None
        if tls := self._parallel.tls:
            files = [expand_path("parallel.tls", path, self._folder) for path in (tls.ca, tls.cert, tls.key)]
            security = security_of(*(file.read_text() for file in files))
        elif self._members:
            security = self._members.security
        options = {"asynchronous": True, "direct_to_workers": True, "set_as_default": False, "name": "goalseek"}
        client = Client(self._address, security=security, timeout=_CONNECT_SECONDS, **options)
        try:
            await client
        except BaseException:
            await client.close(timeout=0)
            raise
        client.scheduler_comm.interval = _SEND_SECONDS
        self._client = client

    async def _attend(self, worker: RemoteWorker) -> None:
        """Meets a worker, then renews the lease there until it is gone."""
        try:
            unfit = await asyncio.wait_for(self._meet(worker), _OPENING_SECONDS)
        except Exception as error:
            fault = disk.machine_error(error)
            unfit = fault.message if fault else ""  # else it is met again
        if unfit:
            worker.problem = unfit
            self._notes.append(f"a worker of the cluster is not used: {self._line(worker)}")
            return
        try:
            while not worker.problem:
                worker.running = await asyncio.wait_for(self._ask(worker, "renew"), _PATIENCE_SECONDS)
                await asyncio.sleep(_BEAT_SECONDS)
        except Exception as error:  # Dask has many; what remains wrong is seen at the next look
            worker.problem = worker.problem or ("" if isinstance(error, OSError) else str(error)) or _SILENT
        if self._workers.get(worker.address) is worker:
            del self._workers[worker.address]

    async def _meet(self, worker: RemoteWorker) -> str:
        """Why it cannot be used; "" if it can."""
        client, here = self._client, [worker.address]
        assert client
        identity = await client.scheduler.identity(n_workers=-1)
        worker.name = str(identity["workers"].get(worker.address, {}).get("name", worker.address))
        for name, (ask, *words) in _VERSIONS.items():
            own = __version__ if name == "goalseek" else ask(*words)
            try:
                theirs = f"{name} {(await client.run(ask, *words, workers=here))[worker.address]}"
            except ImportError:
                theirs = f"no {name}"
            if theirs != f"{name} {own}":
                return f"it has {theirs}, this machine has {own}"
        await client.run(install, workers=here)  # a client's own way waits for all workers, stopped ones too
        policy = self._confines
        shares = tuple(map(str, policy.shared))
        facts: WorkerFacts = await self._ask(worker, "describe", mode=policy.level.name, shares=shares)
        if facts.problem:
            return facts.problem
        taken = {other.slot for other in self._workers.values() if other.facts.host == facts.host}
        worker.slot = next(number for number in itertools.count() if number not in taken)
        worker.facts = facts  # before the next await: several of a host are met at once
        values = {"prefix": self._places.prefix, "object_format": self._objects.object_format, "slot": worker.slot}
        worker.slot = await self._ask(worker, "open", **values)
        worker.problem = ""
        return ""

    async def _ask(self, worker: RemoteWorker, do: str, **values: Any) -> Any:
        """Over a connection to the worker itself, which no scheduler reads."""
        assert self._client
        values_of = pickle.dumps({"tenant": worker.tenant, **values})
        return pickle.loads(await self._client.rpc(worker.address).goalseek(do=do, values=values_of))

    async def _measure(self, asked: Asked) -> Answer | None:
        """None if the comparison has to begin again on another host."""
        attempts: dict[asyncio.Task[Answer | Exception], RemoteWorker] = {}  # without an end
        runs, role = asked.evidence.runs, asked.spec.role or asked.spec.side
        is_answered = False
        try:
            for number in itertools.count(1):
                worker = await self._place(asked)
                if runs and runs[-1].host != worker.facts.host and not asked.pinned[0].manifest.metric.portable:
                    break
                key = f"{asked.key}-{number}-{self._tenant[-8:]}"
                what = f"iteration {asked.spec.iteration}, run {len(runs) + 1}, the {role}"
                worker.tasks[key] = f"{what}, since {format_moment()}"
                last = self._start(self._attempt(worker, asked, key))
                attempts[last] = worker
                while not (last.done() or worker.problem):
                    await asyncio.wait(attempts, timeout=_BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    for task in [task for task in attempts if task.done()]:
                        del attempts[task]
                        if not isinstance(made := task.result(), Exception):
                            is_answered = True
                            return made
                self._note_lost(asked, worker, key, last.result() if last.done() else None)
            return None
        finally:
            for task, worker in attempts.items():
                known = self._workers.get(worker.address)  # None, or one that is stopped: it will not answer
                if is_answered and known and not known.problem:
                    self._notes.append(f"{asked.key} has its answer: a second one, of {worker.name}, is dropped")
                task.cancel()

    async def _attempt(self, worker: RemoteWorker, asked: Asked, key: str) -> Answer | Exception:
        try:
            digest = await self._supply(worker, asked)
            assert self._client
            values = (worker.tenant, digest, asked.spec, asked.evidence)
            bound = {"workers": [worker.address], "pure": False, "retries": 0}
            future = self._client.submit(measure, *values, key=key, **bound)
            try:
                answer: Answer = await future.result()
                return answer
            finally:
                future.release()
        except Exception as error:
            await asyncio.sleep(2 * _BEAT_SECONDS)  # until it is known whether the worker is lost
            return error
        finally:
            if not worker.problem:  # else it says what was at work
                worker.forget(key)

    def _note_lost(self, asked: Asked, worker: RemoteWorker, key: str, error: Answer | Exception | None) -> None:
        """Raises an error that is no fault of the machine, or GoalseekError if this measurement was lost too often."""
        if isinstance(error, GoalseekError) and error.stop_reason in _OF_DRIVER:
            raise error
        asked.avoided.add(worker.address)
        is_of_another = worker.problem and worker.at_work != key  # or the scheduler's
        if is_of_another or self._problem or type(error) is FutureCancelledError:
            return
        asked.lost.append(f"{worker.name}: {worker.problem or error or type(error).__name__}")
        if len(asked.lost) == _ATTEMPTS:
            message = f"{asked.key} was lost {_ATTEMPTS} times: {'; '.join(asked.lost)}"
            raise GoalseekError(message, _HINT, StopReason.CLUSTER)
        self._notes.append(f"{asked.key} was lost, and is made again with the same seed: {asked.lost[-1]}")

    async def _place(self, asked: Asked) -> RemoteWorker:
        """The lane's worker, or another one; waits for one that can measure this."""
        lane, runs = asked.lane, asked.evidence.runs

        def cost(worker: RemoteWorker) -> tuple[bool, bool, bool, int, bool]:
            is_new = self._worker_of.get(lane) is not worker
            others = sum(other is worker and one.is_held for one, other in self._worker_of.items() if one is not lane)
            is_other_host = bool(runs) and runs[-1].host != worker.facts.host
            return worker.address in asked.avoided, is_other_host, bool(runs) and is_new, others, is_new

        while True:
            fit = [worker for worker in self._workers.values() if not self._why_idle(worker, None)]
            usable = [worker for worker in fit if not self._why_idle(worker, asked.machine)]
            why = self._problem or "no worker of the cluster is there"
            if usable and self._client and self._client.status == "running":
                best = min(usable, key=cost)
                if len(best.tasks) < _MOST_TASKS:  # else others have left
                    self._worker_of[lane], asked.waits = best, ""
                    return best
                why = f"each worker has {_MOST_TASKS} measurements"
            elif fit and not usable:
                why = f"no worker is of the baseline's kind of machine, {asked.machine}"
                why += ": goalseek baseline measures it on another, metric.portable = true compares the numbers"
            asked.waits = f"waits for the cluster: {why}"
            await asyncio.sleep(_GLANCE_SECONDS)

    async def _supply(self, worker: RemoteWorker, asked: Asked) -> str:
        """Send what the worker lacks: trees, hidden files, the pinned verifier, whose digest it gives."""
        content, (verifier, trees, _) = pickle.dumps(asked.pinned), asked.pinned
        digest, of_hidden = hashlib.sha256(content).hexdigest(), digest_of(trees.hidden_from)
        async with worker.turn:
            for tree in (verifier.baseline_tree, asked.spec.tree):
                if tree in worker.trees:
                    continue
                if worker.trees:
                    before = worker.trees[-1]
                    edits = await self._loop.run_in_executor(self._reader, self._edits, before, tree)
                    await self._ask(worker, "tree", before=before, tree=tree, edits=edits)
                else:
                    with self._objects.scratch_file("sent") as folder:
                        for file in await self._loop.run_in_executor(self._reader, self._pack, tree, folder):
                            await self._send(worker, file, f"objects.git/objects/pack/{file.name}", 0o400)
                worker.trees.append(tree)
            if trees.hidden_folder and of_hidden not in worker.sent:
                for item in trees.hidden_from:
                    mode = 0o700 if item.kind == "program" else 0o600
                    await self._send(worker, trees.hidden_folder / item.path, f"hidden/{item.path}", mode)
            if digest not in worker.sent:
                await self._ask(worker, "verifier", digest=digest, content=content)
            worker.sent |= {digest, of_hidden}
        return digest

    async def _send(self, worker: RemoteWorker, file: Path, path: str, mode: int) -> None:
        with disk.open_regular(file.parent, file.name, is_ours=False) as opened:
            facts = {"path": path, "mode": mode, "time": os.fstat(opened.fileno()).st_mtime_ns}
            parts = opened.read(_PART_BYTES)
            await self._ask(worker, "file", parts=parts, is_first=True, **facts)
            while parts := opened.read(_PART_BYTES):
                await self._ask(worker, "file", parts=parts, is_first=False, **facts)

    def _pack(self, tree: str, folder: Path) -> list[Path]:
        """All objects of a tree; the index last, as git looks for that."""
        folder.mkdir()
        self._objects.git("pack-objects", "--revs", "-q", str(folder / "sent"), stdin=f"{tree}\n".encode())
        return sorted(folder.iterdir(), reverse=True)

    def _edits(self, before: str, tree: str) -> Edits:
        def edit(after: Entry) -> tuple[Entry, bytes]:
            return after, b"" if after.mode == SUBMODULE else self._objects.read(after.blob)

        return {one.path: edit(one.after) if one.after else None for one in self._objects.differences(before, tree)}

    async def _leave(self) -> None:
        for task in (leaving := [*self._tasks]):
            task.cancel()
        await asyncio.wait(leaving, timeout=_BEAT_SECONDS) if leaving else None
        if self._client and self._client.status == "running":
            closing = (self._ask(worker, "close") for worker in self._workers.values() if not worker.problem)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), _PATIENCE_SECONDS / 2)
        if self._client:
            await self._client.close(timeout=0)


def _write_files(folder: Path, files: dict[str, bytes], number: int, on_output: Callable[[bytes], None]) -> None:
    """As ``add_measurement`` has written them on the worker."""
    begin_run_folder(folder, number)
    printed = files.pop("verifier.log", b"")
    with (folder / "verifier.log").open("ab") as log:
        log.write(printed)
    on_output(printed)
    if any(path.startswith(f"{OUTPUTS}/") for path in files):
        disk.remove_if_exists(folder / OUTPUTS)
    for path, content in files.items():
        disk.split_path(path)  # raises if it leads elsewhere
        with disk.create(folder / path, 0o666) as file:
            file.write(content)
