"""Git objects: reading and comparing trees through a few git processes that stay open, writing and splicing them.

They run under a git directory of the tool's own, so that nobody's configuration, filter or hook applies. Objects of the
last day are also in a store of its own, ``recent``, that no git of the user's reads: ``git gc --prune=now`` looks at
the refs, and later removes all that none of them named then, even if it was written or named meanwhile. So an object is
written there, linked into the repository's store, and linked again if that has lost it.
"""

import contextlib
import functools
import hashlib
import io
import itertools
import os
import re
import stat
import subprocess
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

from msgspec import Struct

from goalseek import process
from goalseek.disk import add_own, open_atomic, refuse_full, remove_if_exists, write_atomic
from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.command import AUTHOR, HARDENED, WRITTEN_OUT, environment, git
from goalseek.git.paths import FOLDER, SUBMODULE, SYMLINK, quote_path
from goalseek.values import StopReason

_RECENT_SECONDS = 86_400.0  # longer than a prune takes from its look to its last removal, and than an agent's call
_FORGET_EVERY = 1.0
_LINK_TRIES = 5
_REMEMBERED = 256  # objects of at most so many bytes: an iteration reads the same commits, trees and files as the last
_REMEMBERED_BYTES = 65_536
_SETTLED_NS = 2_000_000_000  # the time of a folder that changed again is another one, to two seconds at worst
ATTRIBUTES = "* -text -eol -filter -ident -working-tree-encoding\n"
_READ = ("cat-file", "--batch")
_HAS = ("cat-file", "--batch-check")
_PATCH = ("diff-tree", "--stdin", "--no-commit-id", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv")
_DIFF = ("diff-tree", "--stdin", "--no-commit-id", "-r", "--numstat", "-p", "--binary", "--full-index")
_DIFFER = ("diff-tree", "--stdin", "-r", "-z", "--no-renames", "--raw", "--no-abbrev")
_END = b"end " + os.urandom(16).hex().encode()  # git repeats it; no file has it as a name or a line
_UNREADABLE_OBJECT = re.compile(
    r"(?:unable to (?:read|find)|bad (?:tree )?object|not a (?:tree|valid) object|missing|could not read|nonexistent)"
    r"[^\n]*?\b([0-9a-f]{40,64})\b",
    re.IGNORECASE,
)


class MissingObject(GoalseekError):
    """It was stored: somebody pruned it, or the store is broken."""

    def __init__(self, name: str) -> None:
        hint = (
            "it was pruned, or the store is broken: see git fsck; if there is a clone, fetch it from there: "
            "git fetch CLONE 'refs/goalseek/*:refs/goalseek/*'; then run the same command again"
        )
        super().__init__(f"git does not have the object {name} any more", hint, StopReason.REPOSITORY)


def _missing_object_error(stderr: str) -> MissingObject | None:
    match = _UNREADABLE_OBJECT.search(stderr)
    return MissingObject(match[1]) if match else None


class ObjectsFailed(Exception):
    """An open git process ended by itself: a full disk, a broken store."""

    def __init__(self, message: str, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class BatchReply:
    """``line`` is the first line, without its end. ``raise_ended`` is called if the process has ended."""

    def __init__(self, stdout: IO[bytes], raise_ended: Callable[[], NoReturn]) -> None:
        self._stdout = stdout
        self._raise_ended = raise_ended
        self.line = self.next_line()

    def content(self, size: int) -> bytes:
        content = self._stdout.read(size + 1)
        if len(content) <= size:
            self._raise_ended()
        return content[:-1]

    def lines(self) -> Iterator[bytes]:
        """From the first one up to the line "end"."""
        line = self.line
        while line != b"end":
            yield line
            line = self.next_line()

    def rest(self) -> bytes:
        """All after the first line, up to _END; a patch may be large: it is held twice at most."""
        content = io.BytesIO()
        while not (line := self.next_line()).endswith(_END):
            content.write(line + b"\n")
        content.write(line.removesuffix(_END))
        return content.getvalue()

    def next_line(self) -> bytes:
        line = self._stdout.readline()
        if not line.endswith(b"\n"):
            self._raise_ended()
        return line[:-1]


class BatchProcesses:
    """Each is started by its first request. Close it when done."""

    def __init__(self, git_dir: Path, variables: Mapping[str, str]) -> None:
        self.open: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}
        self._git_dir = git_dir
        self._variables = variables

    def send(self, arguments: tuple[str, ...], request: bytes) -> BatchReply:
        """Raises MissingObject or ObjectsFailed if that process has ended."""
        if arguments not in self.open:
            command = ["git", *HARDENED, *WRITTEN_OUT, *arguments]
            self.open[arguments] = process.start_batch(command, environment(**self._variables), self._git_dir)
        child = self.open[arguments]

        def raise_ended() -> NoReturn:
            assert child.stderr
            stderr = child.stderr.read().decode("utf-8", "replace").strip()
            self.close()
            raise _missing_object_error(stderr) or ObjectsFailed(f"git {arguments[0]} ended: {stderr}", stderr)

        assert child.stdin and child.stdout
        try:
            child.stdin.write(request)
            child.stdin.flush()
        except BrokenPipeError:
            raise_ended()
        return BatchReply(child.stdout, raise_ended)

    def close(self) -> None:
        """The next request starts a new one."""
        for child in self.open.values():
            for pipe in (child.stdin, child.stdout, child.stderr):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        for child in self.open.values():
            child.wait()
        self.open.clear()


class Entry(Struct, frozen=True):
    """``mode`` is "100644", "100755", SYMLINK, SUBMODULE or FOLDER."""

    mode: str
    blob: str


class Difference(Struct, frozen=True):
    """None if the tree has no such file."""

    path: str
    before: Entry | None
    after: Entry | None


class Diff(Struct, frozen=True):
    """``patch`` leads to ``tree``, binary files included."""

    tree: str
    patch: bytes = b""
    lines_added: int = 0
    lines_removed: int = 0


class Objects:
    """Close it when done. ``recent`` keeps written objects if the store may be pruned; git writes by ``settings``.

    Makes the git directory if it is missing or incomplete. Raises OSError for a full disk.
    """

    def __init__(
        self,
        git_dir: Path,
        store: Path,
        object_format: str,
        recent: Path | None = None,
        settings: Mapping[str, str] = {},
    ) -> None:
        self.git_dir = git_dir
        self.store = store
        self.recent = recent
        self.object_format = object_format
        self.zero = "0" * {"sha1": 40, "sha256": 64}[object_format]
        self.scratch = git_dir / "scratch"
        add_own(self.scratch)
        variables = {"GIT_DIR": str(git_dir), "GIT_OBJECT_DIRECTORY": str(recent or store), **settings}
        self.variables = {**variables, **alternates(store)} if recent else variables
        self._processes = BatchProcesses(git_dir, self.variables)
        self._scratch_numbers = itertools.count(time.time_ns())  # a killed process may have had our id
        self._contents: dict[object, bytes] = {}  # by hash; patches and listings by command and trees
        self._spliced = functools.lru_cache(maxsize=2)(self._splice)  # screening makes the tree that COMMIT makes
        self._forgot_at = 0.0
        self._settled: dict[str, tuple[int, int]] = {}
        if recent:
            recent.mkdir(exist_ok=True)
        if not (git_dir / "info" / "attributes").exists():
            options = ("--quiet", "--bare", f"--object-format={object_format}", "--template=")
            try:
                git("init", *options, str(git_dir), variables=settings)
            except GitFailed:
                refuse_full(git_dir)  # git does not say why it cannot write
                raise
            for folder in ("scratch", "info"):
                (git_dir / folder).mkdir(exist_ok=True)
            write_atomic(git_dir / "info" / "attributes", ATTRIBUTES)
        self._rights = stat.S_IMODE(git_dir.stat().st_mode)  # git made it, with the rights of a shared repository

    def close(self) -> None:
        self._processes.close()

    def git(self, *arguments: str, stdin: bytes = b"", variables: Mapping[str, str] = {}) -> bytes:
        """Raises MissingObject if git names an object that it does not have."""
        all_variables = {**self.variables, **variables}
        folder = Path(all_variables.get("GIT_WORK_TREE", self.git_dir))
        try:
            return git(*arguments, stdin=stdin, folder=folder, variables=all_variables)
        except GitFailed as error:
            raise _missing_object_error(error.stderr) or error from None

    def sync(self) -> None:
        """Make written objects and refs durable."""
        with (self.git_dir / "synced").open("wb") as file:
            os.utime(file.fileno())  # else there may be nothing to sync
            os.fsync(file.fileno())

    def bring_back(self, is_forgetting: bool = False) -> None:
        """Store objects that git commands wrote, and those that others pruned since.

        Packed objects are linked too: the git that removes an older pack may have looked before a ref named them.
        ``is_forgetting`` removes those written more than a day ago from ``recent``, and looks once a second at most.
        """
        now, store, recent = time.time(), str(self.store), str(self.recent)
        if is_forgetting and 0 <= now - self._forgot_at < _FORGET_EVERY:
            return
        if is_forgetting:
            self._forgot_at = now
            self._spliced.cache_clear()  # their objects may be gone
        oldest = now - _RECENT_SECONDS if is_forgetting else 0.0
        for byte in os.listdir(recent) if self.recent and self.recent.is_dir() else ():
            if len(byte) != 2:
                continue
            folder, times = f"{recent}/{byte}", (0, 0)
            try:
                times = os.stat(folder).st_mtime_ns, os.stat(f"{store}/{byte}").st_mtime_ns
                if self._settled.get(byte) == times:
                    continue  # neither has a file more or less than at the last look
                loose = set(os.listdir(f"{store}/{byte}"))
            except FileNotFoundError:
                loose = set()
            with os.scandir(folder) as items:
                for item in items:
                    if item.name not in loose and not item.name.startswith("tmp_"):  # which a killed git has left
                        self._link(byte, item.name)
                    if item.stat().st_mtime < oldest:  # when it was written last, or would have been
                        remove_if_exists(Path(item.path))
            if is_forgetting and max(times) < now * 1e9 - _SETTLED_NS:
                self._settled[byte] = times

    def _link(self, byte: str, name: str) -> None:
        """Link a recent object into the store; copy it if there are no links. ``byte`` is the first of its hash."""
        recent, loose = f"{self.recent}/{byte}/{name}", f"{self.store}/{byte}/{name}"
        for tries_left in reversed(range(_LINK_TRIES)):
            try:
                try:
                    os.link(recent, loose)
                except (FileExistsError, FileNotFoundError):
                    raise
                except OSError:  # no links here, another disk, or the file is somebody else's
                    with open_atomic(Path(loose)) as copy:
                        copy.write(Path(recent).read_bytes())
                        os.fchmod(copy.fileno(), self._rights & 0o444)
                return
            except FileExistsError:
                return
            except FileNotFoundError:  # a gc removes folders that are empty
                if not tries_left:
                    raise
                self._make_folder(f"{self.store}/{byte}")

    def _make_folder(self, folder: str) -> None:
        with contextlib.suppress(FileExistsError, PermissionError):  # another account has made it meanwhile
            os.mkdir(folder)
            os.chmod(folder, self._rights)

    def read(self, name: str) -> bytes:
        """``name`` may be anything that git resolves; a small object is read once. Raises MissingObject."""
        if name in self._contents:
            return self._contents[name]
        answer, size = self._look_up(_READ, name)
        content = answer.content(size)
        if answer.line.startswith(os.fsencode(name) + b" "):  # a hash, whose content is always the same
            self._remember(name, content)
        return content

    def _remember(self, key: object, content: bytes) -> None:
        if len(content) <= _REMEMBERED_BYTES:
            self._contents[key] = content
            if len(self._contents) > _REMEMBERED:
                del self._contents[next(iter(self._contents))]

    def size(self, name: str) -> int:
        """In bytes, without reading it. Raises MissingObject."""
        return self._look_up(_HAS, name)[1]

    def _look_up(self, command: tuple[str, ...], name: str) -> tuple[BatchReply, int]:
        answer = self._processes.send(command, os.fsencode(name) + b"\n")
        if answer.line.endswith(b" missing"):
            raise MissingObject(name)
        return answer, int(answer.line.rpartition(b" ")[2])

    def has(self, name: str) -> bool:
        return not self._processes.send(_HAS, os.fsencode(name) + b"\n").line.endswith(b" missing")

    def write_bytes(self, content: bytes, kind: str = "blob") -> str:
        """Store them unfiltered; returns their hash. Blobs are synced, all else is made durable by ``sync``."""
        name = self.hash_of(content, kind)
        folder = f"{self.recent or self.store}/{name[:2]}"
        path = f"{folder}/{name[2:]}"
        try:
            os.utime(path)  # only where it is written: a prune may be removing it from another store
        except OSError:
            self._make_folder(folder)
            stored = f"{kind} {len(content)}\0".encode() + content
            self._place(path, zlib.compress(stored, zlib.Z_BEST_SPEED), is_synced=kind == "blob")
        if self.recent:
            self._link(name[:2], name[2:])
        self._remember(name, content)
        return name

    def _place(self, path: str, stored: bytes, is_synced: bool = False) -> None:
        with self.scratch_file("object") as temporary:
            with temporary.open("xb") as file:
                file.write(stored)
                file.flush()
                os.fchmod(file.fileno(), self._rights & 0o444)
                if is_synced or not _write_out(file.fileno()):
                    os.fsync(file.fileno())
            try:
                os.link(temporary, path)
            except OSError:  # no links here, or an old one that another account made
                os.replace(temporary, path)

    def write_tree(self, entries: Mapping[str, Entry]) -> str:
        """One level; returns its hash."""
        by_order = {os.fsencode(name + "/" * (entry.mode == FOLDER)): entry for name, entry in entries.items()}
        rows = (
            b"%o %b\0%b" % (int(entry.mode, 8), name.rstrip(b"/"), bytes.fromhex(entry.blob))
            for name, entry in sorted(by_order.items())
        )
        return self.write_bytes(b"".join(rows), "tree")

    def write_commit(self, tree: str, parents: Sequence[str], message: str, moment: int) -> str:
        """By goalseek at ``moment`` (seconds since 1970); the same values give the same hash."""
        who = f"{AUTHOR[0]} <{AUTHOR[1]}> {moment} +0000"
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {who}", f"committer {who}"]
        return self.write_bytes("\n".join([*lines, "", message]).encode("utf-8", "surrogateescape"), "commit")

    def tree(self, name: str) -> dict[str, Entry]:
        """One level; subtrees have the mode "40000"."""
        rows = re.findall(rb"(?s)(\d+) ([^\0]+)\0(.{%d})" % (len(name) // 2), self.read(name))
        return {os.fsdecode(path): Entry(mode.decode(), blob.hex()) for mode, path, blob in rows}

    def files(self, tree: str) -> dict[str, Entry]:
        try:
            listing = self.git("ls-tree", "-r", "-z", "--full-tree", tree)
        except GitFailed:
            if self.has(tree):
                raise
            raise MissingObject(tree) from None
        entries = {}
        for line in listing.split(b"\0")[:-1]:
            facts, _, path = line.partition(b"\t")
            mode, _, blob = facts.split(b" ")
            entries[os.fsdecode(path)] = Entry(mode.decode(), blob.decode())
        return entries

    def visible_files(self, tree: str, is_visible: Callable[[str], bool]) -> dict[str, Entry]:
        """Without submodules."""
        files = self.files(tree).items()
        return {path: entry for path, entry in files if entry.mode != SUBMODULE and is_visible(path)}

    def visible_changes(self, before: str, after: str, is_visible: Callable[[str], bool]) -> dict[str, Entry | None]:
        """Changes to a folder that shows ``before``, so that it shows ``after``; None removes a file."""
        return {
            difference.path: difference.after if difference.after and difference.after.mode != SUBMODULE else None
            for difference in self.differences(before, after)
            if is_visible(difference.path)
        }

    def differences(self, before: str, after: str) -> list[Difference]:
        """Renames are not followed. Raises MissingObject for an unknown tree."""
        differences, fields = [], iter(self._compare(_DIFFER, before, after).split(b"\0")[:-1])
        for facts, path in zip(fields, fields, strict=True):
            *modes, blob_before, blob_after, _ = facts[1:].decode().split(" ")
            sides = zip(modes, (blob_before, blob_after), strict=True)
            entries = (Entry(mode, blob) if mode != "000000" else None for mode, blob in sides)
            differences.append(Difference(os.fsdecode(path), *entries))
        return differences

    def changed_paths(self, before: str, after: str) -> list[str]:
        return [difference.path for difference in self.differences(before, after)]

    def patch(self, before: str, after: str) -> bytes:
        """Renames are not followed. Raises MissingObject for an unknown tree."""
        return self._compare(_PATCH, before, after)

    def diff(self, before: str, after: str) -> Diff:
        """As ``git apply`` takes it. Raises MissingObject for an unknown tree."""
        # Both are empty if a tree of an old git has a mode that only looks like another one.
        counts, _, patch = self._compare(_DIFF, before, after).partition(b"\n\n")
        rows = [line.split(b"\t") for line in counts.splitlines()]  # a binary file has no counts
        added, removed = (sum(int(row[side]) for row in rows if row[side].isdigit()) for side in (0, 1))
        return Diff(after, patch, added, removed)

    def _compare(self, command: tuple[str, ...], before: str, after: str) -> bytes:
        key = (command, before, after)
        if before == after or key in self._contents:
            return self._contents.get(key, b"")
        reply = self._processes.send(command, f"{before} {after}\n".encode() + _END + b"\n")
        if reply.line == _END:  # else it has the hashes of the trees
            raise MissingObject(f"{before} or {after}")
        answer = reply.rest()
        self._remember(key, answer)
        return answer

    def hash_of(self, content: bytes, kind: str = "blob") -> str:
        stored = f"{kind} {len(content)}\0".encode() + content
        return hashlib.new(self.object_format, stored, usedforsecurity=False).hexdigest()

    def splice(self, tree: str, edits: Mapping[str, Entry | None]) -> str:
        """Change some paths (None removes one), without empty folders; takes time for the changes only."""
        return self._spliced(tree, frozenset(edits.items()))

    def _splice(self, tree: str, edits: Iterable[tuple[str, Entry | None]]) -> str:
        levels = {tuple(path.split("/")): entry for path, entry in edits}
        return self._splice_level(tree, levels) or self.write_tree({})

    def _splice_level(self, tree: str | None, edits: Mapping[tuple[str, ...], Entry | None]) -> str | None:
        level = self.tree(tree) if tree else {}
        below: dict[str, dict[tuple[str, ...], Entry | None]] = {}
        for parts, entry in edits.items():
            if len(parts) > 1:
                below.setdefault(parts[0], {})[parts[1:]] = entry
            elif entry is None:
                level.pop(parts[0], None)
            else:
                level[parts[0]] = entry
        for name, inner_edits in below.items():
            before = level.get(name)
            if before and before.mode != FOLDER and all(entry is None for entry in inner_edits.values()):
                continue
            after = self._splice_level(before.blob if before and before.mode == FOLDER else None, inner_edits)
            if after is None:
                level.pop(name, None)
            else:
                level[name] = Entry(FOLDER, after)
        return self.write_tree(level) if level else None

    def fill(self, root: Path, entries: Mapping[str, Entry]) -> None:
        """Write all files of a tree to a new folder, as git does it, without any filter."""
        try:
            with self.scratch_file("index") as index:
                self.index(index, entries)
                root.mkdir(parents=True, exist_ok=True)
                variables = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(root)}
                # From a hundred files on, four processes write them.
                self.git("-c", "checkout.workers=4", "checkout-index", "-a", "-f", "-q", variables=variables)
        except GitFailed:
            refuse_full(root)  # git does not say why it cannot write
            raise

    @contextlib.contextmanager
    def scratch_file(self, name: str) -> Iterator[Path]:
        """A path of this process; the file is removed after this block."""
        path = self.scratch / f"{name}-{os.getpid()}-{next(self._scratch_numbers)}"
        try:
            yield path
        finally:
            remove_if_exists(path)

    def index(self, index: Path, entries: Mapping[str, Entry | None]) -> None:
        """None removes an entry."""
        lines = (
            (f"{entry.mode} {entry.blob}\t" if entry else f"0 {self.zero}\t").encode() + os.fsencode(path)
            for path, entry in entries.items()
        )
        variables = {"GIT_INDEX_FILE": str(index)}
        self.git("update-index", "-z", "--index-info", stdin=b"\0".join(lines), variables=variables)

    def read_attributes(
        self, attribute_files: Mapping[str, Entry], paths: Iterable[str], names: Sequence[str], git_dir: Path
    ) -> dict[str, dict[str, str]]:
        """By path; "unspecified" if not set. ``attribute_files`` count, and the ``info/attributes`` of ``git_dir``."""
        with self.scratch_file("attributes") as index:
            self.index(index, attribute_files)
            variables = {"GIT_DIR": str(git_dir), "GIT_INDEX_FILE": str(index)}
            stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
            answer = self.git("check-attr", "--cached", "--stdin", "-z", *names, stdin=stdin, variables=variables)
        values_by_path: dict[str, dict[str, str]] = {}
        fields = iter(os.fsdecode(answer).split("\0")[:-1])
        for path, name, value in zip(fields, fields, fields, strict=True):
            values_by_path.setdefault(path, {})[name] = value
        return values_by_path


def _write_out(descriptor: int) -> bool:
    """As git by WRITTEN_OUT; false if the system cannot do that."""
    import ctypes  # takes 4 ms

    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    return call is not None and call(descriptor, ctypes.c_int64(0), ctypes.c_int64(0), 7) == 0


class TreeReader:
    """Looks up paths in one tree. Each folder of it is read once."""

    def __init__(self, objects: Objects, tree: str) -> None:
        def read_folder(path: str) -> dict[str, Entry]:
            entry = self.entry(path)
            return objects.tree(entry.blob) if entry and entry.mode == FOLDER else {}

        self._objects = objects
        self._root = Entry(FOLDER, tree)
        self.folder = functools.cache(read_folder)

    def entry(self, path: str) -> Entry | None:
        """None if there is none; "" is the tree itself."""
        above, _, name = path.rpartition("/")
        return self.folder(above).get(name) if path else self._root

    def has(self, path: str) -> bool:
        return self.entry(path) is not None

    def link_target(self, path: str) -> str | None:
        """None for anything but a symbolic link."""
        entry = self.entry(path)
        return os.fsdecode(self._objects.read(entry.blob)) if entry and entry.mode == SYMLINK else None


def alternates(store: Path) -> dict[str, str]:
    """The variable by which git finds another store's objects too."""
    return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": quote_path(str(store), is_forced=True)}


_SCRATCH_NAME = re.compile(r"(?:[a-z]+-)?([0-9]+)(?:-[0-9]+)?(?:\.lock)?", re.ASCII)


def remove_scratch_files(git_dirs: Iterable[Path]) -> None:
    """Those of running processes stay."""
    for git_dir in git_dirs:
        with contextlib.suppress(FileNotFoundError):
            for path in list((git_dir / "scratch").iterdir()):
                match = _SCRATCH_NAME.fullmatch(path.name)
                if match and not process.is_alive(int(match[1])):
                    remove_if_exists(path)
