"""A run: what it holds open, and what is derived afresh for each iteration."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from goalseek import directions, hidden_from, manifest_file, sandbox
from goalseek.bench import Bench
from goalseek.clock import Clock
from goalseek.confinement.level import Level
from goalseek.confines import Confines, confines
from goalseek.directions import Direction
from goalseek.errors import GoalseekError
from goalseek.kept import kept_steps
from goalseek.ledger import Ledger
from goalseek.limits import Stop
from goalseek.listing import Listing
from goalseek.manifest import Manifest, ProviderTable, ReviewTable
from goalseek.manifest_file import Loaded
from goalseek.measured import Measured
from goalseek.places import Places
from goalseek.plain import to_line
from goalseek.programs import PROGRAMS_LOCK, Programs
from goalseek.project_scope import scope_of
from goalseek.project_trees import ProjectTrees, TreePlan
from goalseek.providers import make_provider
from goalseek.providers.chain import Chain
from goalseek.records import IterationRecord
from goalseek.repository import Repository
from goalseek.ruler import Ruler, under
from goalseek.scene import turn_in_words
from goalseek.scope import Scope
from goalseek.seal import Seal
from goalseek.shared import Shares
from goalseek.standing import Standing
from goalseek.state import Picture, utc_now
from goalseek.templates import Templates, load_templates
from goalseek.values import Side
from goalseek.verifier import Verifier
from goalseek.watch import Watch
from goalseek.workspace import Workspace

RECENT = 200


@dataclass(frozen=True)
class Setting:
    """What one iteration goes by: the manifest under the pinned ruler, and what follows from it.

    ``hidden_from`` are the files of that folder as the ruler has them; ``templates`` are the prompts, by phase.
    """

    manifest: Manifest
    scope: Scope
    scope_key: str
    program: str
    directions: tuple[Direction, ...]
    notes: tuple[str, ...] = ()
    hidden_from: Listing = ()
    templates: Templates = field(default_factory=dict)


class Run:
    """The open repository, ledger and trees of one project. Made by ``opened``."""

    def __init__(
        self, loaded: Loaded, repository: Repository, places: Places, watch: Watch, asked: ProviderTable | None
    ) -> None:
        self.loaded = loaded
        self.repository = repository
        self.watch = watch
        self.places = places
        self.picture = Picture(loaded.logs / "state.json")
        self.waited: tuple[str, ...] = ()
        self._idle = 0.0
        self.programs = Programs(places.owner, repository.own / PROGRAMS_LOCK, self.picture.beat)
        self.seal = Seal.open(repository.own)
        self.ledger = Ledger(repository, loaded.logs / "results.jsonl", self.seal)
        self.measured = Measured(repository.own / "measured.sqlite", self.ledger.history, self.standing.seq)
        self.recent: deque[IterationRecord] = deque(self._newest(), maxlen=RECENT)
        self.shares = Shares(repository.own / "share.json", self.folder)
        self.run_id = self.standing.run_id
        self.began = ""
        self.started_at = utc_now()
        self.clock = Clock.started()
        self.last_phase = ""
        self.stop: Stop | None = None
        self.ends_at: float | None = None
        self._asked = asked
        self._provider: Chain | None = None
        self._reviewed: ReviewTable | None = None
        self._trees = ProjectTrees(places, repository.objects)
        self._ruler: tuple[int, Ruler] | None = None
        self._templates: Templates | None = None
        self._scopes: tuple[Manifest, Listing, Scope, str] | None = None
        self._confines: tuple[Loaded, Confines] | None = None

    @property
    def standing(self) -> Standing:
        """Where the climb stands."""
        return self.ledger.standing

    @property
    def folder(self) -> Path:
        """The manifest's folder in the user's checkout; of a manifest outside the repository, the repository's top."""
        return base_folder(self.loaded, self.repository)

    @property
    def confines(self) -> Confines:
        """What keeps the programs in their place. Raises GoalseekError where a demanded level cannot be had."""
        if self._confines is None or self._confines[0] is not self.loaded:
            made = confines(self.loaded.manifest, self.loaded, self.repository.location, self.folder, self.places)
            self._confines = (self.loaded, made)
        return self._confines[1]

    def outside(self) -> AbstractContextManager[None]:
        """While this block lasts, programs run without a sandbox, in trees made for that."""
        return self._under(replace(self.confines, level=Level("none", ("outside, as was asked for",))))

    def reading(self, more: tuple[str, ...]) -> AbstractContextManager[None]:
        """While this block lasts, programs see more."""
        table = self.confines.table
        return self._under(replace(self.confines, table=replace(table, read=(*table.read, *more))))

    @contextlib.contextmanager
    def _under(self, other: Confines) -> Iterator[None]:
        before = (self.loaded, self.confines)
        self._confines, self._scopes = (self.loaded, other), None
        try:
            yield
        finally:
            self._confines, self._scopes = before, None

    def close(self) -> None:
        """Records the trees' state, and ends the git processes."""
        with contextlib.ExitStack() as last:
            last.callback(shutil.rmtree, self.places.scratch, ignore_errors=True)
            last.callback(self.repository.close)
            last.callback(self.measured.close)
            last.callback(self._trees.close)
            last.callback(self.programs.close)

    def setting(self) -> Setting:
        """Reads manifest, program and directions afresh. Of a manifest that is wrong now, the last good one holds."""
        told: list[str] = []
        try:
            self.loaded = manifest_file.load(self.loaded.path, self.loaded)
        except GoalseekError as error:
            told.append(f"the manifest is wrong now, the last good one holds: {error.message.splitlines()[0]}")
        ruler = self._pinned()
        manifest = under(self.loaded.manifest, ruler) if ruler else self.loaded.manifest
        return self.setting_of(manifest, tuple(told), ruler.hidden_from if ruler else None)

    def _pinned(self) -> Ruler | None:
        """The ruler of the present epoch; it is read once an epoch."""
        if self._ruler is None or self._ruler[0] != self.standing.epoch:
            text = self.ledger.pinned()
            if text is None:
                return None
            self._ruler = (self.standing.epoch, Ruler.from_json(text))
        return self._ruler[1]

    def fresh_setting(self) -> Setting:
        """The setting for a new baseline: keys from the manifest, whatever was pinned."""
        self.loaded = manifest_file.load(self.loaded.path)
        return self.setting_of(self.loaded.manifest, ())

    def provider(self) -> Chain:
        """The provider that was asked for, or the manifest's. Raises GoalseekError where none can start."""
        if self._provider is None or self._reviewed != self.loaded.manifest.review:
            self._reviewed = self.loaded.manifest.review
            self._provider = chosen_provider(self.loaded, self.provider_table())
            self._provider.check()
        return self._provider

    def has_provider(self) -> bool:
        """Whether one is named."""
        return (self._asked or self.loaded.manifest.provider) is not None

    def provider_table(self) -> ProviderTable:
        """The provider's keys. Raises GoalseekError where none is named."""
        table = self._asked or self.loaded.manifest.provider
        if table is None:
            hint = '--provider tune, or in the manifest: provider.name = "command" with provider.command'
            raise GoalseekError("no provider is named: who is to propose?", hint)
        return table

    def workspace(self, setting: Setting) -> Workspace:
        """The agent's tree under this setting, at the incumbent."""
        workspace = self._trees.workspace(self._plan(setting))
        workspace.stand_at(lambda label: kept_steps(self.ledger.history, self.standing, label))
        return workspace

    def bench(self, setting: Setting, of: Side = "candidate") -> Bench:
        """The verifier's trees under this setting, for the candidate or for the incumbent."""
        return self._trees.bench(self._plan(setting), of)

    def verifier(
        self,
        setting: Setting,
        ruler: str,
        baseline_tree: str,
        seconds: dict[str, float],
        of: Side = "candidate",
    ) -> Verifier:
        """The pinned way to measure the candidate, or the incumbent, which has a bench of its own."""
        bench = self.bench(setting, of)
        return Verifier(
            setting.manifest,
            bench,
            self.places,
            self.programs,
            self.confines,
            ruler,
            baseline_tree,
            seconds,
            on_output=self.watch.output,
            turn=self._turned,
            waiting=self.waiting,
            refuse_changed=lambda: self._refuse_changed(setting),
        )

    def _turned(self, of: Side, place: int) -> None:
        self.watch.turn(of, place)
        if self.last_phase == "VERIFY":
            self.picture.turned(turn_in_words(of, place))

    def _refuse_changed(self, setting: Setting) -> None:
        folder = hidden_from.folder_of(self.folder, setting.manifest)
        if folder:
            hidden_from.refuse_changed(folder, setting.hidden_from)

    def active_seconds(self) -> float:
        """A clock that stands still while the run waits for somebody else, and while the machine sleeps."""
        return time.monotonic() - self._idle

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """While this block waits, the picture and the view say what for, and no phase is charged with the time."""
        began = time.monotonic()
        self.watch.note(text)
        self.watch.waits(text)
        self.picture.waiting(text)
        try:
            yield
        finally:
            self._idle += time.monotonic() - began
            self.watch.waits("")
            self.picture.waiting("")

    def remember(self, record: IterationRecord) -> None:
        """Takes in a record that was just written, with the waits that it told of."""
        self.waited = ()
        self.measured.add(record)
        self.recent.appendleft(record)

    def links(self, manifest: Manifest) -> dict[str, str]:
        """The shared folders as links: path in a tree, place on disk."""
        return {
            self.places.prefix + name.rstrip("/"): str((self.folder / name).resolve()) for name in manifest.scope.share
        }

    def setting_of(self, manifest: Manifest, told: tuple[str, ...] = (), pinned: Listing | None = None) -> Setting:
        """What follows from a manifest; ``told`` is what a person should know about it.

        ``pinned`` are the files of ``hidden_from``; None for those that are there now. Raises GoalseekError where these
        cannot be had.
        """
        more = self.hidden_files(manifest) if pinned is None else pinned
        if self._scopes is None or self._scopes[:2] != (manifest, more):
            made = scope_of(self.loaded, manifest, self.places.prefix, more)
            table = manifest.provider
            lists = (
                self.seal.digest("trees"),
                manifest.scope,
                [table.script, table.prompts, table.record, table.recordings] if table else "",
                manifest.cheat,
                self.links(manifest),
                self.confines.mounts,
                *([more] if more else []),
            )
            key = hashlib.sha256(to_line(lists).encode()).hexdigest()[:16]
            self._scopes = (manifest, more, made, key)
        _, _, made, key = self._scopes
        program = self.folder / (manifest.project.program or "program.md")
        text = program.read_text("utf-8", "replace") if program.is_file() else ""
        told_by = tuple(directions.directions(self.loaded.directions))
        templates, wrong = self._read_templates()
        return Setting(manifest, made, key, text, told_by, (*told, *wrong), more, templates)

    def _read_templates(self) -> tuple[Templates, tuple[str, ...]]:
        """The prompts as they are now. Of those that are wrong, the last good ones hold, and a note says so."""
        table = self._asked or self.loaded.manifest.provider
        folder = self.folder / table.prompts if table and table.prompts else None
        try:
            self._templates = load_templates(folder)
        except GoalseekError as error:
            if self._templates is None:
                raise
            return self._templates, (f"the prompts are wrong now, the last good ones hold: {error.message}",)
        return self._templates, ()

    def hidden_files(self, manifest: Manifest) -> Listing:
        """The files of ``hidden_from`` as they are now. Raises GoalseekError where they cannot be had."""
        folder = hidden_from.folder_of(self.folder, manifest)
        return hidden_from.list_hidden(folder, self.repository.top) if folder else ()

    def _plan(self, setting: Setting) -> TreePlan:
        manifest = setting.manifest
        return TreePlan(
            setting.scope,
            setting.scope_key,
            tuple(pattern for command in manifest.verify for pattern in command.keep),
            self.links(manifest),
            self.confines.mounts,
            setting.hidden_from,
            hidden_from.folder_of(self.folder, manifest),
        )

    def _newest(self) -> list[IterationRecord]:
        newest = (record for record in self.ledger.history.newest() if isinstance(record, IterationRecord))
        return list(islice(newest, RECENT))


def chosen_provider(loaded: Loaded, table: ProviderTable) -> Chain:
    """The provider to use. Raises GoalseekError where a program would start without consent."""
    provider = make_provider(table, loaded.folder, loaded.manifest.price, loaded.manifest.review)
    for one in provider.everybody:
        if one.needs_consent:
            sandbox.refuse_without_consent(loaded.manifest, one.name)
        if one.needs_sandbox:
            sandbox.refuse_unconfined(loaded.manifest, one.name)
    return provider


def programs_of(loaded: Loaded) -> list[list[str]]:
    """The words by which the manifest's providers are started, as far as they name what is to be shown."""
    named: list[list[str]] = []
    if loaded.manifest.provider is None:
        return named
    try:
        everybody = make_provider(loaded.manifest.provider, loaded.folder, (), loaded.manifest.review).everybody
    except GoalseekError:  # said where the provider is looked at
        return named
    for one in everybody:
        words = getattr(one, "words", None) or getattr(one, "command", None)
        named += [list(words)] if words else []
    return named


def base_folder(loaded: Loaded, repository: Repository) -> Path:
    """The folder that paths and globs are relative to: the manifest's, or the top for one outside the repository."""
    return manifest_file.base_of(loaded, repository.top)
