"""Shared folders (``scope.share``): their files at the baseline, and the paths that may be shared."""

from __future__ import annotations

import contextlib
import functools
import shlex
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field, structs

from goalseek.disk import read_stored, write_atomic
from goalseek.errors import USAGE, GoalseekError
from goalseek.git.paths import SUBMODULE, SYMLINK, quote_path
from goalseek.humanize import abbreviate
from goalseek.manifest.loading import ManifestFile, base_of
from goalseek.manifest.tables import Manifest
from goalseek.values import to_line
from goalseek.workspace.listing import Listing, changed_paths, content_digest, digest_of, list_folder
from goalseek.workspace.scope import Scope, parents

if typing.TYPE_CHECKING:
    from goalseek.git.objects import Entry
    from goalseek.git.repository import Repository
    from goalseek.workspace.places import CachePaths


MAX_FILES = 20_000
_MAX_BYTES = 64_000_000  # of the contents that are compared
SHARES_CHANGED = "shared files are not as at the baseline"


class SharedBaseline(Struct, frozen=True):
    """``contents`` are the digests of small files, by path, compared if only the time differs."""

    epoch: int
    names: tuple[str, ...]
    files: Listing
    contents: dict[str, str] = field(default_factory=dict)


class SharedFolders:
    """Lists the folders once; ``own`` is goalseek's folder for the baseline's record."""

    def __init__(self, own: Path, base: Path, names: Sequence[str]) -> None:
        self._path = own / "share.json"
        self._base = base
        self._names = tuple(names)

    def digest(self) -> str:
        return digest_of(self._files)

    def notes(self, epoch: int) -> tuple[str, ...]:
        baseline = self._load_baseline(epoch) if self._names else None
        if baseline is None:
            return ()
        was, now = ({item.path: item for item in files} for files in (baseline.files, self._files))
        changed = []
        for path in changed_paths(baseline.files, self._files):
            before, after, digest = was.get(path), now.get(path), baseline.contents.get(path)
            is_time_only = before and after and structs.replace(before, time=after.time) == after
            if not (is_time_only and digest and digest == content_digest(self._base / path)):
                changed.append(quote_path(path))
        return (f"{SHARES_CHANGED}: {abbreviate(changed)}",) if changed else ()

    def save_baseline(self, epoch: int) -> None:
        if self._load_baseline(epoch) is None:
            contents, read_bytes = {}, 0
            for item in sorted(self._files, key=lambda item: item.size):
                read_bytes += item.size
                if read_bytes <= _MAX_BYTES and item.kind in ("file", "program"):
                    contents[item.path] = content_digest(self._base / item.path)
            line = to_line(SharedBaseline(epoch, self._names, self._files, contents))
            write_atomic(self._path, line + "\n", durable=True)

    def is_whole(self) -> bool:
        """Whether the listing holds all files."""
        return len(self._files) < MAX_FILES

    def _load_baseline(self, epoch: int) -> SharedBaseline | None:
        baseline = read_stored(SharedBaseline, self._path)
        return baseline if baseline and (baseline.epoch, baseline.names) == (epoch, self._names) else None

    @functools.cached_property
    def _files(self) -> Listing:
        files: Listing = ()
        for name in self._names:
            with contextlib.suppress(OSError):  # a command cannot use such a folder either, and says so
                listing = list_folder((self._base / name).resolve(), MAX_FILES - len(files))
                files += tuple(structs.replace(item, path=f"{name}/{item.path}") for item in listing)
        return files


def refuse_unfit_gives(manifest: Manifest, prefix: str, scope: Scope, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError if ``setup.gives`` would replace a writable or hidden file."""
    for name in manifest.setup.gives if manifest.setup else ():
        inside = (path for path in entries if path.startswith(f"{prefix}{name}/"))
        if clash := next((path for path in inside if scope.kind(path) in ("writable", "hidden")), None):
            message = f"setup.gives: {name} holds {quote_path(clash)}, which its copy would replace"
            raise GoalseekError(message, "let setup write into a folder of its own, and give that", USAGE)


def refuse_unfit_shares(
    loaded: ManifestFile, repository: Repository, paths: CachePaths, scope: Scope, entries: Mapping[str, Entry]
) -> None:
    """Raises GoalseekError if a shared path holds a tracked file, or leads to what programs must not see."""
    location = repository.location
    hidden_from = loaded.manifest.scope.hidden_from
    own = [location.common_dir, location.git_dir, paths.home.parent, loaded.logs, loaded.runs, loaded.path]
    own += [base_of(loaded, repository.top) / hidden_from] if hidden_from else []
    tracked = [path for path, entry in entries.items() if entry.mode != SUBMODULE]
    top = repository.top.resolve()
    untrack = "git rm --cached {}, commit, and in a climb that has begun: goalseek baseline"

    def tracked_error(name: str, inside: str, remedy: str = "") -> GoalseekError:
        quoted = quote_path(inside)
        if scope.kind(inside) == "hidden":
            message = f"scope.share: {name} holds the hidden file {quoted}"
            return GoalseekError(message, "keep hidden files and what is shared in separate folders", USAGE)
        untracked = untrack.format(shlex.quote(inside))
        usual = f"share the folder below it that git ignores; or let git ignore that file: {untracked}"
        return GoalseekError(f"scope.share: {name} holds {quoted}, which git tracks", remedy or usual, USAGE)

    for name in loaded.manifest.scope.share:
        path = paths.prefix + name
        if path in entries and entries[path].mode not in (SUBMODULE, SYMLINK):
            message = f"scope.share: git tracks {quote_path(name)}, so every tree has it already"
            remedy = f"take it out; or let git ignore it: {untrack.format(shlex.quote(name))}"
            raise GoalseekError(message, remedy, USAGE)
        if inside := next((other for other in tracked if other.startswith(f"{path}/")), None):
            raise tracked_error(name, inside)
        for above in parents(path):
            if above in entries and entries[above].mode != SUBMODULE:
                where = f"{quote_path(name)} lies below {quote_path(above)}, a file or a link that git tracks"
                hint = "share that link itself, or the folder that it leads to"
                raise GoalseekError(f"scope.share: {where}", hint, USAGE)
        real = (repository.top / path).resolve()
        for other in (repository.top, *own):
            is_inside = other != repository.top and real.is_relative_to(other.resolve())
            if is_inside or other.resolve().is_relative_to(real):
                message = f"scope.share: {name} {'lies in' if is_inside else 'holds'} {other}"
                hint = "programs must not see that: share a folder without files of git or goalseek"
                raise GoalseekError(message, hint, USAGE)
        if real != top / path and real.is_relative_to(top):
            target = real.relative_to(top).as_posix()
            if inside := next((file for file in tracked if file == target or file.startswith(f"{target}/")), None):
                raise tracked_error(name, inside, "it is a link to what git tracks: share what git ignores")
        for file in entries:  # through a link on the way to the hidden file
            if scope.kind(file) == "hidden" and (repository.top / file).resolve().is_relative_to(real):
                raise tracked_error(name, file)
