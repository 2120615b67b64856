"""The sandbox policy of a project: its level, and the view of each of its programs."""

import fnmatch
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, field, structs

from goalseek.disk import recreate_folder
from goalseek.errors import USAGE, GoalseekError
from goalseek.git.location import Location, other_folders
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.rules import authors_of
from goalseek.manifest.tables import SandboxTable
from goalseek.sandbox import level as levels
from goalseek.sandbox.environment import expand_path
from goalseek.sandbox.executables import required_paths
from goalseek.sandbox.level import SandboxLevel
from goalseek.sandbox.view import Launch, Mount, Terminal, View, build_view, throw_away_home
from goalseek.values import StopReason, short_digest
from goalseek.workspace.hidden_files import folder_of
from goalseek.workspace.places import CachePaths

_ENVIRONMENT_FILES = ("pyvenv.cfg", "conda-meta")
_CACHE_HINT = "name the folder of a tool, such as ~/.cache/ccache"
_GRAPHICS_DEVICES = ("nvidia*", "dri", "kfd", "dxg", "accel")
_WITH_PATHS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_VIEW_SECONDS = 5.0  # then it is made anew: the user may have changed links, or files of the system
_CREDENTIALS = Path("/run/goalseek/credentials")


class ProgramAccess(Struct, frozen=True):
    """``commands`` are the command lines that the program runs, in ``cwd`` below the manifest's folder.

    ``caches`` is the set that it writes: "tree" for commands that run candidate code, "ruler" for those that never do.
    ``home`` is an existing throw-away HOME; ``credentials`` are real files that it may write, at ``credential_at``:
    logins, and the socket of a drive.
    """

    tree: Path
    commands: Sequence[str | Sequence[str]]
    cwd: str = "."
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    caches: Literal["", "tree", "ruler"] = ""
    devices: bool = False
    network: bool = False
    terminal: Terminal = ""
    home: Path | None = None
    credentials: tuple[Path, ...] = ()


class SandboxPolicy(Struct, frozen=True, eq=False):
    """``folder`` is the manifest's in the user's checkout. The manifest may not name a ``masked`` path.

    ``elsewhere`` are other checkouts, of which programs see only paths that the manifest names, such as an environment.
    """

    level: SandboxLevel
    table: SandboxTable
    top: Path
    folder: Path
    scratch: Path
    kept: Path
    shared: tuple[Path, ...]
    masked: tuple[Path, ...]
    elsewhere: tuple[Path, ...] = ()
    _required: dict[object, dict[Path, str]] = field(default_factory=dict)
    _views: dict[object, tuple[float, View | None]] = field(default_factory=dict)

    @property
    def mounts(self) -> bool:
        """Whether trees are seen at the repository's own path, with shared folders mounted in them."""
        return self.level.name == "bubblewrap"

    def seen_at(self, tree: Path, path: Path) -> Path:
        return self.top / path.relative_to(tree) if self.mounts else path

    def credential_at(self, real: Path) -> Path:
        """Not in HOME, where a program could not replace a mount."""
        return _CREDENTIALS / short_digest(str(real)) if self.mounts else real

    def home_at(self, home: Path) -> Path:
        return throw_away_home(home, self.top).at if self.mounts else home

    def launch(
        self, access: ProgramAccess, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> Launch:
        """``folder`` is a path on disk in its tree. Makes TMPDIR and HOME anew. Raises OSError or GoalseekError."""
        if self.level.name == "none":
            recreate_folder(self.scratch / "tmp")
            home = {"HOME": str(access.home)} if access.home else {}
            return Launch(tuple(arguments), {**environment, **home}, folder)
        key = (self, repr(access), *map(environment.get, _WITH_PATHS))
        made_at, view = self._views.get(key, (0.0, None))
        is_recent = time.monotonic() - made_at < _VIEW_SECONDS
        if view and is_recent and all(os.path.exists(shown.source) for shown in (view.tree, *view.shown)):
            for mount in (view.temporary, *([] if access.home else [view.home])):
                recreate_folder(mount.source)
        else:
            view = self.view(access, environment)
            self._views[key] = time.monotonic(), view
        return self.level.launch(view, arguments, environment, folder)

    def view(self, access: ProgramAccess, environment: Mapping[str, str]) -> View:
        """Makes the throw-away folders, and missing kept caches."""
        required = self.required_paths(access.commands, environment, access.cwd)
        readable = (*required, *self.shared, *self.readable(), *access.readable)
        view = build_view(access.tree, self.top, self.scratch, access.home)
        paths = self.cache_paths() if access.caches else ()
        # Folders of goalseek's own over those that sandbox.cache names: the user's are not touched.
        caches = [Mount(self.kept / access.caches / short_digest(str(path)), path, writable=True) for path in paths]
        for cache in caches:
            cache.source.mkdir(parents=True, exist_ok=True, mode=0o700)
        return structs.replace(
            view,
            shown=(
                *(Mount.in_place(path) for path in readable),
                *(Mount.in_place(path, writable=True) for path in access.writable),
                *(Mount(real, self.credential_at(real), writable=True) for real in access.credentials),
                *caches,
            ),
            masked=(*self.masked, *self.elsewhere, *view.masked),
            devices=self.devices() if access.devices else (),
            network=access.network,
            terminal=access.terminal,
        )

    def required_paths(
        self, commands: Sequence[str | Sequence[str]], environment: Mapping[str, str], cwd: str = "."
    ) -> dict[Path, str]:
        """With reasons, and with environments in the user's checkout; cached while all of them exist."""
        key = (tuple(map(str, commands)), *map(environment.get, _WITH_PATHS), cwd)
        if key not in self._required or not all(path.exists() for path in self._required[key]):
            required = required_paths(commands, environment, self.folder / cwd)
            for path in [path for path in required if path.is_relative_to(self.top)]:
                is_shared = any(map(path.is_relative_to, self.shared))
                if is_shared or not any((path / mark).exists() for mark in _ENVIRONMENT_FILES):
                    del required[path]  # it is had from the tree
            self._required[key] = required
        return self._required[key]

    def readable(self) -> tuple[Path, ...]:
        """Raises GoalseekError for a path of ``sandbox.read`` that is missing or may not be shown."""
        paths = tuple(expand_path("sandbox.read", text, self.folder) for text in self.table.read)
        for path in paths:
            if not path.exists():
                raise GoalseekError(f"sandbox.read: there is no {path}", "make it, or take it out", USAGE)
            self._refuse_own("sandbox.read", path)
        return paths

    def devices(self) -> tuple[Path, ...]:
        """Raises GoalseekError for a listed device that does not exist."""
        if isinstance(self.table.devices, str):
            patterns = _GRAPHICS_DEVICES if self.table.devices == "auto" else ()
            names = sorted(os.listdir("/dev"))
            return tuple(Path("/dev", name) for pattern in patterns for name in fnmatch.filter(names, pattern))
        for text in self.table.devices:
            if not Path(text).exists():
                raise GoalseekError(f"sandbox.devices: there is no {text}", "take it out", USAGE)
        return tuple(Path(text) for text in self.table.devices)

    def cache_paths(self) -> tuple[Path, ...]:
        """Raises GoalseekError for a path that overlaps goalseek's own, or that cannot be mounted."""
        paths = tuple(expand_path("sandbox.cache", text, self.folder) for text in self.table.cache)
        own = self.kept.parent.parent  # of every project
        for path in paths:
            if path.resolve().is_relative_to(own.resolve()):
                message = f"sandbox.cache: {path} lies in {own}, where goalseek keeps its own trees"
                raise GoalseekError(message, _CACHE_HINT, USAGE)
            self._refuse_own("sandbox.cache", path)
            if self.top.resolve().is_relative_to(path.resolve()):
                message = f"sandbox.cache: {path} holds the repository, which programs would not find any more"
                raise GoalseekError(message, _CACHE_HINT, USAGE)
            if self.level.name == "landlock" and not path.is_relative_to(Path.home()):
                message = f"sandbox.cache: {path} is outside of HOME, and nothing can be mounted there"
                raise GoalseekError(message, levels.installation_hint("bubblewrap"), StopReason.SANDBOX)
        return paths

    def _refuse_own(self, key: str, path: Path) -> None:
        real = path.resolve()
        for hidden in (self.top, *self.masked):
            if real.is_relative_to(hidden.resolve()):
                hint = "list a folder of the repository in scope.share" if hidden == self.top else "take it out"
                raise GoalseekError(f"{key}: {path} lies in {hidden}, which programs must not see", hint, USAGE)


def policy_for(loaded: ManifestFile, location: Location, folder: Path, places: CachePaths) -> SandboxPolicy:
    """Raises GoalseekError if the manifest names a level that does not work."""
    manifest = loaded.manifest
    # The folder of all caches: a cluster's workers have theirs there, with hidden files, and so have other climbs.
    own = [location.common_dir, location.git_dir, places.home.parent, loaded.logs.parent, loaded.path]
    own += [loaded.folder / table.script for table in authors_of(manifest.provider, manifest.search.rotate)]
    if tls := manifest.parallel.tls:
        own.append(expand_path("parallel.tls", tls.key, folder))
    if hidden_from := folder_of(folder, manifest):
        own.append(hidden_from.resolve())
    return SandboxPolicy(
        level=levels.probe(manifest.sandbox.mode),
        table=manifest.sandbox,
        top=location.top,
        folder=folder,
        scratch=places.scratch,
        kept=places.cache,
        shared=tuple(folder / path for path in manifest.scope.share),
        masked=tuple(dict.fromkeys(own)),
        elsewhere=other_folders(location),
    )
