"""The configuration of one iteration: the manifest under the pinned ruler, and all that follows from it.

It is read afresh for each iteration, so that a person can change manifest, program, prompts and directions meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import Manifest, ProviderTable
from goalseek.project import directions
from goalseek.project.directions import Direction
from goalseek.providers.prompt_templates import Templates, load_templates
from goalseek.values import to_line
from goalseek.workspace import hidden_files
from goalseek.workspace.scan import Listing
from goalseek.workspace.scope import Scope, manifest_scope


@dataclass(frozen=True)
class Config:
    """The manifest, and all that one iteration takes from it.

    ``links`` are the shared folders: path in a tree to path on disk. ``hidden_from`` are the files of that folder as
    the ruler has them; ``templates`` are the prompts, by phase; ``notes`` are what a person should know.
    """

    manifest: Manifest
    scope: Scope
    scope_key: str
    program: str
    directions: tuple[Direction, ...]
    notes: tuple[str, ...] = ()
    links: dict[str, str] = field(default_factory=dict)
    hidden_from: Listing = ()
    templates: Templates = field(default_factory=dict)


class ConfigReader:
    """Reads configurations; scope and prompts are computed again only where they have changed.

    ``folder`` is what paths and globs are relative to, ``prefix`` its path in a tree, ``top`` the repository's.
    ``digest`` gives a digest that only this project's secret can make.
    """

    def __init__(self, folder: Path, prefix: str, top: Path, digest: Callable[[str], str]) -> None:
        self.folder = folder
        self._prefix = prefix
        self._top = top
        self._digest = digest
        self._templates: Templates | None = None
        self._scope_cache: tuple[tuple[Manifest, Listing, bool], Scope, str] | None = None
        self._narrow_cache: tuple[Scope, Scope] | None = None

    def read(
        self,
        loaded: ManifestFile,
        manifest: Manifest,
        provider_table: ProviderTable | None,
        mounts: bool,
        notes: tuple[str, ...] = (),
        pinned_files: Listing | None = None,
        changed_paths: frozenset[str] = frozenset(),
    ) -> Config:
        """The configuration that follows from a manifest; ``notes`` are what a person should know about it.

        ``provider_table`` is that of the provider that proposes; ``mounts`` says whether trees are mounted on the
        repository's own path. ``pinned_files`` are the files of ``hidden_from``; None for those that are there now.
        ``changed_paths`` are those that candidates have changed. Raises GoalseekError where the files of
        ``hidden_from`` cannot be read.
        """
        listing = self._list_hidden_files(manifest) if pinned_files is None else pinned_files
        links = {self._prefix + path: str((self.folder / path).resolve()) for path in manifest.scope.share}
        scope_inputs = (manifest, listing, mounts)
        if self._scope_cache is None or self._scope_cache[0] != scope_inputs:
            scope = manifest_scope(loaded, manifest, self._prefix, listing)
            self._scope_cache = (scope_inputs, scope, self._scope_key(manifest, links, mounts, listing))
        scope, key = self._narrow_scope(*self._scope_cache[1:], changed_paths)
        program = self.folder / (manifest.project.program or "program.md")
        text = program.read_text("utf-8", "replace") if program.is_file() else ""
        current_directions = tuple(directions.read_directions(loaded.directions))
        templates, template_notes = self._read_templates(provider_table)
        return Config(
            manifest, scope, key, text, current_directions, (*notes, *template_notes), links, listing, templates
        )

    def _narrow_scope(self, scope: Scope, key: str, changed_paths: frozenset[str]) -> tuple[Scope, str]:
        """The scope and its key, with the changed paths that the scope does not let candidates change any more."""
        outside_paths = frozenset(path for path in changed_paths if scope.kind(path) == "other")
        if not outside_paths:
            return scope, key
        if (
            self._narrow_cache is None
            or self._narrow_cache[0] is not scope
            or self._narrow_cache[1].changed != outside_paths
        ):
            self._narrow_cache = (scope, replace(scope, changed=outside_paths, known={}))
        return self._narrow_cache[1], hashlib.sha256(to_line([key, sorted(outside_paths)]).encode()).hexdigest()[:16]

    def _scope_key(self, manifest: Manifest, links: dict[str, str], mounts: bool, listing: Listing) -> str:
        """A digest of all that trees depend on: where it is another one, they are made anew."""
        table = manifest.provider
        lists = (
            self._digest("trees"),
            manifest.scope,
            [table.script, table.prompts, table.record, table.recordings] if table else "",
            manifest.cheat,
            links,
            mounts,
            *([listing] if listing else []),
            *(["nothing tracked stands in its place"] if links else []),
        )
        return hashlib.sha256(to_line(lists).encode()).hexdigest()[:16]

    def _read_templates(self, provider_table: ProviderTable | None) -> tuple[Templates, tuple[str, ...]]:
        """The prompts as they are now; where they are wrong, the last good ones and a note that says so."""
        folder = self.folder / provider_table.prompts if provider_table and provider_table.prompts else None
        try:
            self._templates = load_templates(folder)
        except GoalseekError as error:
            if self._templates is None:
                raise
            return self._templates, (f"the prompts are wrong now, the last good ones hold: {error.message}",)
        return self._templates, ()

    def _list_hidden_files(self, manifest: Manifest) -> Listing:
        """The files of ``hidden_from`` as they are now. Raises GoalseekError where they cannot be read."""
        folder = hidden_files.folder_of(self.folder, manifest)
        return hidden_files.list_hidden(folder, self._top) if folder else ()
