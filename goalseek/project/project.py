"""The open project: repository, ledger, provider, programs and trees, and the configuration of each iteration."""

from __future__ import annotations

import contextlib
import copy
import os
import time
import typing
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from goalseek.errors import GoalseekError
from goalseek.git.location import other_folders
from goalseek.git.repository import Repository
from goalseek.humanize import format_moment, format_number
from goalseek.ledger.ledger import Ledger
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.locks import Baton
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import Manifest, ProviderTable
from goalseek.measurement.host import kind_of_host
from goalseek.measurement.lane import Lane
from goalseek.measurement.measure import MeasurementSpec, add_measurement
from goalseek.measurement.ruler import HeadDifferences, differences_of_head
from goalseek.measurement.verifier import Verifier
from goalseek.phase_values import Evidence
from goalseek.project.activity import Activity, Observer
from goalseek.project.config import Config, ConfigReader
from goalseek.project.picture import ACTIVE_STATUSES, Picture
from goalseek.providers.fallback import ProviderChain
from goalseek.providers.registry import ProviderChoice
from goalseek.records import IterationRecord
from goalseek.sandbox.policy import SandboxPolicy, policy_for
from goalseek.sandbox.supervisor import PROGRAMS_LOCK, Supervisor
from goalseek.values import Outcome, Stop, StopReason, to_plain
from goalseek.workspace import hidden_files
from goalseek.workspace.places import BenchName, CachePaths
from goalseek.workspace.workspace import AgentCommit, Workspace

if typing.TYPE_CHECKING:
    from goalseek.cluster.cluster import Cluster

PAUSE_SECONDS = 0.1


class Project:
    """The open repository, ledger and trees of one project, under its lock. ``open_project`` makes it."""

    def __init__(
        self,
        loaded: ManifestFile,
        repository: Repository,
        places: CachePaths,
        watch: Observer,
        table: ProviderTable | None,
    ) -> None:
        self.repository = repository
        self.watch = watch
        self.ledger = Ledger(repository, loaded.results)
        self.config_reader = ConfigReader(loaded, self.ledger, places.prefix, table)
        self.folder = self.config_reader.folder  # the manifest's; the repository's top if that is outside of it
        self.activity = Activity(loaded.state, watch)
        self.run_id = self.standing.run_id
        self.began = ""
        self.is_committed_only = False  # uncommitted changes of ruler files do not prevent a baseline
        self.is_by_timetable = False  # cron, for example, begins one invocation after another
        self.stop: Stop | None = None
        self.ends_at: float | None = None  # on time.monotonic
        self.baton: Baton | None = None  # set if several threads work on it
        self.login_holders: defaultdict[str, list[int]] = defaultdict(list)  # iterations by the path of a login file
        self._provider = ProviderChoice(table)
        self._parallel = loaded.manifest.parallel  # of the cluster: a change of it is for the next command
        self._clusters: list[Cluster] = []  # none or one, opened by the first that asks
        self.inodes = {path: path.stat().st_ino for path in (repository.own, loaded.logs) if path.exists()}
        self.pulse: Callable[[], None] = lambda: None  # every wait calls it
        # Last: it holds a lock, which nobody would let go if another of these raised after it.
        programs = Supervisor(places.owner, repository.own / PROGRAMS_LOCK)
        self.lane = Lane(places, repository.objects, programs)
        self.enter(self.lane)

    @property
    def loaded(self) -> ManifestFile:
        return self.config_reader.loaded

    @property
    def standing(self) -> Standing:
        return self.ledger.standing

    @property
    def places(self) -> CachePaths:
        return self.lane.places

    @property
    def programs(self) -> Supervisor:
        return self.lane.programs

    @property
    def confines(self) -> SandboxPolicy:
        """The sandbox policy of the programs. Raises GoalseekError if a demanded level is not available."""
        if self.lane.policy is None or self.lane.policy[0] is not self.loaded:
            policy = policy_for(self.loaded, self.repository.location, self.folder, self.places)
            self.lane.policy = (self.loaded, policy)
        return self.lane.policy[1]

    @contextlib.contextmanager
    def using_policy(self, policy: SandboxPolicy) -> Iterator[None]:
        """In this block programs run under this policy, in trees of its own."""
        previous = (self.loaded, self.confines)
        self.lane.policy = (self.loaded, policy)
        try:
            yield
        finally:
            self.lane.policy = previous

    def beside(self, pulse: Callable[[], None], iteration: int | None = None) -> Project:
        """This project for another thread, with phases and waits of its own. An exception of ``pulse`` ends a wait."""
        other = copy.copy(self)
        other.watch = self.watch if iteration is None else self.watch.of(iteration)
        other.activity = self.activity.beside(other.watch)
        other.pulse = pulse
        return other

    def enter(self, lane: Lane) -> None:
        """Work in the trees of this lane from now on. Its programs see no other checkout that exists by now."""
        self.lane = lane
        self._hide_new_checkouts()
        lane.announce = self.activity.making_tree
        lane.programs.pulse = self.beat

    def add_lane(self, name: str, slot: int = 0) -> Lane:
        """A lane in a folder of this name in the cache. The caller closes it."""
        return Lane(self.places.beside(name), self.repository.objects, self.make_programs(), slot)

    def make_programs(self) -> Supervisor:
        """A supervisor of programs beside those of others. The caller closes it."""
        programs = self.lane.programs.beside(self._let_go)
        programs.pulse = self.pulse
        return programs

    @property
    def cluster(self) -> Cluster | None:
        """None if this machine's benches measure. Raises GoalseekError, ``cluster``, if it cannot be used."""
        parallel = self._parallel
        if not self._clusters and parallel.cluster != "none":
            try:
                from goalseek.cluster.cluster import Cluster
            except ImportError:
                message = f'parallel.cluster = "{parallel.cluster}": the distributed package is not installed'
                raise GoalseekError(message, "run: pip install 'goalseek[cluster]'", StopReason.CLUSTER) from None
            with self._let_go():
                is_alone = self.loaded.manifest.one_bench_reason != ""
                objects, note = self.repository.objects, self.watch.on_note
                cluster = Cluster(parallel, self.folder, self.places, objects, self.confines, is_alone, note)
            self._clusters.append(cluster)
        return self._clusters[0] if self._clusters else None

    def beat(self) -> None:
        """Every wait calls it about twenty times a second."""
        activity = self.activity
        if self._clusters and activity.is_shown and activity.picture.workers != (lines := self._clusters[0].lines):
            activity.show(structs.replace(activity.picture, workers=lines))
        activity.beat()
        self.pulse()

    def pause(self, seconds: float = PAUSE_SECONDS, wait: Callable[[float], object] | None = None) -> None:
        self.beat()
        with self._let_go():  # other threads of the climb work meanwhile
            (wait or time.sleep)(seconds)

    def _let_go(self) -> AbstractContextManager[None]:
        return self.baton.let_go() if self.baton else contextlib.nullcontext()

    def run_folder(self, number: int) -> Path:
        return self.loaded.runs / f"{number:04d}"

    def record_head(self, kind: str, epoch: int) -> dict[str, Any]:
        names = {"project": self.repository.name, "run_id": self.run_id}
        return {"seq": 0, "kind": kind, **names, "epoch": epoch, "timestamp": self.ledger.now()}

    def close(self) -> None:
        with contextlib.ExitStack() as callbacks:
            callbacks.callback(self.repository.close)
            callbacks.callback(self.lane.close)
            callbacks.callback(self.activity.close)
            for cluster in self._clusters:
                callbacks.callback(cluster.close)

    def config(self, trees: tuple[str, str] | None = None) -> Config:
        """``trees``: see ``ConfigReader.read_pinned``."""
        notes = self.config_reader.reload()
        self._hide_new_checkouts()
        return self.config_reader.read_pinned(self.confines.mounts, notes, trees)

    def _hide_new_checkouts(self) -> None:
        if self.lane.policy:
            loaded, policy = self.lane.policy
            if (folders := other_folders(self.repository.location)) != policy.elsewhere:
                self.lane.policy = (loaded, structs.replace(policy, elsewhere=folders))

    def config_of(self, manifest: Manifest, changed_paths: frozenset[str] = frozenset()) -> Config:
        """The configuration by a manifest, whatever is pinned; ``changed_paths`` are candidates'."""
        return self.config_reader.read(manifest, self.confines.mounts, changed_paths=changed_paths)

    def config_for_baseline(self) -> Config:
        """The configuration by the manifest, read afresh, whatever is pinned."""
        self.config_reader.reload_strictly()
        return self.config_of(self.loaded.manifest)

    def differences_from_head(self) -> HeadDifferences:
        baseline = self.standing.baseline
        return differences_of_head(self.loaded, self.repository.location, baseline.commit if baseline else "")

    def provider(self) -> ProviderChain:
        """The provider of the command line, or else of the manifest. Raises GoalseekError if none can start."""
        return self._provider.build(self.loaded)

    def has_provider(self) -> bool:
        return (self._provider.asked or self.loaded.manifest.provider) is not None

    def provider_table(self) -> ProviderTable:
        return self._provider.table(self.loaded)

    def workspace(self, config: Config, standing: Standing | None = None) -> Workspace:
        workspace = self.lane.workspace(config.trees)
        workspace.sync_to(lambda label: agent_history(self.ledger.history, standing or self.standing, label))
        return workspace

    def verifier(
        self, config: Config, ruler: str, baseline_tree: str, seconds: dict[str, float], name: BenchName = "a"
    ) -> Verifier:
        return Verifier(
            config.manifest,
            self.lane.bench(config.trees, name),
            self.places,
            self.programs,
            self.confines,
            ruler,
            baseline_tree,
            seconds,
            on_output=self.watch.on_output,
            turn=self.activity.show_turn,
            waiting=self.activity.waiting,
            pause=self.pause,
            slot=self.lane.slot,
            refuse_changed=partial(hidden_files.refuse_changed, config.trees),
        )

    def measure(self, verifier: Verifier, spec: MeasurementSpec, evidence: Evidence, folder: Path) -> Evidence:
        """The evidence with one more run, made here or on a worker of the cluster; see ``Cluster.measure``.

        Raises GoalseekError if the baseline was measured on another kind of machine.
        """
        cluster, machine, is_portable = self.cluster, self.standing.machine, verifier.manifest.metric.portable
        if spec.role == Outcome.BASELINE or is_portable:
            machine = None
        elif cluster and self.standing.baseline:
            machine = machine or kind_of_host()
        if cluster:
            return cluster.measure(verifier, self.lane, spec, evidence, folder, self.run_id, machine)
        if machine not in (None, kind_of_host()):
            message = f"the baseline was measured on another kind of machine: {machine}; this one: {kind_of_host()}"
            hint = "goalseek baseline measures it here; or set metric.portable = true"
            raise GoalseekError(message, hint, StopReason.CLUSTER)
        if evidence.runs and evidence.runs[-1].host not in (None, os.uname().nodename) and not is_portable:
            return Evidence()  # a comparison that a worker began on another host begins again
        return add_measurement(verifier, spec, evidence, folder)

    def show(self, status: str, iteration: int | None, phase: str | None, **fields: Any) -> None:
        now, standing = format_moment(), self.standing
        picture = Picture(
            status,
            self.run_id,
            self.activity.started_at,
            iteration,
            phase,
            phase_started_at=now if phase else None,
            ended_at=None if status in ACTIVE_STATUSES else now,
            pid=os.getpid(),
            host=os.uname().nodename,
            best=_commit_row(standing.best),
            incumbent=_commit_row(standing.incumbent),
            spend=to_plain(standing.spend),
            limits=to_plain(self.loaded.manifest.limits),
            workers=self._clusters[0].lines if self._clusters and status in ACTIVE_STATUSES else (),
            **fields,
        )
        if picture != self.activity.picture:
            self.activity.show(picture)


def agent_history(history: History, standing: Standing, label: str) -> list[AgentCommit]:
    """Commits for the changes of this epoch kept after record number ``label``, oldest first."""
    assert standing.incumbent
    if label == str(standing.incumbent.seq):
        return []
    records: list[IterationRecord] = []
    for record in history.newest_iterations():
        if record.seq > standing.seq or record.epoch != standing.epoch:
            continue
        if record.outcome in (Outcome.KEPT, Outcome.BASELINE):
            records.append(record)
        if record.outcome == Outcome.BASELINE or str(record.seq) == label:
            break
    commits = []
    previous = ""
    for record in reversed(records):
        metric = record.metric
        assert record.tree_hash and metric.value is not None
        value = format_number(metric.value, metric.unit)
        if str(record.seq) != label:
            title = record.hypothesis_summary or f"Baseline of {record.project}"
            message = f"{title}\n\n{metric.name}: {value}{previous}\n"
            moment = int(datetime.fromisoformat(record.timestamp).timestamp())
            commits.append(AgentCommit(str(record.seq), record.tree_hash, message, moment))
        # The recorded value, which the commit before shows: the median that decided is a second one for the same code.
        previous = f" (was {value})"
    return commits


def _commit_row(commit: MeasuredCommit | None) -> dict[str, Any] | None:
    return {"iteration": commit.iteration, "value": commit.value, "commit": commit.commit} if commit else None
