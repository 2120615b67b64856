"""What one iteration goes by: the manifest under the pinned ruler, and what follows from it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.manifest.loading import Loaded
from goalseek.manifest.tables import Manifest, ProviderTable
from goalseek.project import directions
from goalseek.project.directions import Direction
from goalseek.providers.prompt_templates import Templates, load_templates
from goalseek.values import to_line
from goalseek.workspace import hidden_files
from goalseek.workspace.scan import Listing
from goalseek.workspace.scope import Scope, scope_of


@dataclass(frozen=True)
class Config:
    """The manifest, and what follows from it.

    ``links`` are the shared folders: path in a tree, place on disk. ``hidden_from`` are the files of that folder as the
    ruler has them; ``templates`` are the prompts, by phase; ``notes`` are what a person should know.
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
    """Makes settings, and makes only once what stays the same.

    ``folder`` is what paths and globs are relative to, ``prefix`` its path in a tree, ``top`` the repository's.
    ``sealed`` gives a digest that only this project's secret can make.
    """

    def __init__(self, folder: Path, prefix: str, top: Path, sealed: Callable[[str], str]) -> None:
        self.folder = folder
        self._prefix = prefix
        self._top = top
        self._sealed = sealed
        self._templates: Templates | None = None
        self._scopes: tuple[tuple[Manifest, Listing, bool], Scope, str] | None = None
        self._narrower: tuple[Scope, Scope] | None = None

    def read(
        self,
        loaded: Loaded,
        manifest: Manifest,
        asked: ProviderTable | None,
        mounts: bool,
        told: tuple[str, ...] = (),
        pinned: Listing | None = None,
        changed: frozenset[str] = frozenset(),
    ) -> Config:
        """What follows from a manifest; ``told`` is what a person should know about it.

        ``asked`` is the provider that proposes; ``mounts`` says whether trees are mounted on the repository's own path.
        ``pinned`` are the files of ``hidden_from``; None for those that are there now. ``changed`` are the paths that
        candidates have changed. Raises GoalseekError where the files of ``hidden_from`` cannot be had.
        """
        more = self._hidden_files(manifest) if pinned is None else pinned
        links = {self._prefix + path: str((self.folder / path).resolve()) for path in manifest.scope.share}
        made_for = (manifest, more, mounts)
        if self._scopes is None or self._scopes[0] != made_for:
            scope = scope_of(loaded, manifest, self._prefix, more)
            self._scopes = (made_for, scope, self._key(manifest, links, mounts, more))
        scope, key = self._with_changed(*self._scopes[1:], changed)
        program = self.folder / (manifest.project.program or "program.md")
        text = program.read_text("utf-8", "replace") if program.is_file() else ""
        told_by = tuple(directions.directions(loaded.directions))
        templates, wrong = self._read_templates(asked)
        return Config(manifest, scope, key, text, told_by, (*told, *wrong), links, more, templates)

    def _with_changed(self, scope: Scope, key: str, changed: frozenset[str]) -> tuple[Scope, str]:
        """The scope and its key, where a path that candidates have changed is none of theirs any more."""
        kept = frozenset(path for path in changed if scope.kind(path) == "other")
        if not kept:
            return scope, key
        if self._narrower is None or self._narrower[0] is not scope or self._narrower[1].changed != kept:
            self._narrower = (scope, replace(scope, changed=kept, known={}))
        return self._narrower[1], hashlib.sha256(to_line([key, sorted(kept)]).encode()).hexdigest()[:16]

    def _key(self, manifest: Manifest, links: dict[str, str], mounts: bool, more: Listing) -> str:
        """What trees depend on: where it is another one, they are made anew."""
        table = manifest.provider
        lists = (
            self._sealed("trees"),
            manifest.scope,
            [table.script, table.prompts, table.record, table.recordings] if table else "",
            manifest.cheat,
            links,
            mounts,
            *([more] if more else []),
            *(["nothing tracked stands in its place"] if links else []),
        )
        return hashlib.sha256(to_line(lists).encode()).hexdigest()[:16]

    def _read_templates(self, asked: ProviderTable | None) -> tuple[Templates, tuple[str, ...]]:
        """The prompts as they are now. Of those that are wrong, the last good ones hold, and a note says so."""
        folder = self.folder / asked.prompts if asked and asked.prompts else None
        try:
            self._templates = load_templates(folder)
        except GoalseekError as error:
            if self._templates is None:
                raise
            return self._templates, (f"the prompts are wrong now, the last good ones hold: {error.message}",)
        return self._templates, ()

    def _hidden_files(self, manifest: Manifest) -> Listing:
        """The files of ``hidden_from`` as they are now. Raises GoalseekError where they cannot be had."""
        folder = hidden_files.folder_of(self.folder, manifest)
        return hidden_files.list_hidden(folder, self._top) if folder else ()
