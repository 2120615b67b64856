"""What a provider changed, held against the scope path by path: what is taken, what is left out, what is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import FOLDER, SYMLINK, quote_path
from goalseek.own_folders import read_regular
from goalseek.workspace.checkout import LINK, Checkout
from goalseek.workspace.forbidden_names import alike, doubles_back, forbidden_names, import_shadowing, never
from goalseek.workspace.scan import Changes
from goalseek.workspace.scope import DROPPINGS, Scope, clashes, leaves_tree


@dataclass
class ChangeSize:
    """The files of one change, counted before any is read: one with holes in it is as large as it says."""

    files: int = 0
    size: int = 0

    def counted(self, path: Path) -> str:
        """Counts one more file; why that is too much, or "". Raises OSError where there is none."""
        found = path.lstat()
        size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        self.files += 1
        self.size += size
        if self.files > FILES_MOST:
            return f"the change has more than {FILES_MOST} files"
        if self.size > BYTES_MOST:
            return f"with its {size} bytes the change is larger than {BYTES_MOST // 1024**2} MiB"
        return ""


@dataclass(frozen=True)
class ScreenedChange:
    """A change by what is to become of it.

    ``edits`` are the candidate's; ``beyond`` is what it did to files that are not its to edit, by path; ``strays`` are
    new files outside the scope; ``refused`` says in words why there can be no candidate.
    """

    edits: dict[str, Entry | None] = field(default_factory=dict)
    beyond: dict[str, Entry | None] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    flood: ChangeSize = field(default_factory=ChangeSize)


@dataclass(frozen=True)
class Screening:
    """What the changes of the folder ``tree`` are held against; the bytes of what is taken go to ``snapshot``."""

    tree: Checkout
    scope: Scope
    ignored: Callable[[str], bool]
    newcomers: AddedFiles
    objects: Objects
    snapshot: Path


def screen(sieve: Screening, changes: Changes) -> ScreenedChange:
    """Sorts a change, and stores the files of it that are taken."""
    tree, scope, found = sieve.tree, sieve.scope, ScreenedChange()
    for path in changes.added:
        _sift_new(sieve, path, found)
    for path in (*changes.changed, *changes.missing):
        if scope.kind(path) == "generated":
            continue
        if scope.kind(path) != "writable":
            is_left = path in changes.missing or found.flood.counted(tree.root / path)
            entry = None if is_left else _entry(sieve, path)
            if entry is None or not _is_as_before(tree, path, entry):  # touched, or put back as it was, is no edit
                found.refused.append(why_shared(scope, path) or f"{quote_path(path)} is not the candidate's to edit")
                found.beyond[path] = entry
        elif path in changes.missing:
            found.edits[path] = None
        else:
            _take(sieve, path, found)
    return found


def _sift_new(sieve: Screening, path: str, found: ScreenedChange) -> None:
    scope, ignored = sieve.scope, sieve.ignored
    kind = scope.kind(path)
    if kind == "hidden":
        found.refused.append(f"{quote_path(path)} is new under a hidden pattern")
    elif why := why_shared(scope, path):
        found.refused.append(why)
    elif DROPPINGS(path) or kind == "generated":
        return
    elif kind != "writable":
        if not ignored(path):
            found.strays.append(path)
    elif above := clashes(path, sieve.tree.entries, lambda entry: scope.kind(entry) != "writable"):
        found.refused.append(f"{quote_path(path)} lies below {quote_path(above)}, which is not the candidate's to edit")
    elif refusal := sieve.newcomers.refusal(path, ignored(path)):
        found.refused.append(refusal)
    elif not ignored(path):
        _take(sieve, path, found)


def why_shared(scope: Scope, path: str) -> str:
    """Why nothing may stand at a path, where it is the place of something shared; "" where it is not."""
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


def _take(sieve: Screening, path: str, found: ScreenedChange) -> None:
    """Takes a changed file out of the workspace: a regular file, or a link that stays in the tree."""
    tree, newcomers = sieve.tree, sieve.newcomers
    try:
        if why := found.flood.counted(tree.root / path):
            found.refused.append(f"{quote_path(path)}: {why}")
            return
        entry = _entry(sieve, path)
    except OSError as error:
        found.refused.append(f"{quote_path(path)} cannot be read: {error.strerror}")
        return
    if entry is None:
        found.refused.append(f"{quote_path(path)} is neither a file nor a link")
        return
    before = tree.entries.get(path)
    if entry == before:
        return
    refusal = ""
    if entry.mode == SYMLINK:
        refusal = newcomers.link_refusal(path, os.readlink(tree.root / path))
        if before is None or before.mode != SYMLINK:
            refusal = refusal or newcomers.refusal(path, is_ignored=False, is_link=True)
    if refusal:
        found.refused.append(refusal)
    else:
        found.edits[path] = entry


def _entry(sieve: Screening, path: str) -> Entry | None:
    """What stands at a path of the workspace, stored; None for what git cannot hold."""
    objects, root = sieve.objects, sieve.tree.root
    full = root / path
    mode = full.lstat().st_mode
    if stat.S_ISLNK(mode):
        return Entry(SYMLINK, objects.write_bytes(os.fsencode(os.readlink(full))))
    if not stat.S_ISREG(mode):
        return None
    place = sieve.snapshot / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(read_regular(root, path))
    return Entry("100755" if mode & stat.S_IXUSR else "100644", objects.write_file(place))


def ignored_by(tree: Checkout, objects: Objects) -> Callable[[str], bool]:
    """What the ``.gitignore`` files of the tree ignore, as they were before anybody edited them."""
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
        for part, why in forbidden_names(path, is_ignored):
            if not self._scope.names(path, part):
                return f"{quoted}: {why}; list {quote_path(part)} in scope.writable if it is wanted"
        if is_ignored:
            return ""
        for part, why in import_shadowing(path, is_link, self._has, self._added.__contains__, self._scope.is_fixed):
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


FILES_MOST = 20_000
BYTES_MOST = 256 * 1024 * 1024
