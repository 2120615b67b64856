"""What keeps a project's programs in their place: the level that holds, and what each program may see and write."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from goalseek.errors import UNFIT, USAGE, GoalseekError
from goalseek.git.location import Location, elsewhere
from goalseek.manifest.loading import Loaded
from goalseek.manifest.tables import Manifest, SandboxTable
from goalseek.own_folders import make_anew
from goalseek.sandbox import level as levels
from goalseek.sandbox.environment import expanded
from goalseek.sandbox.executables import RequiredPath, required_paths
from goalseek.sandbox.level import SandboxLevel
from goalseek.sandbox.view import Launch, Mount, View, build_view, graphics_devices, roots, throw_away_home
from goalseek.workspace.hidden_files import folder_of
from goalseek.workspace.places import CachePaths

_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
_CREDENTIALS = Path("/run/goalseek/credentials")
_NOWHERE = Path("/proc/self/nowhere")


@dataclass(frozen=True)
class ProgramAccess:
    """One program's place. ``tree`` is where it works; ``commands`` are what it was asked to run, in words.

    ``cwd`` is its folder below the manifest's. ``caches`` says whose kept caches it writes in: of commands that run
    the candidate's code ("tree"), of those that never do ("ruler"); "" for none. Where ``devices``, it gets those of
    ``sandbox.devices``. ``home`` is a throw-away HOME that was made already. ``credentials`` are real files that it
    may write, seen at ``credential_at``.
    """

    tree: Path
    commands: Sequence[str | Sequence[str]]
    cwd: str = "."
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    caches: Literal["", "tree", "ruler"] = ""
    devices: bool = False
    network: bool = False
    terminal: bool = False
    home: Path | None = None
    credentials: tuple[Path, ...] = ()


@dataclass(frozen=True)
class SandboxPolicy:
    """The level, and what all programs of a project share. ``folder`` is the manifest's in the user's checkout.

    What is ``masked`` may not be named in the manifest either. ``elsewhere`` are other checkouts: what is named in one
    of them, an environment say, is seen, and nothing else of it.
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
    _found: dict[object, tuple[RequiredPath, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def mounts(self) -> bool:
        """Whether trees are seen at the repository's own path, and shared folders in them without a link."""
        return self.level.name == "bubblewrap"

    def seen_at(self, tree: Path, place: Path) -> Path:
        """The path by which a program that works in ``tree`` finds a place in it."""
        return self.top / place.relative_to(tree) if self.mounts else place

    def credential_at(self, real: Path) -> Path:
        """Where a program finds a credential file. Not in its HOME, where a mounted one could not be replaced."""
        if not self.mounts:
            return real
        return _CREDENTIALS / hashlib.sha256(os.fsencode(real)).hexdigest()[:16]

    def home_at(self, home: Path) -> Path:
        """By which path a program finds its throw-away HOME."""
        return throw_away_home(home, Path.home(), self.top, roots()).at if self.mounts else home

    def launch(
        self, job: ProgramAccess, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> Launch:
        """A program made ready; ``folder`` is a place on disk in its tree, its TMPDIR and HOME are made anew.

        Raises OSError or GoalseekError where its place cannot be made.
        """
        if self.level.name == "none":
            temporary = self.scratch / "tmp"
            make_anew(temporary)
            home = {"HOME": str(job.home)} if job.home else {}
            return Launch(tuple(arguments), {**environment, **home}, folder)
        return self.level.launch(self.view(job, environment), arguments, environment, folder)

    def view(self, job: ProgramAccess, environment: Mapping[str, str]) -> View:
        """What a program sees. Makes its throw-away folders, and kept caches that are not there yet."""
        needed = [need.path for need in self.needed(job.commands, environment, job.cwd)]
        seen = build_view(
            job.tree,
            self.top,
            self.scratch,
            readable=(*needed, *self.shared, *self.readable(), *job.readable),
            writable=job.writable,
            masked=(*self.masked, *self.elsewhere),
            devices=self.devices() if job.devices else (),
            network=job.network,
            terminal=job.terminal,
            home=job.home,
        )
        credentials = tuple(Mount(real, self.credential_at(real), writable=True) for real in job.credentials)
        seen = replace(seen, shown=(*seen.shown, *credentials))
        return replace(seen, shown=(*seen.shown, *self._caches(job.caches))) if job.caches else seen

    def needed(
        self, commands: Sequence[str | Sequence[str]], environment: Mapping[str, str], cwd: str = "."
    ) -> tuple[RequiredPath, ...]:
        """What the programs of commands need to be shown, and why; environments in the user's checkout among it.

        It is looked for again where a part of it is gone.
        """
        variables = tuple(environment.get(name) for name in ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH"))
        key = (tuple(map(str, commands)), variables, cwd)
        if key not in self._found or not all(need.path.exists() for need in self._found[key]):
            found = required_paths(commands, environment, self.folder / cwd, _NOWHERE)
            mine = (need for need in found if not need.path.is_relative_to(self.top) or self._is_environment(need))
            self._found[key] = tuple(mine)
        return self._found[key]

    def readable(self) -> tuple[Path, ...]:
        """``sandbox.read`` as paths. Raises GoalseekError for one that is not there, or may not be shown."""
        found = tuple(expanded("sandbox.read", text, self.folder) for text in self.table.read)
        for path in found:
            if not path.exists():
                raise GoalseekError(f"sandbox.read: there is no {path}", "make it, or take it out", USAGE)
            self._refuse_own("sandbox.read", path)
        return found

    def devices(self) -> tuple[Path, ...]:
        """The devices that VERIFY gets. Raises GoalseekError for a listed one that is not there."""
        if isinstance(self.table.devices, str):
            return graphics_devices() if self.table.devices == "auto" else ()
        for text in self.table.devices:
            if not Path(text).exists():
                raise GoalseekError(f"sandbox.devices: there is no {text}", "take it out", USAGE)
        return tuple(Path(text) for text in self.table.devices)

    def refuse_unfit(self) -> None:
        """Raises GoalseekError for a path of ``[sandbox]`` that cannot be had at this level."""
        self.readable()
        self.devices()
        if self.level.name == "none":
            self._cache_paths()
        else:
            self._caches("")

    def not_enforced(self, agent: bool, networked: bool) -> tuple[str, ...]:
        """What programs can do in spite of the level. ``networked``: a command of the verifier has the network."""
        return self.level.not_enforced((agent and self.table.agent_network) or networked)

    def weaker(self) -> tuple[str, ...]:
        """What the manifest itself makes weaker, each a sentence."""
        if not self.table.cache or self.level.name == "none":
            return ()
        caches = ", ".join(self.table.cache)
        return (f"sandbox.cache: what a candidate leaves in {caches}, the next one finds",)

    def _caches(self, whose: str) -> tuple[Mount, ...]:
        """Folders of goalseek's own in the place of those that ``sandbox.cache`` names: the user's are not touched."""
        found = []
        for at in self._cache_paths():
            if not self.mounts and not at.is_relative_to(Path.home()):
                message = f"sandbox.cache: {at} is outside of HOME, and nothing can be mounted there"
                raise GoalseekError(message, levels.how_to_get("bubblewrap"), UNFIT, "sandbox")
            if whose:
                source = self.kept / whose / hashlib.sha256(os.fsencode(at)).hexdigest()[:16]
                source.mkdir(parents=True, exist_ok=True, mode=0o700)
                found.append(Mount(source, at, writable=True))
        return tuple(found)

    def _cache_paths(self) -> tuple[Path, ...]:
        """``sandbox.cache`` as paths. Raises GoalseekError where one and the repository, or goalseek's own, overlap."""
        found = tuple(expanded("sandbox.cache", text, self.folder) for text in self.table.cache)
        for path in found:
            self._refuse_own("sandbox.cache", path)
            own = self.kept.parent.parent  # of every project
            if path.resolve().is_relative_to(own.resolve()):
                message = f"sandbox.cache: {path} lies in {own}, where goalseek keeps its own trees"
                raise GoalseekError(message, "name the folder of a tool, such as ~/.cache/ccache", USAGE)
            if self.top.resolve().is_relative_to(path.resolve()):
                message = f"sandbox.cache: {path} holds the repository, which programs would not find any more"
                raise GoalseekError(message, "name the folder of a tool, such as ~/.cache/ccache", USAGE)
        return found

    def _refuse_own(self, key: str, path: Path) -> None:
        real = path.resolve()
        for hidden in (self.top, *self.masked):
            if real.is_relative_to(hidden.resolve()):
                hint = "list a folder of the repository in scope.share" if hidden == self.top else "take it out"
                raise GoalseekError(f"{key}: {path} lies in {hidden}, which programs must not see", hint, USAGE)

    def _is_environment(self, need: RequiredPath) -> bool:
        is_shared = any(need.path.is_relative_to(shared) for shared in self.shared)
        return not is_shared and any((need.path / mark).exists() for mark in _ENVIRONMENT_MARKS)


def policy_for(
    manifest: Manifest, loaded: Loaded, location: Location, folder: Path, places: CachePaths
) -> SandboxPolicy:
    """The confines of a project's programs. Finds the level out where that was not done in this process.

    Raises GoalseekError where the manifest demands a level that cannot be had.
    """
    script = [loaded.folder / manifest.provider.script] if manifest.provider else []
    more = folder_of(folder, manifest)
    hidden = [more.resolve()] if more else []
    own = (location.common_dir, location.git_dir, places.home, loaded.logs.parent, loaded.path, *script, *hidden)
    return SandboxPolicy(
        level=levels.probe(manifest.sandbox.mode),
        table=manifest.sandbox,
        top=location.top,
        folder=folder,
        scratch=places.scratch,
        kept=places.home / "cache",
        shared=tuple(folder / path for path in manifest.scope.share),
        masked=tuple(dict.fromkeys(own)),
        elsewhere=elsewhere(location),
    )
