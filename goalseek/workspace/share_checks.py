"""Whether the folders that ``scope.share`` and ``setup.gives`` name may be had so, with the files that git tracks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from goalseek.errors import USAGE, GoalseekError
from goalseek.git.objects import SUBMODULE, SYMLINK, Entry
from goalseek.git.paths import quote_path
from goalseek.git.repository import Repository
from goalseek.manifest.loading import Loaded, base_of
from goalseek.manifest.tables import Manifest
from goalseek.workspace import hidden_files
from goalseek.workspace.places import Places
from goalseek.workspace.scan import parents
from goalseek.workspace.scope import Scope


def refuse_unfit_gives(manifest: Manifest, prefix: str, scope: Scope, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError where what setup gives would take the place of a file that is the candidate's, or hidden."""
    for name in manifest.setup.gives if manifest.setup else ():
        inside = (path for path in entries if path.startswith(f"{prefix}{name}/"))
        if taken := next((path for path in inside if scope.kind(path) in ("writable", "hidden")), None):
            message = f"setup.gives: {name} holds {quote_path(taken)}, which its copy would take the place of"
            raise GoalseekError(message, "let setup write into a folder of its own, and give that", USAGE)


def refuse_unfit_shares(
    loaded: Loaded, repository: Repository, places: Places, scope: Scope, entries: Mapping[str, Entry]
) -> None:
    """Raises GoalseekError where a shared path holds what a tree tracks, or leads to what programs must not see.

    ``entries`` are the tree's files. A submodule, or a link that is tracked itself, may be shared.
    """
    location = repository.location
    hidden = hidden_files.folder_of(base_of(loaded, repository.top), loaded.manifest)
    own = [location.common_dir, location.git_dir, places.home.parent, loaded.logs, loaded.runs, loaded.path]
    own += [hidden] if hidden else []
    for name in loaded.manifest.scope.share:
        path = places.prefix + name
        _refuse_in_its_place(name, path, scope, entries)
        real, top = (repository.top / path).resolve(), repository.top.resolve()
        for other in (repository.top, *own):
            is_inside = other != repository.top and real.is_relative_to(other.resolve())
            if is_inside or other.resolve().is_relative_to(real):
                message = f"scope.share: {name} {'lies in' if is_inside else 'holds'} {other}"
                hint = "programs must not see that: share a folder that has nothing of git's or goalseek's in it"
                raise GoalseekError(message, hint, USAGE)
        if real != top / path and real.is_relative_to(top):
            target = real.relative_to(top).as_posix()
            if inside := _first_tracked(target, entries, also_at=True):
                raise _holding(name, inside, scope, "it is a link to what git tracks: share what git ignores")
        for tracked in entries:  # through a link on the way to the hidden file
            if scope.kind(tracked) == "hidden" and (repository.top / tracked).resolve().is_relative_to(real):
                raise _holding(name, tracked, scope)


def _refuse_in_its_place(name: str, path: str, scope: Scope, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError where a tree has files at a shared path, above or below."""
    at = entries.get(path)
    if at is not None and at.mode not in (SUBMODULE, SYMLINK):
        message = f"scope.share: git tracks {quote_path(name)}, which the trees have anyway"
        raise GoalseekError(message, f"take it out; or let git ignore it: {_untrack(name)}", USAGE)
    if inside := _first_tracked(path, entries):
        raise _holding(name, inside, scope)
    above = next((above for above in parents(path) if above in entries and entries[above].mode != SUBMODULE), None)
    if above is not None:
        message = f"scope.share: {quote_path(name)} lies below {quote_path(above)}, a file or a link that git tracks"
        raise GoalseekError(message, "share that link itself, or the folder that it leads to", USAGE)


def _first_tracked(folder: str, entries: Mapping[str, Entry], also_at: bool = False) -> str | None:
    """The first file of a tree below a folder, or ``also_at`` its path. Submodules are in no tree of goalseek's."""
    files = (path for path, entry in entries.items() if entry.mode != SUBMODULE)
    return next((path for path in files if path.startswith(f"{folder}/") or (also_at and path == folder)), None)


def _holding(name: str, tracked: str, scope: Scope, remedy: str = "") -> GoalseekError:
    quoted = quote_path(tracked)
    if scope.kind(tracked) == "hidden":
        message = f"scope.share: {name} holds the hidden file {quoted}"
        return GoalseekError(message, "keep hidden files and what is shared in separate folders", USAGE)
    usual = f"share the folder below it that git ignores; or let git ignore that file: {_untrack(tracked)}"
    return GoalseekError(f"scope.share: {name} holds {quoted}, which git tracks", remedy or usual, USAGE)


def _untrack(path: str) -> str:
    return f"git rm --cached {shlex.quote(path)}, commit, and in a climb that has begun: goalseek baseline"
