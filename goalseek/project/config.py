"""The repository of a manifest, and the configuration of one iteration: pinned keys, directions, prompts and trees.

It is read afresh for each iteration, so a person can change manifest, program, prompts and directions meanwhile.
"""

import os

from msgspec import Struct, structs

from goalseek.disk import add_own
from goalseek.errors import USAGE, GoalseekError
from goalseek.git.location import locate
from goalseek.git.objects import TreeReader
from goalseek.git.paths import folder_prefix
from goalseek.git.repository import Repository
from goalseek.ledger.ledger import Ledger, read_ruler
from goalseek.manifest import loading
from goalseek.manifest.loading import ManifestFile, base_of
from goalseek.manifest.rules import authors_of
from goalseek.manifest.tables import Manifest, ProviderTable
from goalseek.measurement.ruler import Ruler, proposer_files, refuse_removed_keys, with_pinned_ruler
from goalseek.phase_values import Context
from goalseek.project import directions
from goalseek.project.paths import TWO_NAMES, other_folder_message
from goalseek.providers.prompt_templates import Templates, load_templates
from goalseek.values import StopReason, short_digest, to_line
from goalseek.workspace import hidden_files
from goalseek.workspace.checkout import TreePlan
from goalseek.workspace.listing import Listing
from goalseek.workspace.scope import Scope, manifest_scope


def open_repository(loaded: ManifestFile) -> Repository:
    """Raises GoalseekError if another folder has a climb of this name."""
    location = locate(loaded.folder / loaded.manifest.project.repo)
    if message := other_folder_message(loaded, location):
        raise GoalseekError(message, TWO_NAMES, USAGE)
    add_own(loaded.logs, loaded.runs)
    return Repository(location, loaded.manifest.project.name, loaded.manifest.log.branch_prefix)


def pinned_view(loaded: ManifestFile, repository: Repository) -> tuple[Manifest, Scope, Listing]:
    """The manifest with the keys that the ruler pins, its scope, and the files of ``hidden_from``; for readers."""
    head = repository.position(repository.ledger_ref)
    ruler = read_ruler(repository.objects, repository.tree_of(head)) if head else None
    manifest = with_pinned_ruler(loaded.manifest, ruler) if ruler else loaded.manifest
    listing = ruler.hidden_from if ruler else ()
    prefix = folder_prefix(repository.top, base_of(loaded, repository.top))
    return manifest, manifest_scope(loaded, manifest, prefix, listing), listing


def refuse_missing_home(loaded: ManifestFile) -> None:
    """Raises GoalseekError if the folder of the logs is a broken link, or no folder."""
    home = loaded.home
    if os.path.lexists(home) and not home.is_dir():
        problem = f"a link to {os.readlink(home)}, which does not exist" if home.is_symlink() else "no folder"
        message = f"log.home: {home} is {problem}"
        raise GoalseekError(message, "mount or make the folder, or choose another log.home", StopReason.REPOSITORY)


class Config(Struct, frozen=True):
    manifest: Manifest
    scope: Scope
    trees: TreePlan
    program: str
    directions: tuple[directions.Direction, ...]
    notes: tuple[str, ...] = ()
    templates: Templates = {}


class ConfigReader:
    """Reads configurations by the last good manifest, ``loaded``, and caches unchanged parts."""

    def __init__(self, loaded: ManifestFile, ledger: Ledger, prefix: str, asked: ProviderTable | None) -> None:
        self.loaded = loaded
        self.folder = loading.base_of(loaded, ledger.repository.top)
        self._ledger = ledger
        self._prefix = prefix  # the path of ``folder`` in a tree
        self._asked = asked  # the provider of the command line
        self._templates: Templates | None = None
        self._pinned: tuple[ManifestFile, Ruler, Manifest] | None = None  # the last result, after its sources
        self._scope_cache: tuple[tuple[Manifest, Listing, bool], Scope, str] | None = None

    def reload(self) -> tuple[str, ...]:
        """Read the manifest again; if it is wrong, keep the last good one and return a note."""
        try:
            self.reload_strictly()
        except GoalseekError as error:
            return (f"the manifest is invalid now, so the last valid one applies: {error.message.splitlines()[0]}",)
        return ()

    def reload_strictly(self) -> None:
        """Raises GoalseekError if the manifest is wrong now."""
        before, self.loaded = self.loaded, loading.load(self.loaded.path, self.loaded)
        if self.loaded is not before:
            add_own(self.loaded.logs, self.loaded.runs)

    def read_pinned(self, mounts: bool, notes: tuple[str, ...], trees: tuple[str, str] | None = None) -> Config:
        """The configuration of an iteration: the ruler's keys as pinned, all others from the manifest.

        Candidates changed the paths in which the older and newer of ``trees`` differ (None: baseline and incumbent).
        Raises GoalseekError if the ruler has a key of an earlier version.
        """
        changed_paths, ruler = self._changed_paths(trees), self._ledger.pinned_ruler()
        if ruler is None:
            return self.read(self.loaded.manifest, mounts, notes, changed_paths=changed_paths)
        if self._pinned is None or self._pinned[0] is not self.loaded or self._pinned[1] is not ruler:
            refuse_removed_keys(ruler)
            self._pinned = (self.loaded, ruler, with_pinned_ruler(self.loaded.manifest, ruler))
        return self.read(self._pinned[2], mounts, notes, ruler.hidden_from, changed_paths)

    def read_begun(self, config: Config, context: Context, mounts: bool) -> Config:
        """The configuration of a resumed iteration: its scope stays as it was when it began."""
        scope = config.manifest.scope
        first_scope = structs.replace(scope, writable=context.writable, generated=context.generated)
        if not context.writable or first_scope == scope:
            return config
        manifest = structs.replace(config.manifest, scope=first_scope)
        first_config = self.read(manifest, mounts, (), config.trees.hidden_from, self._changed_paths(None))
        note = (
            "the manifest's scope has changed since the iteration began; the new one holds from the next iteration on"
        )
        return structs.replace(first_config, notes=(*config.notes, note))

    def read(
        self,
        manifest: Manifest,
        mounts: bool,
        notes: tuple[str, ...] = (),
        pinned_files: Listing | None = None,
        changed_paths: frozenset[str] = frozenset(),
    ) -> Config:
        """The configuration by a manifest, whatever is pinned.

        ``mounts``: trees are mounted on the repository's own path. Lists the files of ``hidden_from`` if
        ``pinned_files`` is None, and raises GoalseekError if it cannot.
        """
        loaded, repository = self.loaded, self._ledger.repository
        hidden_folder = hidden_files.folder_of(self.folder, manifest)
        listing = pinned_files or ()
        if pinned_files is None and hidden_folder:
            listing = hidden_files.list_hidden(hidden_folder, repository.top)
        links = {self._prefix + path: str((self.folder / path).resolve()) for path in manifest.scope.share}
        scope_inputs = (manifest, listing, mounts)
        if self._scope_cache is None or self._scope_cache[0] != scope_inputs:
            scope = manifest_scope(loaded, manifest, self._prefix, listing)
            scope = structs.replace(scope, proposer=frozenset(proposer_files(manifest, scope)), known={})
            self._scope_cache = (scope_inputs, scope, self._scope_key(manifest, links, mounts, listing))
        _, scope, key = self._scope_cache
        if outside_paths := frozenset(path for path in changed_paths if scope.kind(path) == "other"):
            # Candidates have changed these while the scope was wider.
            scope = structs.replace(scope, changed=outside_paths, known={})
            key = short_digest(to_line([key, sorted(outside_paths)]))
        program = directions.read_program(self.folder, manifest)
        told = tuple(directions.read_directions(loaded.directions))
        provider = self._asked or loaded.manifest.provider
        try:
            self._templates = load_templates(self.folder / provider.prompts if provider and provider.prompts else None)
        except GoalseekError as error:
            if self._templates is None:
                raise
            notes = (*notes, f"the prompts are invalid now, so the last valid ones apply: {error.message}")
        # The proposer's scripts that no candidate may change are those of HEAD: to commit one needs no baseline.
        paths = [path for path in sorted(scope.proposer) if scope.kind(path) not in ("hidden", "generated", "writable")]
        reader = TreeReader(repository.objects, repository.tree_of(repository.head()) if paths else "")
        entries = {path: reader.entry(path) for path in paths}
        proposer = {path: entry for path, entry in entries.items() if entry and entry.mode.startswith("100")}
        keep = tuple(pattern for command in manifest.verify for pattern in command.keep)
        trees = TreePlan(scope, key, keep, links, mounts, listing, hidden_folder, proposer)
        return Config(manifest, scope, trees, program, told, notes, self._templates)

    def _changed_paths(self, trees: tuple[str, str] | None) -> frozenset[str]:
        standing = self._ledger.standing
        if trees is None and standing.baseline and standing.incumbent:
            trees = (standing.baseline.tree, standing.incumbent.tree)
        if trees is None:
            return frozenset()
        return frozenset(self._ledger.repository.objects.changed_paths(*trees))

    def _scope_key(self, manifest: Manifest, links: dict[str, str], mounts: bool, listing: Listing) -> str:
        table = manifest.provider
        others = [[other.script, other.record] for other in authors_of(table, manifest.search.rotate)[bool(table) :]]
        lists = (
            self._ledger.seal.digest("trees"),
            manifest.scope,
            [table.script, table.prompts, table.record] if table else "",
            *([others] if others else []),
            manifest.cheat,
            links,
            mounts,
            *([listing] if listing else []),
            *([manifest.parallel.tls.key] if manifest.parallel.tls else []),
            *(["nothing tracked stands in its place"] if links else []),
        )
        return short_digest(to_line(lists))
