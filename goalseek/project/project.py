"""The open project: repository, ledger, provider, programs and trees, and the configuration of each iteration."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.git.location import other_folders
from goalseek.git.repository import Repository
from goalseek.ledger.checkpoints import PhaseSeconds
from goalseek.ledger.ledger import Ledger
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.seal import Seal
from goalseek.ledger.standing import Standing
from goalseek.ledger.tree_index import TreeIndex
from goalseek.manifest import loading
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import Manifest, ProviderTable
from goalseek.measurement.ruler import Ruler, with_pinned_ruler
from goalseek.measurement.verifier import Verifier
from goalseek.own_folders import add_own, remove_if_exists
from goalseek.phase_values import Context, Side
from goalseek.project.config import Config, ConfigReader
from goalseek.project.limits import Clock
from goalseek.project.observer import Observer
from goalseek.project.progress import format_turn
from goalseek.project.state_file import RunState, StateFile, utc_now
from goalseek.project.trees import ProjectTrees, TreePlan, agent_history
from goalseek.providers.fallback import ProviderChain
from goalseek.providers.registry import ProviderChoice
from goalseek.sandbox.level import SandboxLevel
from goalseek.sandbox.policy import SandboxPolicy, policy_for
from goalseek.sandbox.supervisor import PROGRAMS_LOCK, Supervisor
from goalseek.values import Phase, Stop
from goalseek.workspace import hidden_files
from goalseek.workspace.bench import Bench
from goalseek.workspace.places import BenchName, CachePaths
from goalseek.workspace.scan import Listing
from goalseek.workspace.shared_folders import SharedFolders
from goalseek.workspace.workspace import Workspace

RECENT = 200
MOMENT_SECONDS = 2.0


class Project:
    """The open repository, ledger and trees of one project, under its lock. ``opened`` makes it.

    ``folder`` is the manifest's in the user's checkout; of a manifest outside the repository, the repository's top.
    """

    def __init__(
        self,
        loaded: ManifestFile,
        repository: Repository,
        places: CachePaths,
        watch: Observer,
        table: ProviderTable | None,
    ) -> None:
        self.loaded = loaded
        self.repository = repository
        self.watch = watch
        self.places = places
        self.folder = loading.base_of(loaded, repository.top)
        self.picture = StateFile(loaded.state)
        self.waited: tuple[str, ...] = ()
        self.took: PhaseSeconds | None = None
        self._idle_seconds = 0.0
        self._wait_start: float | None = None
        self.seal = Seal.open(repository.own)
        self.ledger = Ledger(repository, loaded.results, self.seal)
        index = repository.own / "measured.sqlite"
        self.measured = TreeIndex(index, self.ledger.history, self.standing.seq, lambda text: self.watch.on_note(text))
        self.recent: deque[IterationRecord] = deque(self._newest_records(), maxlen=RECENT)
        self.shares = SharedFolders(repository.own / "share.json", self.folder)
        self.run_id = self.standing.run_id
        self.began = ""
        self.started_at = utc_now()
        self.clock = Clock.started()
        self.last_phase = ""
        self.stop: Stop | None = None
        self.ends_at: float | None = None
        self._provider = ProviderChoice(table)
        self._trees = ProjectTrees(places, repository.objects, self._announce_tree)
        self._ruler_cache: tuple[int, Ruler] | None = None
        self._changed_cache: tuple[tuple[str, str], frozenset[str]] | None = None
        self._config_reader = ConfigReader(self.folder, places.prefix, repository.top, self.seal.digest)
        self._policy_cache: tuple[ManifestFile, SandboxPolicy] | None = None
        self._tree_plan_cache: tuple[Config, SandboxPolicy, TreePlan] | None = None
        # Last: it holds a lock, which nobody would let go if another of these raised after it.
        self.programs = Supervisor(places.owner, repository.own / PROGRAMS_LOCK, self._beat)

    @property
    def standing(self) -> Standing:
        """The standing of the climb: what its records add up to."""
        return self.ledger.standing

    @property
    def confines(self) -> SandboxPolicy:
        """The sandbox policy of the programs. Raises GoalseekError where a demanded level cannot be had."""
        if self._policy_cache is None or self._policy_cache[0] is not self.loaded:
            policy = policy_for(self.loaded.manifest, self.loaded, self.repository.location, self.folder, self.places)
            self._policy_cache = (self.loaded, policy)
        return self._policy_cache[1]

    def outside(self) -> AbstractContextManager[None]:
        """While this block lasts, programs run without a sandbox, in trees of their own."""
        return self._use_policy(replace(self.confines, level=SandboxLevel("none", ("outside, as was asked for",))))

    def reading(self, paths: tuple[str, ...]) -> AbstractContextManager[None]:
        """While this block lasts, programs may read these paths too."""
        table = self.confines.table
        return self._use_policy(replace(self.confines, table=replace(table, read=(*table.read, *paths))))

    @contextlib.contextmanager
    def _use_policy(self, policy: SandboxPolicy) -> Iterator[None]:
        previous = (self.loaded, self.confines)
        self._policy_cache = (self.loaded, policy)
        try:
            yield
        finally:
            self._policy_cache = previous

    def run_folder(self, number: int) -> Path:
        """The folder of an iteration's artifacts."""
        return self.loaded.runs / f"{number:04d}"

    def close(self) -> None:
        """Records the trees' state, and ends the git processes."""
        with contextlib.ExitStack() as callbacks:
            callbacks.callback(_clear_scratch, self.places.scratch)
            callbacks.callback(self.repository.close)
            callbacks.callback(self.measured.close)
            callbacks.callback(self._trees.close)
            callbacks.callback(self.programs.close)

    def config(self, trees: tuple[str, str] | None = None) -> Config:
        """The configuration, read afresh. Where the manifest is wrong now, the last good one holds, and a note says so.

        ``trees`` are an older and a newer tree, which differ by what candidates changed; None for those of baseline and
        incumbent.
        """
        notes: list[str] = []
        try:
            self.loaded = loading.load(self.loaded.path, self.loaded)
        except GoalseekError as error:
            notes.append(f"the manifest is wrong now, the last good one holds: {error.message.splitlines()[0]}")
        add_own(self.loaded.logs, self.loaded.runs)
        if self._policy_cache:  # somebody may have added a worktree
            policy = self._policy_cache[1]
            worktrees = other_folders(self.repository.location)
            if worktrees != policy.elsewhere:
                self._policy_cache = (self._policy_cache[0], replace(policy, elsewhere=worktrees))
        ruler = self._read_ruler()
        manifest = with_pinned_ruler(self.loaded.manifest, ruler) if ruler else self.loaded.manifest
        return self.config_of(manifest, tuple(notes), ruler.hidden_from if ruler else None, self._changed_paths(trees))

    def _changed_paths(self, trees: tuple[str, str] | None) -> frozenset[str]:
        """The paths on which two trees differ, as ``config`` takes them; cached for the last pair."""
        standing = self.standing
        if trees is None and standing.baseline and standing.incumbent:
            trees = (standing.baseline.tree, standing.incumbent.tree)
        if trees is None:
            return frozenset()
        if self._changed_cache is None or self._changed_cache[0] != trees:
            differences = self.repository.objects.differences(*trees)
            self._changed_cache = (trees, frozenset(difference.path for difference in differences))
        return self._changed_cache[1]

    def config_of_begun_iteration(self, config: Config, context: Context) -> Config:
        """The configuration of an iteration that goes on: what a candidate may change is as it was when it began."""
        scope = config.manifest.scope
        first_scope = replace(scope, writable=context.writable, generated=context.generated)
        if not context.writable or first_scope == scope:
            return config
        manifest = replace(config.manifest, scope=first_scope)
        first_config = self.config_of(manifest, (), config.hidden_from, self._changed_paths(None))
        note = "the manifest's scope has changed since the iteration began: that holds from the next one on"
        return replace(first_config, notes=(*config.notes, note))

    def _read_ruler(self) -> Ruler | None:
        """The ruler of the present epoch; it is read once an epoch."""
        if self._ruler_cache is None or self._ruler_cache[0] != self.standing.epoch:
            text = self.ledger.pinned_ruler()
            if text is None:
                return None
            self._ruler_cache = (self.standing.epoch, Ruler.from_json(text))
        return self._ruler_cache[1]

    def config_for_baseline(self) -> Config:
        """The configuration for a new baseline: keys from the manifest, whatever was pinned."""
        self.loaded = loading.load(self.loaded.path)
        add_own(self.loaded.logs, self.loaded.runs)
        return self.config_of(self.loaded.manifest, ())

    def provider(self) -> ProviderChain:
        """The provider that was asked for, or the manifest's. Raises GoalseekError where none can start."""
        return self._provider.made(self.loaded)

    def has_provider(self) -> bool:
        """Whether one is named."""
        return self._provider.is_named(self.loaded)

    def provider_table(self) -> ProviderTable:
        """The provider's keys. Raises GoalseekError where none is named."""
        return self._provider.table(self.loaded)

    def workspace(self, config: Config) -> Workspace:
        """The agent's tree under this configuration, at the incumbent."""
        workspace = self._trees.workspace(self._tree_plan(config))
        workspace.sync_to(lambda label: agent_history(self.ledger.history, self.standing, label))
        return workspace

    def bench(self, config: Config, name: BenchName) -> AbstractContextManager[Bench]:
        """A bench under this configuration, which nobody else has while this block lasts."""
        return self._trees.bench(self._tree_plan(config), name)

    @contextlib.contextmanager
    def verifier(
        self, config: Config, ruler: str, baseline_tree: str, seconds: dict[str, float], name: BenchName = "a"
    ) -> Iterator[Verifier]:
        """Measures by the pinned commands on a bench, which nobody else has while this block lasts."""
        with self.bench(config, name) as bench:
            yield Verifier(
                config.manifest,
                bench,
                self.places,
                self.programs,
                self.confines,
                ruler,
                baseline_tree,
                seconds,
                on_output=self.watch.on_output,
                turn=self._show_turn,
                waiting=self.waiting,
                refuse_changed=lambda: self.refuse_changed_hidden_files(config),
            )

    def _show_turn(self, side: Side, number: int) -> None:
        self.watch.on_measurement(side, number)
        if self.last_phase == Phase.VERIFY:
            self.picture.set_turn(format_turn(side, number))

    def _beat(self) -> None:
        self.picture.beat()
        if self.took:
            self.took.beat()

    def refuse_changed_hidden_files(self, config: Config) -> None:
        """Raises GoalseekError, ``tampered``, where ``scope.hidden_from`` is not as it was pinned."""
        folder = hidden_files.folder_of(self.folder, config.manifest)
        if folder:
            hidden_files.refuse_changed(folder, config.hidden_from)

    def active_seconds(self) -> float:
        """Seconds on a clock that stops while the run waits for somebody else, and while the machine sleeps."""
        return (time.monotonic() if self._wait_start is None else self._wait_start) - self._idle_seconds

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """While this block waits, ``state.json`` and the view say what for, and the time counts for no phase."""
        start = self._wait_start = time.monotonic()
        self.watch.on_note(text)
        self.watch.on_wait(text)
        self.picture.waiting(text)
        try:
            yield
        finally:
            self._wait_start = None
            self._idle_seconds += time.monotonic() - start
            self.watch.on_wait("")
            self.picture.waiting("")

    @contextlib.contextmanager
    def _announce_tree(self, root: Path) -> Iterator[None]:
        """Notes that a tree is being made, where this block takes longer than ``MOMENT_SECONDS``."""
        text = f"a tree of the repository is being made in {root}: once, later it is only brought up to date"
        timer = threading.Timer(MOMENT_SECONDS, lambda: self.watch.on_note(text))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def add_record(self, record: IterationRecord) -> None:
        """Adds a record just written to the index and the recent records; its notes of waits are dropped."""
        self.waited = ()
        self.measured.add(record)
        self.recent.appendleft(record)

    def write_state(
        self, status: str, iteration: int | None, phase: str | None, reason: str = "", next_step: str = ""
    ) -> None:
        """Replaces ``state.json``; ``next_step`` is what a person can do now, in words."""
        now = utc_now()
        ended_at = None if status in ("running", "waiting") else now
        times = (self.run_id, self.started_at, iteration, phase, now if phase else None, reason or None, ended_at)
        self.picture.show(RunState(status, *times, next_step), self.standing, self.loaded.manifest.limits)

    def config_of(
        self,
        manifest: Manifest,
        notes: tuple[str, ...] = (),
        listing: Listing | None = None,
        changed_paths: frozenset[str] = frozenset(),
    ) -> Config:
        """The configuration that follows from a manifest; ``notes`` are what a person should know about it.

        ``listing`` are the files of ``hidden_from``; None for those that are there now. ``changed_paths`` are those
        that candidates have changed. Raises GoalseekError where the files of ``hidden_from`` cannot be read.
        """
        table = self._provider.asked or self.loaded.manifest.provider
        mounts = self.confines.mounts
        return self._config_reader.read(self.loaded, manifest, table, mounts, notes, listing, changed_paths)

    def _tree_plan(self, config: Config) -> TreePlan:
        cache = self._tree_plan_cache
        if cache is None or cache[0] is not config or cache[1] is not self.confines:
            cache = self._tree_plan_cache = (config, self.confines, self._make_tree_plan(config))
        return cache[2]

    def _make_tree_plan(self, config: Config) -> TreePlan:
        manifest = config.manifest
        return TreePlan(
            config.scope,
            config.scope_key,
            tuple(pattern for command in manifest.verify for pattern in command.keep),
            config.links,
            self.confines.mounts,
            config.hidden_from,
            hidden_files.folder_of(self.folder, manifest),
        )

    def _newest_records(self) -> list[IterationRecord]:
        newest = (record for record in self.ledger.history.newest() if isinstance(record, IterationRecord))
        return list(islice(newest, RECENT))


def _clear_scratch(scratch: Path) -> None:
    with contextlib.suppress(OSError):
        remove_if_exists(scratch)
