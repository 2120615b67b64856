"""The screening of a change, in a folder or between two trees: files taken, left out or refused, with reasons."""

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from goalseek.disk import full_disk_error, read_content, read_regular
from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry, Objects, TreeReader
from goalseek.git.paths import FOLDER, SUBMODULE, SYMLINK, fold_name, looks_like_git, quote_path
from goalseek.workspace.checkout import LINK, Changes
from goalseek.workspace.forbidden_names import INSTRUCTIONS, TreePaths, forbidden_names, import_shadowing
from goalseek.workspace.scope import Scope, doubles_back, follow_link, is_tool_cache, leaves_tree, parents

MAX_FILES = 20_000
MAX_BYTES = 256 * 1024 * 1024
_IMPORT = re.compile(rb"(?:^|\s)@([^\s`]+)")


class FolderFiles(Struct, frozen=True):
    """Untrusted files, copied to ``snapshot``, if given, before they are stored. Raises OSError for unreadable ones."""

    root: Path
    objects: Objects
    snapshot: Path | None = None

    def size(self, path: str) -> int:
        """0 for anything but a regular file."""
        status = (self.root / path).lstat()
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def read(self, path: str) -> bytes:
        return read_content(self.root, path)

    def entry(self, path: str) -> Entry | None:
        """Stores the blob; None for a kind of file that git cannot hold."""
        mode = (self.root / path).lstat().st_mode
        if stat.S_ISLNK(mode):
            return Entry(SYMLINK, self.objects.write_bytes(self.read(path)))
        if not stat.S_ISREG(mode):
            return None
        content = read_regular(self.root, path)
        if self.snapshot:
            copy = self.snapshot / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
        return Entry("100755" if mode & stat.S_IXUSR else "100644", self.objects.write_bytes(content))


class TreeFiles(Struct, frozen=True):
    """The changed files of a tree, without submodules."""

    entries: Mapping[str, Entry]
    objects: Objects

    def size(self, path: str) -> int:
        return self.objects.size(self.entries[path].blob) if path in self.entries else 0

    def read(self, path: str) -> bytes:
        return self.objects.read(self.entries[path].blob) if path in self.entries else b""

    def entry(self, path: str) -> Entry | None:
        return self.entries.get(path)


def linked_instructions(
    entries: Mapping[str, Entry], objects: Objects, scope: Scope, has_imports: bool = False
) -> dict[str, str]:
    """Maps each path that instructions link to, or with ``has_imports`` name as ``@path``, to the file that does."""

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
    """Matches what these ``.gitignore`` files ignore; a change's own edits of them must not count."""
    rules = []
    for path in sorted(path for path in entries if f"/{path}".endswith("/.gitignore")):
        lines = objects.read(entries[path].blob).decode("utf-8", "surrogateescape").splitlines()
        patterns = tuple(line.rstrip() for line in lines if line.strip() and not line.startswith("#"))
        rules.append((path.removesuffix(".gitignore"), matcher(patterns)))
    return lambda path: any(path.startswith(folder) and matches(path[len(folder) :]) for folder, matches in rules)


def rules_of(
    entries: Mapping[str, Entry], objects: Objects, scope: Scope
) -> tuple[Callable[[str], bool], Mapping[str, str]]:
    """``ignored`` and ``instructions`` of a change to the tree with these files."""
    return gitignore_matcher(entries, objects), linked_instructions(entries, objects, scope)


class Screening(Struct):
    """Sorts the change from ``before`` to ``files``; the blobs of its ``edits`` are stored.

    ``out_of_scope`` are edits of files that are not the candidate's, ``strays`` new files outside the scope.
    """

    before: Mapping[str, Entry]
    files: FolderFiles | TreeFiles
    tree: TreeReader
    scope: Scope
    ignored: Callable[[str], bool]
    instructions: Mapping[str, str]
    edits: dict[str, Entry | None] = field(default_factory=dict)
    out_of_scope: dict[str, Entry | None] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _count: int = 0
    _size: int = 0
    _added: frozenset[str] = frozenset()
    _missing: frozenset[str] = frozenset()
    _new_paths: dict[str, str] = field(default_factory=dict)
    _names_alike: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    _files_at: dict[str, list[str]] = field(default_factory=dict)

    def find_credential(self, paths: Iterable[str], is_credential: Callable[[bytes], bool]) -> str | None:
        """The first of these paths that has a credential, in its name or its content."""
        for path in paths:
            content = os.fsencode(path)
            with contextlib.suppress(OSError):
                if self.files.size(path) > MAX_BYTES:
                    continue  # as a flood it is refused unread
                content += self.files.read(path)
            if is_credential(content):
                return path
        return None

    def screen(self, changes: Changes) -> None:
        self._added, self._missing = frozenset(changes.added), frozenset(changes.missing)
        self.refused.extend(filter(None, map(self._screen_new, changes.added)))
        self.refused.extend(filter(None, map(self._screen_known, (*changes.changed, *changes.missing))))

    def _screen_new(self, path: str) -> str:
        scope, quoted = self.scope, quote_path(path)
        kind, is_ignored = scope.kind(path), self.ignored(path)
        if kind == "hidden":
            return f"{quoted} lies under a hidden pattern, where no candidate may write"
        if why := _shared_path_refusal(scope, path):
            return why
        if is_tool_cache(path):
            return ""
        if kind == "writable" or scope.unlisted_instructions(path):
            for above in parents(path):
                entry = self.tree.entry(above)
                if entry and entry.mode not in (FOLDER, SUBMODULE) and scope.kind(above) != "writable":
                    return f"{quoted} lies below {quote_path(above)}, which is outside scope.writable"
            if why := self._name_refusal(path, is_ignored):
                return why
        if is_ignored or kind == "generated":
            return ""
        if kind == "writable":
            return self._instructions_refusal(path) or self._take(path)
        self.strays.append(path)
        return ""

    def _screen_known(self, path: str) -> str:
        scope, before, is_missing = self.scope, self.before[path], path in self._missing
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
        is_unread = is_missing or self._size_refusal(path)
        entry = None if is_unread else self.files.entry(path)
        if entry == before and entry is not None:
            return ""
        is_link = entry is not None and entry.mode == SYMLINK and before.mode == LINK  # ours, to a shared folder
        if is_link and os.fsdecode(self.files.read(path)) == before.blob:
            return ""
        self.out_of_scope[path] = entry
        if why := refusal or _shared_path_refusal(scope, path):
            return why
        part = scope.unlisted_instructions(path)
        if part:
            return _unlisted(path, INSTRUCTIONS, part)
        return f"{quote_path(path)} is {'read-only' if kind == 'read_only' else 'outside scope.writable'}"

    def _instructions_refusal(self, path: str) -> str:
        """Why a candidate may not touch the target of a link that is instructions, or ""."""
        above, name = (path, *parents(path)), path.rpartition("/")[2]
        link = next((self.instructions[part] for part in above if part in self.instructions), None)
        scope = self.scope
        if link is None or scope.kind(link) == "writable" or scope.names(path, name):
            return ""
        return _unlisted(path, f"{quote_path(link)} is a link to it, and {INSTRUCTIONS}", name)

    def _take(self, path: str) -> str:
        """Adds a regular file, or a link that stays in the tree, to ``edits``; gives why not, or ""."""
        before, quoted = self.before.get(path), quote_path(path)
        try:
            if why := self._size_refusal(path):
                return f"{quoted}: {why}"
            entry = self.files.entry(path)
        except OSError as error:
            if full_disk_error(error):
                raise
            return f"{quoted} cannot be read: {error.strerror}"
        if entry is None:
            return f"{quoted} is neither a file nor a link"
        if entry == before:
            return ""
        if entry.mode == SYMLINK:
            is_new_link = before is None or before.mode != SYMLINK
            why = self._link_refusal(path, os.fsdecode(self.files.read(path)))
            if why := why or (self._name_refusal(path, is_link=True) if is_new_link else ""):
                return why
        self.edits[path] = entry
        return ""

    def _size_refusal(self, path: str) -> str:
        """Counts a file before it is read, a sparse one with its full size; why the change is now too large, or ""."""
        self._count += 1
        self._size += self.files.size(path)
        if self._count > MAX_FILES:
            return f"the change has more than {MAX_FILES} files"
        if self._size > MAX_BYTES:
            return f"with its {self._size} bytes the change is larger than {MAX_BYTES // 1024**2} MiB"
        return ""

    def _name_refusal(self, path: str, is_ignored: bool = False, is_link: bool = False) -> str:
        quoted = quote_path(path)
        if looks_like_git(path):
            return f"{quoted}: no candidate may use a name that git reserves"
        paths = TreePaths(self.tree.has, self._added.__contains__, self.scope.is_fixed)
        hazards = [*forbidden_names(path.removeprefix(self.scope.prefix), is_ignored)]
        for part, why in (*hazards, *(() if is_ignored else import_shadowing(path, is_link, paths))):
            if not self.scope.names(path, part):
                return _unlisted(path, why, part)
        if not is_ignored and (other := self._path_alike(path)):
            return f"{quoted} differs from {quote_path(other)} only by case or spelling"
        return ""

    def _link_refusal(self, path: str, target: str) -> str:
        quoted = quote_path(path)
        if leaves_tree(path, target):
            return f"{quoted} is a link that leaves the tree"
        if doubles_back(target):
            return f"{quoted} is a link whose target goes down and up again: it may leave the tree"
        steps = follow_link(path, target, self.tree.link_target)
        if not steps:
            return f"{quoted} is a link that leaves the tree, or leads in a circle"
        kind, end = self.scope.kind, steps[-1]
        files = self._list_files(end)
        is_open = kind(f"{end}/-") != "hidden" if files == [end] else kind(end) not in ("hidden", "read_only")
        if not is_open or not all(kind(file) in ("writable", "generated") for file in files):
            return f"{quoted} is a link to {quote_path(end or '.')}, which is not all in scope.writable"
        return ""

    def _list_files(self, path: str) -> list[str]:
        """Every file below a folder of the tree; else the path itself."""
        if path not in self._files_at:
            entry, files = self.tree.entry(path), [path]
            if entry and entry.mode == FOLDER:
                files = [f"{path}/{name}".lstrip("/") for name in self.files.objects.files(entry.blob)]
            self._files_at[path] = files
        return self._files_at[path]

    def _path_alike(self, path: str) -> str:
        """Another path that some file system takes for this one or a folder above it, or ""."""
        for current in (*reversed([*parents(path)]), path):
            folder, slash, name = current.rpartition("/")
            if name not in self.tree.folder(folder):
                if folder not in self._names_alike:
                    names = self._names_alike[folder] = {}
                    for other in self.tree.folder(folder):
                        names.setdefault(fold_name(other), []).append(other)
                for other in self._names_alike[folder].get(fold_name(name), ()):
                    # If the change removes all that is there, it only renames.
                    if not self._missing.issuperset(self._list_files(f"{folder}{slash}{other}")):
                        return f"{folder}{slash}{other}"
            first_path = self._new_paths.setdefault("/".join(map(fold_name, current.split("/"))), current)
            if first_path != current:
                return first_path
        return ""


def _shared_path_refusal(scope: Scope, path: str) -> str:
    shared, quoted = scope.share_at(path), quote_path(path)
    if shared is None:
        return ""
    if path == shared:
        return f"{quoted} is shared, read-only"
    how = "lies in" if path.startswith(f"{shared}/") else "stands in the way of"
    return f"{quoted} {how} {quote_path(shared)}, which is shared, read-only"


def _unlisted(path: str, why: str, part: str) -> str:
    return f"{quote_path(path)}: {why}; list {quote_path(part)} in scope.writable if it is wanted"


def screen_trees(objects: Objects, scope: Scope, before: str, after: str) -> Screening:
    """Screens a difference as a change in a workspace at ``before``: hidden files and submodules must not differ."""
    differences = objects.differences(before, after)
    entries_before = {difference.path: difference.before for difference in differences if difference.before}
    entries_after = {difference.path: difference.after for difference in differences if difference.after}
    new, gone = entries_after.keys() - entries_before.keys(), entries_before.keys() - entries_after.keys()
    folders = {above for path in new for above in parents(path)} & gone  # a file that is a folder now is none
    added = tuple(path for path in entries_after if path in new and folders.isdisjoint(parents(path)))
    changed = tuple(path for path in entries_before if path not in gone or path in folders)
    missing = tuple(path for path in entries_before if path in gone - folders)
    visible = objects.visible_files(before, scope.seen_by("agent"))
    files = TreeFiles({path: entry for path, entry in entries_after.items() if entry.mode != SUBMODULE}, objects)
    rules = rules_of(visible, objects, scope)
    screening = Screening(entries_before, files, TreeReader(objects, before), scope, *rules)
    screening.screen(Changes(changed, missing, added))
    return screening
