"""Screening of a provider's change against the scope, path by path: what is taken, left out or refused, and why."""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import FOLDER, SUBMODULE, SYMLINK, looks_like_git, quote_path
from goalseek.own_folders import read_regular
from goalseek.workspace.checkout import LINK, Checkout
from goalseek.workspace.forbidden_names import (
    INSTRUCTIONS,
    TreePaths,
    doubles_back,
    fold_name,
    forbidden_names,
    import_shadowing,
)
from goalseek.workspace.scan import Changes
from goalseek.workspace.scope import Scope, follow_link, is_tool_cache, leaves_tree, parents

MAX_FILES = 20_000
MAX_BYTES = 256 * 1024 * 1024
_IMPORT = re.compile(rb"(?:^|\s)@([^\s`]+)")


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


class Screening(Struct):
    """The change of the folder ``tree``, sorted by what is done with each path. Files that are taken become blobs.

    They are copied to ``snapshot`` first. ``instructions`` are the paths that links with the names of agents'
    instructions lead to. ``edits`` are the candidate's; ``out_of_scope`` is what it did to files that are not its to
    edit; ``strays`` are new files outside the scope; ``refused`` says in words why there can be no candidate.
    """

    tree: Checkout
    added_files: AddedFiles
    ignored: Callable[[str], bool]
    objects: Objects
    snapshot: Path
    instructions: Mapping[str, str]
    size: ChangeSize = field(default_factory=ChangeSize)
    edits: dict[str, Entry | None] = field(default_factory=dict)
    out_of_scope: dict[str, Entry | None] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def screen(self, changes: Changes) -> None:
        """Sorts the paths of a change."""
        missing = frozenset(changes.missing)
        refusals = [self._screen_new(path) for path in changes.added]
        refusals += [self._screen_known(path, path in missing) for path in (*changes.changed, *changes.missing)]
        self.refused.extend(filter(None, refusals))

    def _screen_new(self, path: str) -> str:
        kind, is_ignored = self.added_files.scope.kind(path), self.ignored(path)
        if why := self.added_files.path_refusal(path, is_ignored):
            return why
        if is_ignored or is_tool_cache(path) or kind == "generated":
            return ""
        if kind == "writable":
            return self._instructions_refusal(path) or self._take(path)
        self.strays.append(path)
        return ""

    def _screen_known(self, path: str, is_missing: bool) -> str:
        kind = self.added_files.scope.kind(path)
        if kind == "generated":
            return ""
        if kind != "writable" or self._instructions_refusal(path):
            return self._screen_foreign(path, is_missing)
        if not is_missing:
            return self._take(path)
        self.edits[path] = None
        return ""

    def _screen_foreign(self, path: str, is_missing: bool) -> str:
        """Why a file that is not the candidate's is refused; touched, or put back as it was, it is not."""
        is_unread = is_missing or self.size.add(self.tree.root / path)
        entry = None if is_unread else self._entry(path)
        if entry is not None and self._is_as_before(path, entry):
            return ""
        self.out_of_scope[path] = entry
        return self._instructions_refusal(path) or known_path_refusal(self.added_files.scope, path)

    def _instructions_refusal(self, path: str) -> str:
        """Why a candidate may not touch what a link to instructions leads to, or ""."""
        above, name = (path, *parents(path)), path.rpartition("/")[2]
        link = next((self.instructions[part] for part in above if part in self.instructions), None)
        scope = self.added_files.scope
        if link is None or scope.kind(link) == "writable" or scope.names(path, name):
            return ""
        return _unlisted(path, f"{quote_path(link)} is a link to it, and {INSTRUCTIONS}", name)

    def _is_as_before(self, path: str, entry: Entry) -> bool:
        before = self.tree.entries[path]
        if before.mode == LINK:
            return entry.mode == SYMLINK and os.readlink(self.tree.root / path) == before.blob
        return entry == before

    def _take(self, path: str) -> str:
        """Takes a changed regular file, or a link that stays in the tree; gives why it is not taken, or ""."""
        before, quoted = self.tree.entries.get(path), quote_path(path)
        try:
            if why := self.size.add(self.tree.root / path):
                return f"{quoted}: {why}"
            entry = self._entry(path)
        except OSError as error:
            return f"{quoted} cannot be read: {error.strerror}"
        if entry is None:
            return f"{quoted} is neither a file nor a link"
        if entry == before:
            return ""
        if entry.mode == SYMLINK:
            is_new_link = before is None or before.mode != SYMLINK
            why = self.added_files.link_refusal(path, os.readlink(self.tree.root / path))
            if why := why or (self.added_files.name_refusal(path, is_link=True) if is_new_link else ""):
                return why
        self.edits[path] = entry
        return ""

    def _entry(self, path: str) -> Entry | None:
        """The entry of a path of the workspace, its blob stored; None for what git cannot hold."""
        full_path = self.tree.root / path
        mode = full_path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return Entry(SYMLINK, self.objects.write_bytes(os.fsencode(os.readlink(full_path))))
        if not stat.S_ISREG(mode):
            return None
        copy = self.snapshot / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(read_regular(self.tree.root, path))
        return Entry("100755" if mode & stat.S_IXUSR else "100644", self.objects.write_file(copy))


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
        return _unlisted(path, INSTRUCTIONS, part)
    return f"{quote_path(path)} is not the candidate's to edit"


def _unlisted(path: str, why: str, part: str) -> str:
    return f"{quote_path(path)}: {why}; list {quote_path(part)} in scope.writable if it is wanted"


def linked_instructions(
    entries: Mapping[str, Entry], objects: Objects, scope: Scope, has_imports: bool = False
) -> dict[str, str]:
    """The paths that agents read through links with such a name, each with that link: an unlisted one, if there is.

    Where it ``has_imports``, also the files that instructions name as ``@path``, for an agent reads them in its place.
    """

    def read_link(path: str) -> str | None:
        entry = entries.get(path)
        return os.fsdecode(objects.read(entry.blob)) if entry and entry.mode == SYMLINK else None

    links = (path for path, entry in entries.items() if entry.mode == SYMLINK and scope.instructions(path))
    unlisted_last = sorted(links, key=lambda path: scope.kind(path) != "writable")
    paths = {step: link for link in unlisted_last for step in follow_link(link, read_link(link) or "", read_link)}
    pending = [*paths, *filter(scope.instructions, entries)] if has_imports else []
    while pending:
        path = pending.pop()
        target = read_link(path)
        ends = [path] if target is None else follow_link(path, target, read_link)[-1:]
        entry = next((entries[end] for end in ends if end in entries), None)
        text = objects.read(entry.blob) if entry and path.endswith(".md") else b""
        for name in _IMPORT.findall(text):
            steps = follow_link(path, os.fsdecode(name), read_link)
            pending += (imports := [step for step in steps if step in entries and step not in paths])
            paths.update(dict.fromkeys(imports, path))
    return paths


def gitignore_matcher(tree: Checkout, objects: Objects) -> Callable[[str], bool]:
    """A matcher of what the tree's ``.gitignore`` files ignore, as they were before the provider's edits."""
    rules = []
    for path in sorted(path for path in tree.entries if f"/{path}".endswith("/.gitignore")):
        lines = objects.read(tree.entries[path].blob).decode("utf-8", "surrogateescape").splitlines()
        patterns = tuple(line.rstrip() for line in lines if line.strip() and not line.startswith("#"))
        rules.append((path.removesuffix(".gitignore"), matcher(patterns)))
    return lambda path: any(path.startswith(folder) and matches(path[len(folder) :]) for folder, matches in rules)


class AddedFiles:
    """The paths and links that a change adds to a tree. Of the tree only the folders are read that they concern."""

    def __init__(self, objects: Objects, tree: str, scope: Scope, added: Iterable[str], removed: Iterable[str]) -> None:
        self._objects = objects
        self._root = Entry(FOLDER, tree)
        self.scope = scope
        self._removed = frozenset(removed)
        self._folder = functools.cache(self._read_folder)
        self._names_alike = functools.cache(self._group_alike)
        self._is_candidates = functools.cache(self._is_all_writable)
        self._new_paths: dict[str, str] = {}
        self._paths = TreePaths(self._has, frozenset(added).__contains__, scope.is_fixed)

    def path_refusal(self, path: str, is_ignored: bool, is_link: bool = False) -> str:
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
        return self.name_refusal(path, is_ignored, is_link)

    def name_refusal(self, path: str, is_ignored: bool = False, is_link: bool = False) -> str:
        """Why there may be no new file of this name, or ""."""
        quoted = quote_path(path)
        if looks_like_git(path):
            return f"{quoted}: no candidate may bring a name that git takes for its own"
        for part, why in self._hazards(path, is_ignored, is_link):
            if not self.scope.names(path, part):
                return _unlisted(path, why, part)
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

    def _hazards(self, path: str, is_ignored: bool, is_link: bool) -> Iterator[tuple[str, str]]:
        yield from forbidden_names(path.removeprefix(self.scope.prefix), is_ignored)
        if not is_ignored:
            yield from import_shadowing(path, is_link, self._paths)

    def _has(self, path: str) -> bool:
        return self._entry(path) is not None

    def _entry(self, path: str) -> Entry | None:
        folder, _, name = path.rpartition("/")
        return self._folder(folder).get(name) if path else self._root

    def _read_folder(self, folder: str) -> dict[str, Entry]:
        entry = self._entry(folder)
        return self._objects.tree(entry.blob) if entry and entry.mode == FOLDER else {}

    def _group_alike(self, folder: str) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for name in self._folder(folder):
            names.setdefault(fold_name(name), []).append(name)
        return names

    def _path_alike(self, path: str) -> str:
        """Another path that some file system takes for this one or for a folder above it, or ""."""
        for current in (*reversed([*parents(path)]), path):
            folder, slash, name = current.rpartition("/")
            if name not in self._folder(folder):
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
