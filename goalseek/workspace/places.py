"""Cache paths: goalseek's own trees lie outside the repository, one folder for each project of each repository."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Literal

from goalseek.disk import remove_if_exists
from goalseek.errors import GoalseekError
from goalseek.git.location import Location
from goalseek.git.paths import folder_prefix
from goalseek.values import StopReason

BenchName = Literal["a", "b"]
LANDING = "landing"  # the lane of landings
SLOT = "slot-"  # with its number, the lane of proposals


class CachePaths:
    """``prefix`` is the manifest's folder, "" or "sub/"; ``lane`` the subfolder of parallel work, "" for the first."""

    def __init__(self, home: Path, prefix: str, lane: str = "") -> None:
        self.home = home
        self.prefix = prefix
        self.folder = folder = home / lane
        self.owner = home.name  # the mark of programs that run for this project on this machine
        self.workspace = folder / "workspace"  # the agent's tree
        self.call = folder / "call"  # files of the last call to a provider; the usage it reported outlives a kill
        self.agent = folder / "agent"  # its throw-away HOME of this iteration; a login renewed there outlives a kill
        self.reviewer = folder / "reviewer"  # a throw-away HOME too, so that the author's is still there after a review
        self.setup = folder / "setup"  # the folders that ``setup`` gave, for each ruler and bench
        self.cache = folder / "cache"  # files that verify commands keep between runs
        self.scratch = folder / "scratch"  # run folders and temporary folders of programs at work
        # GOALSEEK_RUN_DIR of commands by their ``sees``: no candidate code runs in that of "hidden".
        self.run_folders = {"both": self.scratch / "run", "hidden": self.scratch / "run-hidden"}
        self.outputs = self.scratch / "outputs"  # files for later commands of the current measurement

    def bench(self, name: BenchName) -> Path:
        """Holds one tree for each view of ``sees``."""
        return self.folder / {"a": "bench", "b": "incumbent"}[name]

    def clear_scratch(self) -> None:
        """Removes files of ended programs, as far as possible."""
        with contextlib.suppress(OSError):
            remove_if_exists(self.scratch)

    def beside(self, lane: str) -> CachePaths:
        return CachePaths(self.home, self.prefix, lane)

    def lanes(self) -> list[CachePaths]:
        kinds = (f"{SLOT}[0-9]*", "bench-[0-9]*", LANDING)
        return [self, *(self.beside(path.name) for kind in kinds for path in sorted(self.home.glob(kind)))]


def cache_folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))  # the XDG standard has a relative one ignored
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "goalseek"


def cache_paths(location: Location, folder: Path, name: str) -> CachePaths:
    """``folder`` is the manifest's. Raises GoalseekError if the cache lies inside the repository."""
    cache = cache_folder().resolve()
    if cache.is_relative_to(location.top):
        message = f"goalseek's trees would lie inside the repository, in {cache}"
        hint = "set XDG_CACHE_HOME to a folder outside of it"
        raise GoalseekError(message, hint, StopReason.REPOSITORY)
    key = hashlib.sha256(os.fsencode(location.common_dir) + b"\0" + os.fsencode(folder)).hexdigest()[:12]
    return CachePaths(cache / f"{name}-{key}", folder_prefix(location.top, folder))
