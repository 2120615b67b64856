"""The files of a change: those of a folder, or of a tree; what is ignored in it, and what instructions link to."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from goalseek.disk import read_regular
from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import SYMLINK
from goalseek.workspace.scope import Scope, follow_link

_IMPORT = re.compile(rb"(?:^|\s)@([^\s`]+)")


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
