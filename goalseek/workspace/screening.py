"""Screening of a provider's change against the scope, path by path: what is taken, left out or refused, and why."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path

from msgspec import Struct, field

from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import FOLDER, SYMLINK, quote_path
from goalseek.own_folders import read_regular
from goalseek.workspace.checkout import LINK, Checkout
from goalseek.workspace.forbidden_names import (
    TreePaths,
    doubles_back,
    fold_name,
    forbidden_names,
    git_name_refusal,
    import_shadowing,
)
from goalseek.workspace.scan import Changes
from goalseek.workspace.scope import Scope, is_tool_cache, leaves_tree, parent_out_of_scope


class ChangeSize(Struct):
    """The number and bytes of a change's files, counted before any is read; a sparse file counts with its full size."""

    files: int = 0
    size: int = 0

    def add(self, path: Path) -> str:
        """Counts one more file; gives why the change is now too large, or "". Raises OSError where there is none."""
        status = path.lstat()
        size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        self.files += 1
        self.size += size
        if self.files > MAX_FILES:
            return f"the change has more than {MAX_FILES} files"
        if self.size > MAX_BYTES:
            return f"with its {size} bytes the change is larger than {MAX_BYTES // 1024**2} MiB"
        return ""


class ScreenedChange(Struct, frozen=True):
    """A change, sorted by what is done with each path.

    ``edits`` are the candidate's; ``beyond`` is what it did to files that are not its to edit, by path; ``strays`` are
    new files outside the scope; ``refused`` says in words why there can be no candidate.
    """

    edits: dict[str, Entry | None] = field(default_factory=dict)
    out_of_scope: dict[str, Entry | None] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    size: ChangeSize = field(default_factory=ChangeSize)


class Screening(Struct, frozen=True):
    """What the changes of the folder ``tree`` are checked against. Files that are taken are copied to ``snapshot``."""

    tree: Checkout
    scope: Scope
    ignored: Callable[[str], bool]
    added_files: AddedFiles
    objects: Objects
    snapshot: Path


def screen(screening: Screening, changes: Changes) -> ScreenedChange:
    """Sorts the paths of a change, and stores the files that are taken as blobs."""
    tree, scope, result = screening.tree, screening.scope, ScreenedChange()
    for path in changes.added:
        _screen_new(screening, path, result)
    for path in (*changes.changed, *changes.missing):
        if scope.kind(path) == "generated":
            continue
        if scope.kind(path) != "writable":
            is_unread = path in changes.missing or result.size.add(tree.root / path)
            entry = None if is_unread else _entry(screening, path)
            if entry is None or not _is_as_before(tree, path, entry):  # touched, or put back as it was, is no edit
                result.refused.append(
                    shared_path_refusal(scope, path) or f"{quote_path(path)} is not the candidate's to edit"
                )
                result.out_of_scope[path] = entry
        elif path in changes.missing:
            result.edits[path] = None
        else:
            _take(screening, path, result)
    return result


def _screen_new(screening: Screening, path: str, result: ScreenedChange) -> None:
    kind, is_ignored = screening.scope.kind(path), screening.ignored(path)
    if why := new_path_refusal(screening.added_files, screening.tree.entries, path, is_ignored):
        result.refused.append(why)
    elif is_ignored or is_tool_cache(path) or kind == "generated":
        return
    elif kind != "writable":
        result.strays.append(path)
    else:
        _take(screening, path, result)


def new_path_refusal(
    added_files: AddedFiles, entries: Mapping[str, Entry], path: str, is_ignored: bool, is_link: bool = False
) -> str:
    """Why a candidate may have no new file at this path, beside the tree's ``entries``; "" where it may, or is none."""
    scope = added_files.scope
    kind, quoted = scope.kind(path), quote_path(path)
    if kind == "hidden":
        return f"{quoted} is new under a hidden pattern"
    if why := shared_path_refusal(scope, path):
        return why
    if kind != "writable" or is_tool_cache(path):
        return ""
    if above := parent_out_of_scope(path, entries, lambda entry: scope.kind(entry) != "writable"):
        return f"{quoted} lies below {quote_path(above)}, which is not the candidate's to edit"
    return added_files.refusal(path, is_ignored, is_link)


def shared_path_refusal(scope: Scope, path: str) -> str:
    """Why a candidate may have no file at this path because of a shared one; "" where it may."""
    shared, quoted = scope.share_at(path), quote_path(path)
    if shared is None:
        return ""
    if path == shared:
        return f"{quoted} is shared, read-only"
    how = "lies in" if path.startswith(f"{shared}/") else "stands in the way of"
    return f"{quoted} {how} {quote_path(shared)}, which is shared, read-only"


def _is_as_before(tree: Checkout, path: str, entry: Entry) -> bool:
    before = tree.entries[path]
    if before.mode == LINK:
        return entry.mode == SYMLINK and os.readlink(tree.root / path) == before.blob
    return entry == before


def _take(screening: Screening, path: str, result: ScreenedChange) -> None:
    """Takes a changed file out of the workspace: a regular file, or a link that stays in the tree."""
    tree = screening.tree
    try:
        if why := result.size.add(tree.root / path):
            result.refused.append(f"{quote_path(path)}: {why}")
            return
        entry = _entry(screening, path)
    except OSError as error:
        result.refused.append(f"{quote_path(path)} cannot be read: {error.strerror}")
        return
    if entry is None:
        result.refused.append(f"{quote_path(path)} is neither a file nor a link")
        return
    before = tree.entries.get(path)
    if entry == before:
        return
    refusal = ""
    if entry.mode == SYMLINK:
        refusal = link_refusal(path, os.readlink(tree.root / path))
        if before is None or before.mode != SYMLINK:
            refusal = refusal or screening.added_files.refusal(path, is_ignored=False, is_link=True)
    if refusal:
        result.refused.append(refusal)
    else:
        result.edits[path] = entry


def link_refusal(path: str, target: str) -> str:
    """Why a candidate may have no such link, or ""."""
    if leaves_tree(path, target):
        return f"{quote_path(path)} is a link that leaves the tree"
    if doubles_back(target):
        return f"{quote_path(path)} is a link whose target goes down and up again: it may leave the tree"
    return ""


def _entry(screening: Screening, path: str) -> Entry | None:
    """The entry of a path of the workspace, its blob stored; None for what git cannot hold."""
    objects, root = screening.objects, screening.tree.root
    full_path = root / path
    mode = full_path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return Entry(SYMLINK, objects.write_bytes(os.fsencode(os.readlink(full_path))))
    if not stat.S_ISREG(mode):
        return None
    copy = screening.snapshot / path
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(read_regular(root, path))
    return Entry("100755" if mode & stat.S_IXUSR else "100644", objects.write_file(copy))


def gitignore_matcher(tree: Checkout, objects: Objects) -> Callable[[str], bool]:
    """A matcher of what the tree's ``.gitignore`` files ignore, as they were before the provider's edits."""
    files = [path for path in tree.entries if path == ".gitignore" or path.endswith("/.gitignore")]
    rules = []
    for path in sorted(files):
        lines = objects.read(tree.entries[path].blob).decode("utf-8", "surrogateescape").splitlines()
        patterns = tuple(line.rstrip() for line in lines if line.strip() and not line.startswith("#"))
        rules.append((path.removesuffix(".gitignore"), matcher(patterns)))

    def ignored(path: str) -> bool:
        return any(path.startswith(folder) and matches(path[len(folder) :]) for folder, matches in rules)

    return ignored


class AddedFiles:
    """The paths that a change adds to a tree. Of the tree only the folders are read that they are in."""

    def __init__(self, objects: Objects, tree: str, scope: Scope, added: Iterable[str], removed: Iterable[str]) -> None:
        self._objects = objects
        self.scope = scope
        self._added = frozenset(added)
        self._removed = frozenset(removed)
        self._tree = tree
        self._levels: dict[str, dict[str, Entry]] = {}
        self._alike_by_folder: dict[str, dict[str, list[str]]] = {}
        self._new_paths: dict[str, str] = {}

    def refusal(self, path: str, is_ignored: bool, is_link: bool = False) -> str:
        """Why there may be no new file of this name, or ""."""
        quoted = quote_path(path)
        if why := git_name_refusal(path):
            return f"{quoted}: {why}"
        tree = TreePaths(self._has, self._added.__contains__, self.scope.is_fixed)
        for part, why in chain(
            forbidden_names(path, is_ignored), () if is_ignored else import_shadowing(path, is_link, tree)
        ):
            if not self.scope.names(path, part):
                return f"{quoted}: {why}; list {quote_path(part)} in scope.writable if it is wanted"
        if not is_ignored and (other := self._path_alike(path)):
            return f"{quoted} differs from {quote_path(other)} only by case or spelling"
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

    def _path_alike(self, path: str) -> str:
        """Another path that some file system takes for this one or for a folder above it, or ""."""
        folder = ""
        for name in path.split("/"):
            current = f"{folder}/{name}" if folder else name
            if name not in self._level(folder):
                for other in self._names_alike(folder).get(fold_name(name), ()):
                    other_path = f"{folder}/{other}" if folder else other
                    if not self._is_gone(other_path):
                        return other_path
            folder = current
            first_path = self._new_paths.setdefault("/".join(map(fold_name, current.split("/"))), current)
            if first_path != current:
                return first_path
        return ""

    def _names_alike(self, folder: str) -> dict[str, list[str]]:
        if folder not in self._alike_by_folder:
            names: dict[str, list[str]] = {}
            for name in self._level(folder):
                names.setdefault(fold_name(name), []).append(name)
            self._alike_by_folder[folder] = names
        return self._alike_by_folder[folder]

    def _is_gone(self, path: str) -> bool:
        """Whether the change removes a file, or every file of a folder: then a new name is only a new name."""
        folder, _, name = path.rpartition("/")
        entry = self._level(folder)[name]
        if entry.mode != FOLDER:
            return path in self._removed
        return all(f"{path}/{inner}" in self._removed for inner in self._objects.files(entry.blob))


MAX_FILES = 20_000
MAX_BYTES = 256 * 1024 * 1024
