"""Git objects through a few git processes that stay open: read, write, compare and splice trees.

They run under a git directory of the tool's own, so that no configuration, filter or hook of anybody applies, on the
object store of whoever's objects these are; ``sharing`` says with whom that is shared.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from goalseek.disk import refuse_full
from goalseek.errors import GitFailed
from goalseek.git.command import BatchProcesses, Missing, ObjectsFailed, git, missing_in
from goalseek.git.location import UNSHARED, Sharing
from goalseek.git.paths import FOLDER, SUBMODULE, c_quoted
from goalseek.git.recent_objects import RecentObjects
from goalseek.own_folders import add_own, clear, remove

Answer = TypeVar("Answer")
ATTRIBUTES = "* -text -eol -filter -ident -working-tree-encoding\n"
_WRITE_TRIES = 10
_FOLDER_IS_GONE = re.compile(r"unable to (write|create) .*No such file or directory")
_READ = ("cat-file", "--batch")
_HAS = ("cat-file", "--batch-check")
_TREE = ("mktree", "--missing", "-z", "--batch")
_DIFFER = ("diff-tree", "--stdin", "-r", "-z", "--no-renames", "--raw", "--no-abbrev")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a tree: its mode ("100644", "100755", SYMLINK or SUBMODULE) and its blob."""

    mode: str
    blob: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One path on which two trees differ; None where the tree has no such file."""

    path: str
    before: Entry | None
    after: Entry | None


class Objects:
    """The objects of one store. Close it when done: its git processes live until then.

    Where it has ``recent`` objects, those are brought back as soon as one is missing.
    """

    def __init__(self, git_dir: Path, store: Path, object_format: str, sharing: Sharing = UNSHARED) -> None:
        self.git_dir = git_dir
        self.store = store
        self.sharing = sharing
        self.zero = "0" * {"sha1": 40, "sha256": 64}[object_format]
        self.scratch = git_dir / "scratch"
        self.recent: RecentObjects | None = None
        add_own(self.scratch)
        self._conversations = BatchProcesses(git_dir, self.variables())
        self._written = 0

    @classmethod
    def prepare(cls, git_dir: Path, store: Path, object_format: str, sharing: Sharing = UNSHARED) -> Objects:
        """Makes the tool's own git directory where it is missing; one that was left half made is made again."""
        if not (git_dir / "info" / "attributes").exists():
            git("init", "--quiet", "--bare", f"--object-format={object_format}", "--template=", str(git_dir))
            for folder in ("scratch", "info"):
                (git_dir / folder).mkdir(exist_ok=True)
            temporary = git_dir / "attributes"
            temporary.write_text(ATTRIBUTES)
            temporary.replace(git_dir / "info" / "attributes")
        return cls(git_dir, store, object_format, sharing)

    def close(self) -> None:
        """Ends the git processes."""
        self._conversations.close()

    def variables(self) -> dict[str, str]:
        """The variables under which a git command works on these objects."""
        folders = {"GIT_DIR": str(self.git_dir), "GIT_OBJECT_DIRECTORY": str(self.store)}
        return {**folders, **self.sharing.variables()}

    def git(self, *arguments: str, stdin: bytes = b"", variables: Mapping[str, str] | None = None) -> bytes:
        """One git command on these objects. Raises Missing where git names an object that it does not have."""
        together = {**self.variables(), **(variables or {})}
        folder = Path(together.get("GIT_WORK_TREE", self.git_dir))

        def ask() -> bytes:
            try:
                return git(*arguments, stdin=stdin, folder=folder, variables=together)
            except GitFailed as failed:
                if missing := missing_in(failed.said):
                    raise missing from None
                raise

        return self._with_all(ask)

    def bring_back(self) -> int:
        """Stores again what was written a short while ago and is missing now; gives how many objects that were."""
        return self.recent.bring_back(self._is_there) if self.recent else 0

    def read(self, name: str) -> bytes:
        """The content of an object; ``name`` may be anything that git resolves. Raises Missing."""

        def ask() -> bytes:
            answer = self._conversations.send(_READ, os.fsencode(name) + b"\n")
            header = answer.line()
            if header.endswith(b" missing"):
                raise Missing(name)
            return answer.content(int(header.rpartition(b" ")[2]))

        return self._with_all(ask)

    def has(self, name: str) -> bool:
        """Whether the store has an object."""
        return self._is_there(name) or (self.bring_back() > 0 and self._is_there(name))

    def _is_there(self, name: str) -> bool:
        return not self._conversations.send(_HAS, os.fsencode(name) + b"\n").line().endswith(b" missing")

    def _with_all(self, ask: Callable[[], Answer]) -> Answer:
        """What ``ask`` gives; where an object is missing that can be brought back, what it gives then."""
        try:
            return ask()
        except Missing:
            if not self.bring_back():
                raise
        return ask()

    def write_file(self, path: Path) -> str:
        """Stores the file's bytes, as they are, as a blob. The file must be the tool's own."""
        return self._hashed("blob", path)

    def write_bytes(self, content: bytes, kind: str = "blob") -> str:
        """Stores the bytes as an object of this kind."""
        path = self.scratch / f"{os.getpid()}-{self._written}"
        self._written += 1
        path.write_bytes(content)
        try:
            return self._hashed(kind, path)
        finally:
            remove(path)

    def tree(self, name: str) -> dict[str, Entry]:
        """One level of a tree, subtrees with the mode "40000"."""
        content = self.read(name)
        width = len(name) // 2
        entries = {}
        place = 0
        while place < len(content):
            space = content.index(b" ", place)
            end = content.index(b"\0", space)
            blob = content[end + 1 : end + 1 + width].hex()
            entries[os.fsdecode(content[space + 1 : end])] = Entry(content[place:space].decode(), blob)
            place = end + 1 + width
        return entries

    def write_tree(self, entries: Mapping[str, Entry]) -> str:
        """Stores one level of a tree."""
        lines = []
        for name, entry in entries.items():
            kind = {FOLDER: "tree", SUBMODULE: "commit"}.get(entry.mode, "blob")
            lines.append(f"{entry.mode} {kind} {entry.blob}\t".encode() + os.fsencode(name) + b"\0")
        return self._written_by(_TREE, b"".join(lines) + b"\0")

    def files(self, tree: str) -> dict[str, Entry]:
        """Every file of a tree, at any depth."""
        try:
            listing = self.git("ls-tree", "-r", "-z", "--full-tree", tree)
        except GitFailed:
            if self.has(tree):
                raise
            raise Missing(tree) from None
        entries = {}
        for line in listing.split(b"\0"):
            if line:
                facts, _, path = line.partition(b"\t")
                mode, _, blob = facts.split(b" ")
                entries[os.fsdecode(path)] = Entry(mode.decode(), blob.decode())
        return entries

    def differences(self, before: str, after: str) -> list[Difference]:
        """The files on which two trees differ, without looking for renames. Raises Missing for an unknown tree."""
        return [] if before == after else self._with_all(lambda: self._differences(before, after))

    def _differences(self, before: str, after: str) -> list[Difference]:
        answer = self._conversations.send(_DIFFER, f"{before} {after}\nend\n".encode())
        if answer.line() == b"end":
            raise Missing(f"{before} or {after}")
        found = []
        while (facts := answer.field()) is not None:
            path = answer.field()
            assert path is not None
            mode_before, mode_after, blob_before, blob_after, _ = facts[1:].decode().split(" ")
            was = Entry(mode_before, blob_before) if mode_before != "000000" else None
            found.append(
                Difference(os.fsdecode(path), was, Entry(mode_after, blob_after) if mode_after != "000000" else None)
            )
        return found

    def splice(self, tree: str, edits: Mapping[str, Entry | None]) -> str:
        """The tree with some paths changed (None: removed); folders that become empty go. Costs what changes."""
        changed = self._spliced(tree, {tuple(path.split("/")): entry for path, entry in edits.items()})
        return changed if changed is not None else self.write_tree({})

    def _spliced(self, tree: str | None, edits: Mapping[tuple[str, ...], Entry | None]) -> str | None:
        level = self.tree(tree) if tree else {}
        below: dict[str, dict[tuple[str, ...], Entry | None]] = {}
        for parts, entry in edits.items():
            if len(parts) > 1:
                below.setdefault(parts[0], {})[parts[1:]] = entry
            elif entry is None:
                level.pop(parts[0], None)
            else:
                level[parts[0]] = entry
        for name, inner in below.items():
            before = level.get(name)
            if before and before.mode != FOLDER and all(entry is None for entry in inner.values()):
                continue
            after = self._spliced(before.blob if before and before.mode == FOLDER else None, inner)
            if after is None:
                level.pop(name, None)
            else:
                level[name] = Entry(FOLDER, after)
        return self.write_tree(level) if level else None

    def fill(self, root: Path, entries: Mapping[str, Entry]) -> None:
        """Writes all files of a tree that does not exist yet, as git does it, without any filter."""
        index = self.scratch / f"index-{os.getpid()}"
        try:
            self.index(index, entries)
            root.mkdir(parents=True, exist_ok=True)
            variables = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(root)}
            self.git("checkout-index", "-a", "-f", "-q", variables=variables)
        except GitFailed:
            refuse_full(root)  # git does not say why it cannot write
            raise
        finally:
            clear(index)

    def index(self, index: Path, entries: Mapping[str, Entry | None]) -> None:
        """Puts entries into an index file; None removes one."""
        lines = (
            (f"{entry.mode} {entry.blob}\t" if entry else f"0 {self.zero}\t").encode() + os.fsencode(path)
            for path, entry in entries.items()
        )
        self.git(
            "update-index", "-z", "--index-info", stdin=b"\0".join(lines), variables={"GIT_INDEX_FILE": str(index)}
        )

    def _hashed(self, kind: str, path: Path) -> str:
        hashing = ("hash-object", "-w", "-t", kind, "--no-filters", "--stdin-paths")
        return self._written_by(hashing, _as_line(os.fsencode(path)) + b"\n")

    def _written_by(self, arguments: tuple[str, ...], words: bytes) -> str:
        """The name of the object that a git process writes. A ``git gc`` may remove its folder, or it, just then."""
        for _ in range(_WRITE_TRIES):
            try:
                name = self._conversations.send(arguments, words).line().decode()
            except ObjectsFailed as failed:
                error = failed
                if not _FOLDER_IS_GONE.search(str(failed)):
                    raise
            else:
                if self.recent is None or self.recent.add(name) or self._is_there(name):
                    return name
                error = ObjectsFailed(f"what git {arguments[0]} wrote is gone at once, each time: {name}")
        raise error


def _as_line(path: bytes) -> bytes:
    """A path as ``--stdin-paths`` takes it: quoted only where it would be taken for something else."""
    return c_quoted(path) if b"\n" in path or path.startswith(b'"') else path


Making = Callable[[Path], AbstractContextManager[object]]  # entered while the tree in a folder is made anew


def visible(entries: Mapping[str, Entry], is_seen: Callable[[str], bool]) -> dict[str, Entry]:
    """The files of a tree that a folder shows: no submodules, and only what may be seen."""
    return {path: entry for path, entry in entries.items() if entry.mode != SUBMODULE and is_seen(path)}


def visible_changes(
    objects: Objects, before: str, after: str, is_seen: Callable[[str], bool]
) -> dict[str, Entry | None]:
    """What to change in a folder that shows one tree so that it shows another."""
    return {
        found.path: found.after if found.after and found.after.mode != SUBMODULE else None
        for found in objects.differences(before, after)
        if is_seen(found.path)
    }


_NAMES = re.compile(r"(?:index-)?([0-9]+)(?:-[0-9]+)?(?:\.lock)?", re.ASCII)


def remove_scratch_files(git_dirs: Iterable[Path]) -> None:
    """Removes the scratch files of processes that live no more; those of others at work stay."""
    for git_dir in git_dirs:
        with contextlib.suppress(FileNotFoundError):
            for path in list((git_dir / "scratch").iterdir()):
                owner = _NAMES.fullmatch(path.name)
                if owner and not is_alive(int(owner[1])):
                    clear(path)


def is_alive(pid: int) -> bool:
    """Whether there is a process of that number, whosever it is."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
