"""A folder kept equal to a list of files: compared in one walk, then by the names in use, and restored path by path.

Equal files are not rewritten and changed ones get a new time, so that build tools see just the changes.
"""

import contextlib
import marshal
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct

from goalseek import disk
from goalseek.git.objects import Entry
from goalseek.git.paths import SYMLINK
from goalseek.workspace.listing import Listing
from goalseek.workspace.scope import Scope, parents
from goalseek.workspace.watch import Watch

LINK = "link"  # mode of goalseek's own symbolic link; its blob is the target
COPY = "copy"  # mode of a file that is in no tree of git's
COPY_PROGRAM = "copy and run"
OURS = (LINK, COPY, COPY_PROGRAM)
RACY_NANOSECONDS = 20_000_000
# Below so many folders, or with a path of so many bytes, a new folder is one change with its content.
_DEPTH_LIMIT = 200
_LENGTH_LIMIT = 1000
_FORMAT = 2


class Changes(Struct, frozen=True):
    """The result of one walk; a path may be of any kind. ``folders`` are new, and hold nothing that must stay."""

    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class TreePlan(Struct, frozen=True):
    """``shared`` maps paths in a tree to shared folders on disk, mounted if ``mounts``, else linked.

    ``keep`` are patterns of files that outlive a command; ``proposer`` has scripts of HEAD for the agent's tree.
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
        return {} if self.mounts else {path: Entry(LINK, target) for path, target in self.shared.items()}

    @property
    def mount_points(self) -> frozenset[str]:
        return frozenset(self.shared if self.mounts else ())


Signature = tuple[int, int, int, int, int]
TreeUpdateContext = Callable[[Path], AbstractContextManager[object]]  # entered while the tree in a folder is made anew


def signature_of(status: os.stat_result) -> Signature:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode, status.st_ino


class Checkout:
    """``entries`` are the files that ``root`` should hold; ``read`` gives their bytes, of a link its target.

    A new path that ``is_left_alone`` accepts is no change, nor is an empty mount point. Names that come or go cost a
    walk: each may have been another name of any file, and the file changed by it.
    """

    def __init__(
        self,
        root: Path,
        state: Path,
        read: Callable[[str, Entry], bytes],
        fill: Callable[[Path, Mapping[str, Entry]], None] | None = None,
        is_left_alone: Callable[[str], bool] = lambda path: False,
        mount_points: frozenset[str] = frozenset(),
    ) -> None:
        self.root = root
        self.state = state
        self.label = ""
        self._read = read
        self._fill = fill
        self._is_left_alone: Callable[[str], bool] = lambda path: path in mount_points or is_left_alone(path)
        self._mount_points = mount_points
        self._clear()

    def _clear(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._signatures: dict[str, dict[str, Signature]] = {}  # by folder, "" or "a/b/", and name
        self._racy: set[str] = set()  # recorded too near to their change time to tell a later change
        self._below: dict[str, int] = {}  # how many files lie below each folder
        self._watch: Watch | None = None
        self._used: dict[str, set[str]] | None = None  # names to look at, by folder; None: a walk must tell

    def _expect(self, entries: Mapping[str, Entry]) -> None:
        for path, entry in entries.items():
            if path not in self.entries:
                disk.split_path(path)
                # It would be written, and removed, at the target of our link.
                if path in self._below or any(above in self.entries for above in parents(path)):
                    raise disk.ForeignPath(f"{path!r} and another entry of its tree lie one below the other")
                for above in parents(path):
                    self._below[above] = self._below.get(above, 0) + 1
            self.entries[path] = entry

    def load(self) -> bool:
        """False without a usable record. A stale one will do: the walk finds the rest."""
        self._clear()
        try:
            version, label, entries, signatures, racy = marshal.loads(self.state.read_bytes())
            if version != _FORMAT or not self.root.is_dir():
                return False
            self._expect({path: Entry(*facts) for path, facts in entries.items()})
        except (OSError, ValueError, EOFError, TypeError, disk.ForeignPath):  # of a goalseek that took such an entry
            return False
        self.label, self._signatures, self._racy = label, signatures, set(racy)
        return True

    def save(self) -> None:
        """Without a label, the last record is right."""
        if not self.label:
            return
        entries = {path: (entry.mode, entry.blob) for path, entry in self.entries.items()}
        disk.write_atomic(self.state, marshal.dumps((_FORMAT, self.label, entries, self._signatures, list(self._racy))))

    def close(self) -> None:
        """Saves; the next look is a walk. A user has few watches (128), and other programs need some."""
        self.walk_next()
        self._watch = None
        self.save()

    def build(self, entries: Mapping[str, Entry], label: str) -> None:
        """Makes the folder anew. ``label`` is unset meanwhile, as in ``update``."""
        self.label = ""
        self._clear()
        self._expect(entries)
        disk.recreate_folder(self.root)
        if self._fill:
            self._fill(self.root, {path: entry for path, entry in entries.items() if entry.mode not in OURS})
        others = {path: entry for path, entry in entries.items() if entry.mode in OURS or not self._fill}
        with disk.own_folder(self.root) as folder:
            self._write(folder, others)
        self._record(entries)
        self.label = label
        self.save()

    def update(self, wanted: Mapping[str, Entry | None], label: str, is_all: bool = False) -> None:
        """Writes these entries to a clean folder; removes files with None, and with ``is_all`` all others.

        ``label`` is unset until all is written: after an interruption, load or build, as recorded files may be missing.
        """
        self.label = ""
        if is_all:
            wanted = {**{path: None for path in self.entries if path not in wanted}, **wanted}
        changed = {path: entry for path, entry in wanted.items() if entry and self.entries.get(path) != entry}
        removed = {path: None for path, entry in wanted.items() if entry is None and path in self.entries}
        with self._writing({**removed, **changed}) as folder:
            for path in removed:
                del self.entries[path]
                above, name = _split(path)
                self._signatures.get(above, {}).pop(name, None)
                self._racy.discard(path)
                for above in parents(path):
                    self._below[above] -= 1
                    if not self._below[above]:
                        del self._below[above]
                self._remove(folder, path)
            self._expect(changed)
            self._write(folder, changed)
        self._record(changed)
        self.label = label

    def overlay(self, wanted: Mapping[str, Entry | None]) -> None:
        """Writes entries unrecorded, so that a walk finds them as changes; None removes a file."""
        with self._writing(wanted) as folder:
            for path, entry in wanted.items():
                if entry is None:
                    self._remove(folder, path)
            self._write(folder, {path: entry for path, entry in wanted.items() if entry is not None})

    def changes(self) -> Changes:
        """Looks at all names, or at those in use since the last look if the system tells them.

        Reads only files recorded too near to their change time to trust the signature.
        """
        changed: list[str] = []
        missing: list[str] = []
        added: list[str] = []
        new_folders: list[str] = []
        walked: set[str] = set()
        racy: list[str] = []
        unwatched: list[str] = []
        self._watch = self._watch or Watch()  # in no variable of its own: walk refers to itself, and would keep it open

        def walk(folder: str, descriptor: int, names: Collection[str] | None = None) -> bool:
            """Gives whether the folder must stay: something in it is left alone, or recorded."""
            walked.add(folder)
            recorded, inner, count, must_stay = self._signatures.get(folder, {}), list[str](), 0, False
            if names is not None:
                recorded = {name: recorded[name] for name in names if name in recorded}
            elif (not folder or folder[:-1] in self._below) and not (
                self._watch and self._watch.add(folder, descriptor)
            ):
                unwatched.append(folder)
            with os.scandir(descriptor) as listing:
                for item in listing if names is None else [item for item in listing if item.name in names]:
                    name, path = item.name, folder + item.name
                    signature = recorded.get(name)
                    if signature is not None:
                        count += 1
                        if signature_of(item.stat(follow_symlinks=False)) != signature:
                            changed.append(path)
                        elif path in self._racy:
                            racy.append(path)
                    elif self._is_left_alone(path):
                        must_stay = True
                    elif item.is_dir(follow_symlinks=False) and (folder[:-1] in self._below or not _is_too_deep(path)):
                        inner.append(name)
                    else:
                        added.append(path)
            if count < len(recorded):
                present = frozenset(os.listdir(descriptor))
                missing.extend(folder + name for name in recorded if name not in present)
            for name in inner:
                path = folder + name
                with disk.open_folder(name, descriptor) as below:
                    stays = walk(f"{path}/", below)
                if path not in self._below:
                    (unwatched if stays else new_folders).append(path)
                must_stay |= stays or path in self._below
            return must_stay

        self._note_uses()
        used, self._used = self._used, None
        if used is None:
            self._watch.read()
        for folder, names in {"": None}.items() if used is None else used.items():
            with disk.own_folder(self.root / folder) as opened:
                walk(folder, opened.descriptor, names)
        for path in racy:
            if disk.read_content(self.root, path) == self._content_of(path, self.entries[path]):
                self._racy.discard(path)
            else:
                changed.append(path)
        for folder, facts in self._signatures.items() if used is None else ():
            if folder not in walked:  # it is gone, or below one that is left alone
                unwatched.append(folder)
                is_link = any((self.root / above).is_symlink() for above in parents(folder))
                missing.extend(
                    folder + name for name in facts if is_link or not os.path.lexists(self.root / folder / name)
                )
        added += filter(self._is_occupied, sorted(self._mount_points))
        if not unwatched:
            self._used = {}
            self._look_at((*changed, *missing, *added, *new_folders))
        return Changes(tuple(changed), tuple(sorted(missing)), tuple(added), tuple(new_folders))

    def walk_next(self) -> None:
        self._used = None

    def must_walk(self) -> bool:
        """Whether names may have come or gone since the last look."""
        self._note_uses()
        return self._used is None

    def _look_at(self, paths: Iterable[str]) -> None:
        """Next time too; below a new folder, at all of that."""
        for path in paths:
            folder, name = _split(path)
            while folder and folder[:-1] not in self._below:
                folder, name = _split(folder[:-1])
            if self._used is not None:
                self._used.setdefault(folder, set()).add(name)

    def _note_uses(self, ours: Mapping[str, Entry | None] = {}) -> None:
        """Those since the last note; ``ours`` are files that goalseek itself wrote, or removed (None), meanwhile."""
        if self._used is None or self._watch is None:
            return
        used = self._watch.read()
        is_whole = used is not None and used.keys() >= {path for path, entry in ours.items() if entry}
        for path, is_placed in (used or {}).items():
            is_whole &= path not in self._below and not (is_placed and path not in ours)
        self._look_at(used or ())
        if not is_whole:
            self._used = None

    @contextlib.contextmanager
    def _writing(self, wanted: Mapping[str, Entry | None]) -> Iterator[disk.OwnFolder]:
        self._note_uses()
        with disk.own_folder(self.root) as folder:
            yield folder
        self._note_uses(wanted)

    def restore(self, changes: Changes) -> None:
        if changes != Changes():
            expected = {path: self.entries[path] for path in (*changes.changed, *changes.missing)}
            self.overlay({**dict.fromkeys((*changes.added, *changes.folders)), **expected})
            self._record(expected)

    def clean(self) -> None:
        self.restore(self.changes())

    def is_as_recorded(self, path: str) -> bool:
        """Compares signatures; False for a file that is not recorded."""
        folder, name = _split(path)
        recorded = self._signatures.get(folder, {}).get(name)
        return recorded is not None and signature_of((self.root / path).lstat()) == recorded

    def size(self, path: str) -> int:
        """In bytes, of a recorded file."""
        folder, name = _split(path)
        return self._signatures[folder][name][2]

    def _is_occupied(self, path: str) -> bool:
        """Whether more than an empty mount point is there; never below a link, which is new itself."""
        place = self.root / path
        with contextlib.suppress(OSError), disk.own_folder(place.parent) as above:
            status = os.stat(place.name, dir_fd=above.descriptor, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                return not stat.S_ISREG(status.st_mode) or status.st_size > 0
            with disk.open_folder(place.name, above.descriptor) as folder:
                return bool(os.listdir(folder))
        return False

    def _content_of(self, path: str, entry: Entry) -> bytes:
        return os.fsencode(entry.blob) if entry.mode == LINK else self._read(path, entry)

    def _write(self, folder: disk.OwnFolder, entries: Mapping[str, Entry]) -> None:
        for path, entry in entries.items():
            content = self._content_of(path, entry)
            if entry.mode in (LINK, SYMLINK):
                folder.link(path, content)
                continue
            mode = 0o755 if entry.mode in ("100755", COPY_PROGRAM) else 0o644
            with folder.create(path, mode) as file:
                file.write(content)

    def _remove(self, folder: disk.OwnFolder, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folder.remove(path)
        for above in parents(path):
            if above in self._below:
                return
            folder.remove_if_empty(above)

    def _record(self, paths: Iterable[str]) -> None:
        racy_from = time.time_ns() - RACY_NANOSECONDS
        for path in paths:
            folder, name = _split(path)
            signature = signature_of(os.lstat(f"{self.root}/{path}"))
            self._signatures.setdefault(folder, {})[name] = signature
            if signature[1] > racy_from:
                self._racy.add(path)


def _is_too_deep(path: str) -> bool:
    return path.count("/") >= _DEPTH_LIMIT or len(os.fsencode(path)) > _LENGTH_LIMIT


def _split(path: str) -> tuple[str, str]:
    """The folder has a slash at its end, or is ""."""
    cut = path.rfind("/") + 1
    return path[:cut], path[cut:]
