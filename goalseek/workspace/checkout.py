"""A checkout, a folder kept equal to a list of files, compared in one walk and restored path by path.

An equal file is never written again, so that build tools see only what changed; a changed one gets a new time.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from goalseek.files import write_atomic
from goalseek.git.objects import Entry
from goalseek.git.paths import SYMLINK
from goalseek.own_folders import ForeignPath, OwnFolder, open_folder, own_folder, read_regular, recreate_folder
from goalseek.workspace.scan import RACY_NANOSECONDS, Changes, Listing, RecordedFiles, signature_of, walk
from goalseek.workspace.scope import Scope, parents

LINK = "link"
COPY = "copy"
COPY_PROGRAM = "copy and run"
OURS = (LINK, COPY, COPY_PROGRAM)
_FORMAT = 2


class TreePlan(Struct, frozen=True):
    """What a project's trees are made from. ``shared`` are the shared folders: path in a tree to path on disk.

    Where ``mounts``, these are mounted on their paths, not linked. ``keep`` are the patterns of what outlives a
    command; ``hidden_folder`` is where the files of ``hidden_from`` are read. The agent's tree has the ``proposer``'s
    scripts in place of the candidate's.
    """

    scope: Scope
    scope_key: str
    keep: tuple[str, ...]
    shared: Mapping[str, str]
    mounts: bool
    hidden_from: Listing
    hidden_folder: Path | None
    proposer: Mapping[str, Entry] = {}

    @property
    def links(self) -> dict[str, Entry]:
        """The shared folders that are links in the trees."""
        return {} if self.mounts else {path: Entry(LINK, target) for path, target in self.shared.items()}

    @property
    def mount_points(self) -> frozenset[str]:
        """The paths in the trees that shared folders are mounted on."""
        return frozenset(self.shared if self.mounts else ())


class Checkout:
    """One folder and the files it should hold. ``read`` gives an entry's bytes (a link's target for a link).

    An entry with the mode ``link`` is a symbolic link of ours to the path that its ``blob`` names; one with the mode
    ``copy`` is a file that is in no tree of git's. What is new and ``is_left_alone`` is no change.
    """

    def __init__(
        self,
        root: Path,
        state: Path,
        read: Callable[[str, Entry], bytes],
        fill: Callable[[Path, Mapping[str, Entry]], None] | None = None,
        is_left_alone: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self.root = root
        self.state = state
        self.label = ""
        self._read = read
        self._fill = fill
        self._is_left_alone = is_left_alone
        self._recorded = RecordedFiles()

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The files that the folder should hold."""
        return self._recorded.entries

    def load(self) -> bool:
        """Loads what an earlier process recorded; False without. A stale record will do: the walk finds the rest."""
        try:
            version, label, entries, signatures, racy = marshal.loads(self.state.read_bytes())
        except (OSError, ValueError, EOFError, TypeError):
            return False
        if version != _FORMAT or not self.root.is_dir():
            return False
        try:
            self._recorded = RecordedFiles.of({path: Entry(*facts) for path, facts in entries.items()})
        except ForeignPath:  # of a goalseek that took such an entry
            return False
        self.label = label
        self._recorded.signatures, self._recorded.racy = signatures, set(racy)
        return True

    def save(self) -> None:
        """Records the folder's state for the next process."""
        recorded = self._recorded
        entries = {path: (entry.mode, entry.blob) for path, entry in recorded.entries.items()}
        content = marshal.dumps((_FORMAT, self.label, entries, recorded.signatures, list(recorded.racy)))
        write_atomic(self.state, content)

    def build(self, entries: Mapping[str, Entry], label: str) -> None:
        """Makes the folder anew with just these files."""
        self._recorded = RecordedFiles.of(dict(entries))
        recreate_folder(self.root)
        real = {path: entry for path, entry in entries.items() if entry.mode not in OURS}
        if self._fill:
            self._fill(self.root, real)
        with own_folder(self.root) as folder:
            for path, entry in entries.items():
                if entry.mode in OURS or not self._fill:
                    self._write(folder, path, entry)
        self._record(entries)
        self.label = label
        self.save()

    def update(self, wanted: Mapping[str, Entry | None], label: str) -> None:
        """Changes the folder, clean before, to hold these entries at these paths; None removes a file."""
        with own_folder(self.root) as folder:
            for path, entry in wanted.items():
                if entry is None and path in self.entries:
                    self._recorded.forget(path)
                    self._remove(folder, path)
            changed = {path: entry for path, entry in wanted.items() if entry and self.entries.get(path) != entry}
            for path, entry in changed.items():
                self._recorded.add(path, entry)
                self._write(folder, path, entry)
        self._record(changed)
        self.label = label

    def overlay(self, wanted: Mapping[str, Entry | None]) -> None:
        """Puts these entries there, unrecorded: a walk finds them as changes. None removes a file."""
        with own_folder(self.root) as folder:
            for path, entry in wanted.items():
                if entry is None:
                    self._remove(folder, path)
            for path, entry in wanted.items():
                if entry is not None:
                    self._write(folder, path, entry)

    def changes(self) -> Changes:
        """What differs from what is recorded, by one walk of the folder."""
        return walk(self.root, self._recorded, self._differs, self._is_left_alone)

    def restore(self, changes: Changes) -> None:
        """Undoes what a walk found, path by path."""
        with own_folder(self.root) as folder:
            for path in (*changes.added, *changes.folders):
                self._remove(folder, path)
            for path in (*changes.changed, *changes.missing):
                self._remove(folder, path)
                self._write(folder, path, self.entries[path])
        self._record((*changes.changed, *changes.missing))

    def clean(self) -> None:
        """Puts back whatever is not as recorded."""
        if changes := self.changes():
            self.restore(changes)

    def fingerprint(self, paths: Iterable[str]) -> tuple[tuple[int, ...], ...] | None:
        """The signatures of all recorded folders and of these files: while equal, nothing was added or removed.

        None where one of them is gone, or was changed too near to now to tell a later change.
        """
        signatures = []
        racy_from = time.time_ns() - RACY_NANOSECONDS
        for path in ("", *self._recorded.below, *paths):
            try:
                status = os.lstat(self.root / path)
            except OSError:
                return None
            if status.st_ctime_ns > racy_from:
                return None
            signatures.append((status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))
        return tuple(signatures)

    def is_as_recorded(self, path: str) -> bool:
        """Whether a file looks as when it was written; False where it is not one of the recorded files."""
        if path not in self.entries:
            return False
        return signature_of((self.root / path).lstat()) == self._recorded.signature(path)

    def size(self, path: str) -> int:
        """The size in bytes of a recorded file."""
        return self._recorded.signature(path)[2]

    def _differs(self, path: str) -> bool:
        entry = self.entries[path]
        full_path = self.root / path
        mode = full_path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return os.fsencode(os.readlink(full_path)) != self._content(path, entry)
        if not stat.S_ISREG(mode) or read_regular(self.root, path) != self._content(path, entry):
            return True
        self._recorded.racy.discard(path)
        return False

    def _content(self, path: str, entry: Entry) -> bytes:
        return os.fsencode(entry.blob) if entry.mode == LINK else self._read(path, entry)

    def _write(self, folder: OwnFolder, path: str, entry: Entry) -> None:
        content = self._content(path, entry)
        if entry.mode in (LINK, SYMLINK):
            folder.link(path, content)
            return
        mode = 0o755 if entry.mode in ("100755", COPY_PROGRAM) else 0o644
        with open(folder.create(path, mode), "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(content)

    def _remove(self, folder: OwnFolder, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folder.remove(path)
        for above in parents(path):
            if above in self._recorded.below:
                return
            folder.remove_if_empty(above)

    def _record(self, paths: Iterable[str]) -> None:
        """Records the signatures of files that were just written."""
        now = time.time_ns()
        for path in paths:
            self._recorded.record(path, signature_of((self.root / path).lstat()), now)


def occupied_paths(root: Path, paths: Iterable[str]) -> list[str]:
    """Of the paths in a tree that something is mounted on, those where more than an empty mount point stands.

    A path below a link is none of them: the link itself is what somebody put there.
    """
    return [path for path in sorted(paths) if _is_occupied(root, path)]


def _is_occupied(root: Path, path: str) -> bool:
    *above, name = path.split("/")
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        folder = stack.enter_context(open_folder(root))
        for part in above:
            folder = stack.enter_context(open_folder(part, folder))
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return bool(os.listdir(stack.enter_context(open_folder(name, folder))))
        return not stat.S_ISREG(status.st_mode) or status.st_size > 0
    return False
