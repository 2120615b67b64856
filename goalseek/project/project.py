"""A run: what it holds open, and what is derived afresh for each iteration."""

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
from goalseek.git.location import elsewhere
from goalseek.git.repository import Repository
from goalseek.ledger.checkpoints import PhaseSeconds
from goalseek.ledger.ledger import Ledger
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.seal import Seal
from goalseek.ledger.standing import Standing
from goalseek.ledger.tree_index import TreeIndex
from goalseek.manifest import loading
from goalseek.manifest.loading import Loaded
from goalseek.manifest.tables import Manifest, ProviderTable
from goalseek.measurement.ruler import Ruler, under
from goalseek.measurement.verifier import Verifier
from goalseek.own_folders import add_own, clear
from goalseek.phase_values import Context, Side
from goalseek.project.config import Config, ConfigReader
from goalseek.project.limits import Clock
from goalseek.project.progress import turn_in_words
from goalseek.project.state_file import Moment, Picture, utc_now
from goalseek.project.trees import ProjectTrees, TreePlan, agent_history
from goalseek.project.watch import Watch
from goalseek.providers.fallback import Chain
from goalseek.providers.registry import ChosenProvider
from goalseek.sandbox.level import SandboxLevel
from goalseek.sandbox.policy import SandboxPolicy, policy_for
from goalseek.sandbox.supervisor import PROGRAMS_LOCK, Supervisor
from goalseek.values import Stop
from goalseek.workspace import hidden_files
from goalseek.workspace.bench import Bench
from goalseek.workspace.places import CachePaths
from goalseek.workspace.scan import Listing
from goalseek.workspace.shared_folders import Shares
from goalseek.workspace.workspace import Workspace

RECENT = 200
MOMENT_SECONDS = 2.0


class Project:
    """The open repository, ledger and trees of one project. Made by ``opened``.

    ``folder`` is the manifest's in the user's checkout; of a manifest outside the repository, the repository's top.
    """

    def __init__(
        self, loaded: Loaded, repository: Repository, places: CachePaths, watch: Watch, asked: ProviderTable | None
    ) -> None:
        self.loaded = loaded
        self.repository = repository
        self.watch = watch
        self.places = places
        self.folder = loading.base_of(loaded, repository.top)
        self.picture = Picture(loaded.state)
        self.waited: tuple[str, ...] = ()
        self.took: PhaseSeconds | None = None
        self._idle = 0.0
        self._waits_since: float | None = None
        self.seal = Seal.open(repository.own)
        self.ledger = Ledger(repository, loaded.results, self.seal)
        index = repository.own / "measured.sqlite"
        self.measured = TreeIndex(index, self.ledger.history, self.standing.seq, lambda text: self.watch.on_note(text))
        self.recent: deque[IterationRecord] = deque(self._newest(), maxlen=RECENT)
        self.shares = Shares(repository.own / "share.json", self.folder)
        self.run_id = self.standing.run_id
        self.began = ""
        self.started_at = utc_now()
        self.clock = Clock.started()
        self.last_phase = ""
        self.stop: Stop | None = None
        self.ends_at: float | None = None
        self._provider = ChosenProvider(asked)
        self._trees = ProjectTrees(places, repository.objects, self._making)
        self._ruler: tuple[int, Ruler] | None = None
        self._differ: tuple[tuple[str, str], frozenset[str]] | None = None
        self._settings = ConfigReader(self.folder, places.prefix, repository.top, self.seal.digest)
        self._confines: tuple[Loaded, SandboxPolicy] | None = None
        self._planned: tuple[Config, SandboxPolicy, TreePlan] | None = None
        # Last: it holds a lock, which nobody would let go if another of these raised after it.
        self.programs = Supervisor(places.owner, repository.own / PROGRAMS_LOCK, self._beat)

    @property
    def standing(self) -> Standing:
        """Where the climb stands."""
        return self.ledger.standing

    @property
    def confines(self) -> SandboxPolicy:
        """What keeps the programs in their place. Raises GoalseekError where a demanded level cannot be had."""
        if self._confines is None or self._confines[0] is not self.loaded:
            made = policy_for(self.loaded.manifest, self.loaded, self.repository.location, self.folder, self.places)
            self._confines = (self.loaded, made)
        return self._confines[1]

    def outside(self) -> AbstractContextManager[None]:
        """While this block lasts, programs run without a sandbox, in trees made for that."""
        return self._under(replace(self.confines, level=SandboxLevel("none", ("outside, as was asked for",))))

    def reading(self, more: tuple[str, ...]) -> AbstractContextManager[None]:
        """While this block lasts, programs see more."""
        table = self.confines.table
        return self._under(replace(self.confines, table=replace(table, read=(*table.read, *more))))

    @contextlib.contextmanager
    def _under(self, other: SandboxPolicy) -> Iterator[None]:
        before = (self.loaded, self.confines)
        self._confines = (self.loaded, other)
        try:
            yield
        finally:
            self._confines = before

    def close(self) -> None:
        """Records the trees' state, and ends the git processes."""
        with contextlib.ExitStack() as last:
            last.callback(_clear_scratch, self.places.scratch)
            last.callback(self.repository.close)
            last.callback(self.measured.close)
            last.callback(self._trees.close)
            last.callback(self.programs.close)

    def config(self, between: tuple[str, str] | None = None) -> Config:
        """Reads manifest, program and directions afresh. Of a manifest that is wrong now, the last good one holds.

        ``between`` are two trees of which candidates made the second out of the first; those of baseline and incumbent
        where it is None.
        """
        told: list[str] = []
        try:
            self.loaded = loading.load(self.loaded.path, self.loaded)
        except GoalseekError as error:
            told.append(f"the manifest is wrong now, the last good one holds: {error.message.splitlines()[0]}")
        add_own(self.loaded.logs, self.loaded.runs)
        if self._confines:  # somebody may have added a worktree
            before = self._confines[1]
            now = elsewhere(self.repository.location)
            if now != before.elsewhere:
                self._confines = (self._confines[0], replace(before, elsewhere=now))
        ruler = self._pinned()
        manifest = under(self.loaded.manifest, ruler) if ruler else self.loaded.manifest
        return self.config_of(manifest, tuple(told), ruler.hidden_from if ruler else None, self._changed(between))

    def _changed(self, between: tuple[str, str] | None) -> frozenset[str]:
        """The paths on which two trees differ, as ``setting`` takes them; those of one pair are remembered."""
        standing = self.standing
        if between is None and standing.baseline and standing.incumbent:
            between = (standing.baseline.tree, standing.incumbent.tree)
        if between is None:
            return frozenset()
        if self._differ is None or self._differ[0] != between:
            found = self.repository.objects.differences(*between)
            self._differ = (between, frozenset(difference.path for difference in found))
        return self._differ[1]

    def config_as_begun(self, config: Config, context: Context) -> Config:
        """The setting under which an iteration goes on: what a candidate may change is as it was when it began."""
        scope = config.manifest.scope
        begun = replace(scope, writable=context.writable, generated=context.generated)
        if not context.writable or begun == scope:
            return config
        manifest = replace(config.manifest, scope=begun)
        made = self.config_of(manifest, (), config.hidden_from, self._changed(None))
        note = "the manifest's scope has changed since the iteration began: that holds from the next one on"
        return replace(made, notes=(*config.notes, note))

    def _pinned(self) -> Ruler | None:
        """The ruler of the present epoch; it is read once an epoch."""
        if self._ruler is None or self._ruler[0] != self.standing.epoch:
            text = self.ledger.pinned()
            if text is None:
                return None
            self._ruler = (self.standing.epoch, Ruler.from_json(text))
        return self._ruler[1]

    def fresh_config(self) -> Config:
        """The setting for a new baseline: keys from the manifest, whatever was pinned."""
        self.loaded = loading.load(self.loaded.path)
        add_own(self.loaded.logs, self.loaded.runs)
        return self.config_of(self.loaded.manifest, ())

    def provider(self) -> Chain:
        """The provider that was asked for, or the manifest's. Raises GoalseekError where none can start."""
        return self._provider.made(self.loaded)

    def has_provider(self) -> bool:
        """Whether one is named."""
        return self._provider.is_named(self.loaded)

    def provider_table(self) -> ProviderTable:
        """The provider's keys. Raises GoalseekError where none is named."""
        return self._provider.table(self.loaded)

    def workspace(self, config: Config) -> Workspace:
        """The agent's tree under this setting, at the incumbent."""
        workspace = self._trees.workspace(self._plan(config))
        workspace.sync_to(lambda label: agent_history(self.ledger.history, self.standing, label))
        return workspace

    def bench(self, config: Config, of: Side = "candidate") -> Bench:
        """The verifier's trees under this setting, for the candidate or for the incumbent."""
        return self._trees.bench(self._plan(config), of)

    def verifier(
        self,
        config: Config,
        ruler: str,
        baseline_tree: str,
        seconds: dict[str, float],
        of: Side = "candidate",
    ) -> Verifier:
        """The pinned way to measure the candidate, or the incumbent, which has a bench of its own."""
        bench = self.bench(config, of)
        return Verifier(
            config.manifest,
            bench,
            self.places,
            self.programs,
            self.confines,
            ruler,
            baseline_tree,
            seconds,
            on_output=self.watch.on_output,
            turn=self._turned,
            waiting=self.waiting,
            refuse_changed=lambda: self.refuse_changed(config),
        )

    def _turned(self, of: Side, place: int) -> None:
        self.watch.on_measurement(of, place)
        if self.last_phase == "VERIFY":
            self.picture.turned(turn_in_words(of, place))

    def _beat(self) -> None:
        self.picture.beat()
        if self.took:
            self.took.beat()

    def refuse_changed(self, config: Config) -> None:
        """Raises GoalseekError, ``tampered``, where ``scope.hidden_from`` is not as it was pinned."""
        folder = hidden_files.folder_of(self.folder, config.manifest)
        if folder:
            hidden_files.refuse_changed(folder, config.hidden_from)

    def active_seconds(self) -> float:
        """A clock that stands still while the run waits for somebody else, and while the machine sleeps."""
        return (time.monotonic() if self._waits_since is None else self._waits_since) - self._idle

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """While this block waits, the picture and the view say what for, and no phase is charged with the time."""
        began = self._waits_since = time.monotonic()
        self.watch.on_note(text)
        self.watch.on_wait(text)
        self.picture.waiting(text)
        try:
            yield
        finally:
            self._waits_since = None
            self._idle += time.monotonic() - began
            self.watch.on_wait("")
            self.picture.waiting("")

    @contextlib.contextmanager
    def _making(self, root: Path) -> Iterator[None]:
        """While this block makes a tree; where that takes longer than a moment, the view is told."""
        text = f"a tree of the repository is being made in {root}: once, later it is only brought up to date"
        timer = threading.Timer(MOMENT_SECONDS, lambda: self.watch.on_note(text))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def remember(self, record: IterationRecord) -> None:
        """Takes in a record that was just written, with the waits that it told of."""
        self.waited = ()
        self.measured.add(record)
        self.recent.appendleft(record)

    def config_of(
        self,
        manifest: Manifest,
        told: tuple[str, ...] = (),
        pinned: Listing | None = None,
        changed: frozenset[str] = frozenset(),
    ) -> Config:
        """What follows from a manifest; ``told`` is what a person should know about it.

        ``pinned`` are the files of ``hidden_from``; None for those that are there now. ``changed`` are the paths that
        candidates have changed. Raises GoalseekError where the files of ``hidden_from`` cannot be had.
        """
        asked = self._provider.asked or self.loaded.manifest.provider
        return self._settings.read(self.loaded, manifest, asked, self.confines.mounts, told, pinned, changed)

    def _plan(self, config: Config) -> TreePlan:
        made = self._planned
        if made is None or made[0] is not config or made[1] is not self.confines:
            made = self._planned = (config, self.confines, self._plan_for(config))
        return made[2]

    def _plan_for(self, config: Config) -> TreePlan:
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

    def _newest(self) -> list[IterationRecord]:
        newest = (record for record in self.ledger.history.newest() if isinstance(record, IterationRecord))
        return list(islice(newest, RECENT))


def _clear_scratch(scratch: Path) -> None:
    with contextlib.suppress(OSError):
        clear(scratch)


def write_state(
    project: Project, status: str, iteration: int | None, phase: str | None, reason: str = "", following: str = ""
) -> None:
    """Renews ``state.json``."""
    now = utc_now()
    ended = None if status in ("running", "waiting") else now
    moment = Moment(
        status,
        project.run_id,
        project.started_at,
        iteration,
        phase,
        now if phase else None,
        reason or None,
        ended,
        following,
    )
    project.picture.show(moment, project.standing, project.loaded.manifest.limits)
