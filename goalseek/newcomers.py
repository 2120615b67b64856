"""The new files of a candidate: which of them are refused for their name, and what each comes to stand beside."""

from __future__ import annotations

from collections.abc import Iterable

from goalseek.git.objects import FOLDER, Entry, Objects
from goalseek.git.paths import quote_path
from goalseek.planted import alike, doubles_back, never, planted, stands_in
from goalseek.scope import Scope, leaves_tree


class Newcomers:
    """The paths that a change adds to a tree. Of the tree only the folders are read that they are in."""

    def __init__(self, objects: Objects, tree: str, scope: Scope, added: Iterable[str], removed: Iterable[str]) -> None:
        self._objects = objects
        self._scope = scope
        self._added = frozenset(added)
        self._removed = frozenset(removed)
        self._tree = tree
        self._levels: dict[str, dict[str, Entry]] = {}
        self._alike: dict[str, dict[str, list[str]]] = {}
        self._new: dict[str, str] = {}

    def refusal(self, path: str, is_ignored: bool, is_link: bool = False) -> str:
        """Why there may be no new file of this name, or ""."""
        quoted = quote_path(path)
        if why := never(path):
            return f"{quoted}: {why}"
        for part, why in planted(path, is_ignored):
            if not self._scope.names(path, part):
                return f"{quoted}: {why}; list {quote_path(part)} in scope.writable if it is wanted"
        if is_ignored:
            return ""
        for part, why in stands_in(path, is_link, self._has, self._added.__contains__, self._scope.is_fixed):
            if not self._scope.names(path, part):
                return f"{quoted}: {why}; list {quote_path(part)} in scope.writable if it is wanted"
        if other := self._only_by_case(path):
            return f"{quoted} differs from {quote_path(other)} only by case or spelling"
        return ""

    def link_refusal(self, path: str, target: str) -> str:
        """Why there may be no such link, or ""."""
        if leaves_tree(path, target):
            return f"{quote_path(path)} is a link that leaves the tree"
        if doubles_back(target):
            return f"{quote_path(path)} is a link whose target goes down and up again: it may leave the tree"
        return ""

    def _has(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return name in self._level(folder)

    def _level(self, folder: str) -> dict[str, Entry]:
        if not folder and not self._levels:
            self._levels[""] = self._objects.tree(self._tree)
        if folder not in self._levels:
            above, _, name = folder.rpartition("/")
            entry = self._level(above).get(name)
            is_folder = entry is not None and entry.mode == FOLDER
            self._levels[folder] = self._objects.tree(entry.blob) if entry and is_folder else {}
        return self._levels[folder]

    def _only_by_case(self, path: str) -> str:
        """Another path that some file system takes for this one or for a folder above it, or ""."""
        folder = ""
        for name in path.split("/"):
            here = f"{folder}/{name}" if folder else name
            if name not in self._level(folder):
                for other in self._likes(folder).get(alike(name), ()):
                    there = f"{folder}/{other}" if folder else other
                    if not self._is_gone(there):
                        return there
            folder = here
            known = self._new.setdefault("/".join(map(alike, here.split("/"))), here)
            if known != here:
                return known
        return ""

    def _likes(self, folder: str) -> dict[str, list[str]]:
        if folder not in self._alike:
            found: dict[str, list[str]] = {}
            for name in self._level(folder):
                found.setdefault(alike(name), []).append(name)
            self._alike[folder] = found
        return self._alike[folder]

    def _is_gone(self, path: str) -> bool:
        """Whether the change removes a file, or every file of a folder: then a new name is only a new name."""
        folder, _, name = path.rpartition("/")
        entry = self._level(folder)[name]
        if entry.mode != FOLDER:
            return path in self._removed
        return all(f"{path}/{inner}" in self._removed for inner in self._objects.files(entry.blob))
