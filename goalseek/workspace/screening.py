"""Screening of a change against the scope, path by path: what is taken, left out or refused, and why.

A change is what a provider did to a folder, or the difference of two trees: the rules are the same.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import SUBMODULE, SYMLINK, quote_path
from goalseek.git.trees import visible_entries
from goalseek.own_folders import read_regular
from goalseek.workspace.added_files import AddedFiles, known_path_refusal, unlisted_refusal
from goalseek.workspace.checkout import LINK
from goalseek.workspace.forbidden_names import INSTRUCTIONS
from goalseek.workspace.scan import Changes
from goalseek.workspace.scope import Scope, follow_link, is_tool_cache, parents

MAX_FILES = 20_000
MAX_BYTES = 256 * 1024 * 1024
_IMPORT = re.compile(rb"(?:^|\s)@([^\s`]+)")


class ChangeSize(Struct):
    """The number and bytes of a change's files, counted before any is read; a sparse file counts with its full size."""

    files: int = 0
    size: int = 0

    def add(self, size: int) -> str:
        """Counts one more file of so many bytes; gives why the change is now too large, or ""."""
        self.files += 1
        self.size += size
        if self.files > MAX_FILES:
            return f"the change has more than {MAX_FILES} files"
        if self.size > MAX_BYTES:
            return f"with its {self.size} bytes the change is larger than {MAX_BYTES // 1024**2} MiB"
        return ""


class FolderFiles(Struct, frozen=True):
    """The files of a folder that anybody may have written. What is stored is copied to ``snapshot`` first.

    Every method raises OSError for what is not there, and for what cannot be read.
    """

    root: Path
    objects: Objects
    snapshot: Path

    def size(self, path: str) -> int:
        """How many bytes a regular file has; 0 for anything else."""
        status = (self.root / path).lstat()
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def read(self, path: str) -> bytes:
        """The bytes of a regular file, or the target of a link."""
        file = self.root / path
        return os.fsencode(os.readlink(file)) if file.is_symlink() else read_regular(self.root, path)

    def entry(self, path: str) -> Entry | None:
        """The entry of a path, its blob stored; None for what git cannot hold."""
        mode = (self.root / path).lstat().st_mode
        if stat.S_ISLNK(mode):
            return Entry(SYMLINK, self.objects.write_bytes(self.read(path)))
        if not stat.S_ISREG(mode):
            return None
        copy = self.snapshot / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(read_regular(self.root, path))
        return Entry("100755" if mode & stat.S_IXUSR else "100644", self.objects.write_file(copy))


class TreeFiles(Struct, frozen=True):
    """The files of a tree at the paths of a change; at other paths, and at those of submodules, is none."""

    entries: Mapping[str, Entry]
    objects: Objects

    def size(self, path: str) -> int:
        """How many bytes a file has; 0 where there is none."""
        return self.objects.size(self.entries[path].blob) if path in self.entries else 0

    def read(self, path: str) -> bytes:
        """The bytes of a file, or the target of a link; none where there is neither."""
        return self.objects.read(self.entries[path].blob) if path in self.entries else b""

    def entry(self, path: str) -> Entry | None:
        """The entry of a path; None where there is neither a file nor a link."""
        return self.entries.get(path)


class Screening(Struct):
    """The change from ``before`` to ``files``, sorted by what is done with each path. What is taken becomes blobs.

    ``instructions`` are the paths that links with the names of agents' instructions lead to. ``edits`` are the
    candidate's; ``out_of_scope`` is what it did to files that are not its to edit; ``strays`` are new files outside the
    scope; ``refused`` says in words why there can be no candidate.
    """

    before: Mapping[str, Entry]
    files: FolderFiles | TreeFiles
    added_files: AddedFiles
    ignored: Callable[[str], bool]
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
        scope, before = self.added_files.scope, self.before[path]
        kind = scope.kind(path)
        if kind == "generated":
            return ""
        refusal = self._instructions_refusal(path)
        if kind == "writable" and not refusal:
            if not is_missing:
                return self._take(path)
            self.edits[path] = None
            return ""
        # It is not the candidate's: touched, or put back as it was, it is not refused.
        is_unread = is_missing or self.size.add(self.files.size(path))
        entry = None if is_unread else self.files.entry(path)
        if entry == before and entry is not None:
            return ""
        is_link = entry is not None and entry.mode == SYMLINK and before.mode == LINK  # ours, to a shared folder
        if is_link and os.fsdecode(self.files.read(path)) == before.blob:
            return ""
        self.out_of_scope[path] = entry
        return refusal or known_path_refusal(scope, path)

    def _instructions_refusal(self, path: str) -> str:
        """Why a candidate may not touch what a link to instructions leads to, or ""."""
        above, name = (path, *parents(path)), path.rpartition("/")[2]
        link = next((self.instructions[part] for part in above if part in self.instructions), None)
        scope = self.added_files.scope
        if link is None or scope.kind(link) == "writable" or scope.names(path, name):
            return ""
        return unlisted_refusal(path, f"{quote_path(link)} is a link to it, and {INSTRUCTIONS}", name)

    def _take(self, path: str) -> str:
        """Takes a changed regular file, or a link that stays in the tree; gives why it is not taken, or ""."""
        before, quoted = self.before.get(path), quote_path(path)
        try:
            if why := self.size.add(self.files.size(path)):
                return f"{quoted}: {why}"
            entry = self.files.entry(path)
        except OSError as error:
            return f"{quoted} cannot be read: {error.strerror}"
        if entry is None:
            return f"{quoted} is neither a file nor a link"
        if entry == before:
            return ""
        if entry.mode == SYMLINK:
            is_new_link = before is None or before.mode != SYMLINK
            why = self.added_files.link_refusal(path, os.fsdecode(self.files.read(path)))
            if why := why or (self.added_files.name_refusal(path, is_link=True) if is_new_link else ""):
                return why
        self.edits[path] = entry
        return ""


def screen_trees(objects: Objects, scope: Scope, before: str, after: str) -> Screening:
    """The difference of two trees, sorted as a provider's is that makes such a change in a workspace at ``before``.

    What no workspace shows, hidden files and submodules, it may not change either.
    """
    differences = objects.differences(before, after)
    entries_before = {difference.path: difference.before for difference in differences if difference.before}
    entries_after = {difference.path: difference.after for difference in differences if difference.after}
    new, gone = entries_after.keys() - entries_before.keys(), entries_before.keys() - entries_after.keys()
    folders = {above for path in new for above in parents(path)} & gone  # a file that is a folder now is none
    added = tuple(path for path in entries_after if path in new and folders.isdisjoint(parents(path)))
    changed = tuple(path for path in entries_before if path not in gone or path in folders)
    missing = tuple(path for path in entries_before if path in gone - folders)
    visible = visible_entries(objects.files(before), scope.seen_by("agent"))
    screening = Screening(
        entries_before,
        TreeFiles({path: entry for path, entry in entries_after.items() if entry.mode != SUBMODULE}, objects),
        AddedFiles(objects, before, scope, added, missing),
        gitignore_matcher(visible, objects),
        linked_instructions(visible, objects, scope),
    )
    screening.screen(Changes(changed, missing, added))
    return screening


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


def gitignore_matcher(entries: Mapping[str, Entry], objects: Objects) -> Callable[[str], bool]:
    """A matcher of what a tree's ``.gitignore`` files ignore; a change's own edits of those do not count."""
    rules = []
    for path in sorted(path for path in entries if f"/{path}".endswith("/.gitignore")):
        lines = objects.read(entries[path].blob).decode("utf-8", "surrogateescape").splitlines()
        patterns = tuple(line.rstrip() for line in lines if line.strip() and not line.startswith("#"))
        rules.append((path.removesuffix(".gitignore"), matcher(patterns)))
    return lambda path: any(path.startswith(folder) and matches(path[len(folder) :]) for folder, matches in rules)
