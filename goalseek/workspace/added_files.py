"""What a change adds to a tree: names, places and links that no candidate may bring, each with the reason."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable

from goalseek.git.objects import Objects
from goalseek.git.paths import FOLDER, SUBMODULE, SYMLINK, looks_like_git, quote_path
from goalseek.git.trees import TreeReader
from goalseek.workspace.forbidden_names import (
    INSTRUCTIONS,
    TreePaths,
    doubles_back,
    fold_name,
    forbidden_names,
    import_shadowing,
)
from goalseek.workspace.scope import Scope, follow_link, is_tool_cache, leaves_tree, parents


class AddedFiles:
    """The paths and links that a change adds to a tree. Of the tree only the folders are read that they concern."""

    def __init__(self, objects: Objects, tree: str, scope: Scope, added: Iterable[str], removed: Iterable[str]) -> None:
        self._objects = objects
        self._tree = TreeReader(objects, tree)
        self._entry = self._tree.entry
        self.scope = scope
        self._removed = frozenset(removed)
        self._names_alike = functools.cache(self._group_alike)
        self._is_candidates = functools.cache(self._is_all_writable)
        self._new_paths: dict[str, str] = {}
        self._paths = TreePaths(self._tree.has, frozenset(added).__contains__, scope.is_fixed)

    def path_refusal(self, path: str, is_ignored: bool) -> str:
        """Why a candidate may have no new file at this path; "" where it may, or where the file is left out."""
        kind, quoted = self.scope.kind(path), quote_path(path)
        if kind == "hidden":
            return f"{quoted} lies under a hidden pattern, where no candidate may write"
        if why := shared_path_refusal(self.scope, path):
            return why
        is_open = kind == "writable" or self.scope.unlisted_instructions(path)
        if not is_open or is_tool_cache(path):
            return ""
        for above in parents(path):
            entry = self._entry(above)
            if entry and entry.mode not in (FOLDER, SUBMODULE) and self.scope.kind(above) != "writable":
                return f"{quoted} lies below {quote_path(above)}, which is not the candidate's to edit"
        return self.name_refusal(path, is_ignored)

    def name_refusal(self, path: str, is_ignored: bool = False, is_link: bool = False) -> str:
        """Why there may be no new file of this name, or ""."""
        quoted = quote_path(path)
        if looks_like_git(path):
            return f"{quoted}: no candidate may bring a name that git takes for its own"
        hazards = [*forbidden_names(path.removeprefix(self.scope.prefix), is_ignored)]
        for part, why in (*hazards, *(() if is_ignored else import_shadowing(path, is_link, self._paths))):
            if not self.scope.names(path, part):
                return unlisted_refusal(path, why, part)
        if not is_ignored and (other := self._path_alike(path)):
            return f"{quoted} differs from {quote_path(other)} only by case or spelling"
        return ""

    def link_refusal(self, path: str, target: str) -> str:
        """Why a candidate may have no such link, or ""."""
        quoted = quote_path(path)
        if leaves_tree(path, target):
            return f"{quoted} is a link that leaves the tree"
        if doubles_back(target):
            return f"{quoted} is a link whose target goes down and up again: it may leave the tree"
        steps = follow_link(path, target, self._read_link)
        if not steps:
            return f"{quoted} is a link that leaves the tree, or leads in a circle"
        if not self._is_candidates(steps[-1]):
            return f"{quoted} is a link to {quote_path(steps[-1] or '.')}, which is not all the candidate's to edit"
        return ""

    def _read_link(self, path: str) -> str | None:
        entry = self._entry(path)
        return os.fsdecode(self._objects.read(entry.blob)) if entry and entry.mode == SYMLINK else None

    def _is_all_writable(self, path: str) -> bool:
        """Whether a path, and everything below it if it is a folder, is the candidate's."""
        entry, kind = self._entry(path), self.scope.kind
        if entry is None or entry.mode != FOLDER:
            return kind(path) in ("writable", "generated") and kind(f"{path}/-") != "hidden"
        prefix = f"{path}/" if path else ""
        return kind(path) not in ("hidden", "read_only") and all(
            kind(prefix + inner) in ("writable", "generated") for inner in self._objects.files(entry.blob)
        )

    def _group_alike(self, folder: str) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for name in self._tree.folder(folder):
            names.setdefault(fold_name(name), []).append(name)
        return names

    def _path_alike(self, path: str) -> str:
        """Another path that some file system takes for this one or for a folder above it, or ""."""
        for current in (*reversed([*parents(path)]), path):
            folder, slash, name = current.rpartition("/")
            if name not in self._tree.folder(folder):
                for other in self._names_alike(folder).get(fold_name(name), ()):
                    if not self._is_gone(f"{folder}{slash}{other}"):
                        return f"{folder}{slash}{other}"
            first_path = self._new_paths.setdefault("/".join(map(fold_name, current.split("/"))), current)
            if first_path != current:
                return first_path
        return ""

    def _is_gone(self, path: str) -> bool:
        """Whether the change removes a file, or every file of a folder: then a new name is only a new name."""
        entry = self._entry(path)
        if entry is None or entry.mode != FOLDER:
            return path in self._removed
        return all(f"{path}/{inner}" in self._removed for inner in self._objects.files(entry.blob))


def shared_path_refusal(scope: Scope, path: str) -> str:
    """Why a candidate may have no file at this path because of a shared one; "" where it may."""
    shared, quoted = scope.share_at(path), quote_path(path)
    if shared is None:
        return ""
    if path == shared:
        return f"{quoted} is shared, read-only"
    how = "lies in" if path.startswith(f"{shared}/") else "stands in the way of"
    return f"{quoted} {how} {quote_path(shared)}, which is shared, read-only"


def known_path_refusal(scope: Scope, path: str) -> str:
    """Why a candidate may not change an existing file that is not writable."""
    if why := shared_path_refusal(scope, path):
        return why
    if part := scope.unlisted_instructions(path):
        return unlisted_refusal(path, INSTRUCTIONS, part)
    return f"{quote_path(path)} is not the candidate's to edit"


def unlisted_refusal(path: str, why: str, part: str) -> str:
    """The refusal of a path for a part of it, which the manifest may list."""
    return f"{quote_path(path)}: {why}; list {quote_path(part)} in scope.writable if it is wanted"
