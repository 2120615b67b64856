"""Cache paths: goalseek's own trees lie outside the repository, one folder for each project of each repository."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

from goalseek.errors import GoalseekError
from goalseek.git.location import Location
from goalseek.git.paths import folder_prefix
from goalseek.values import StopReason

BenchName = Literal["a", "b"]


class CachePaths:
    """The folders of one project below ``home``. ``prefix`` is the manifest's below the top, "" or "sub/"."""

    def __init__(self, home: Path, prefix: str) -> None:
        self.home = home
        self.prefix = prefix
        self.owner = home.name  # the mark of programs that run for this project on this machine
        self.workspace = home / "workspace"  # where the agent edits
        self.call = home / "call"  # files of the last call to a provider; what it reported of its usage outlives a kill
        self.agent = home / "agent"  # its throw-away HOME of this iteration; a login renewed there outlives a kill
        self.reviewer = home / "reviewer"  # a throw-away HOME too, so that the author's is still there after a review
        self.setup = home / "setup"  # the folders that ``setup`` gave, for each ruler and bench
        self.scratch = home / "scratch"  # run folders and temporary folders of programs at work
        self.outputs = self.scratch / "outputs"  # what commands of the current measurement left for later ones

    def bench(self, name: BenchName) -> Path:
        """The folder of a bench, with a tree for each view that ``sees`` gives."""
        return self.home / {"a": "bench", "b": "incumbent"}[name]

    def run_folder(self, sees: str) -> Path:
        """``GOALSEEK_RUN_DIR`` of commands with this ``sees``; "hidden" has its own, where no candidate code ran."""
        return self.scratch / ("run-hidden" if sees == "hidden" else "run")


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/goalseek``, or ``~/.cache/goalseek``: the XDG standard has a relative one ignored."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "goalseek"


def cache_paths(location: Location, folder: Path, name: str) -> CachePaths:
    """The folders of a project whose manifest is in ``folder``. Raises GoalseekError if inside the repository."""
    cache = cache_folder().resolve()
    if cache.is_relative_to(location.top):
        message = f"goalseek's trees would lie inside the repository, in {cache}"
        hint = "set XDG_CACHE_HOME to a folder outside of it"
        raise GoalseekError(message, hint, StopReason.REPOSITORY)
    key = hashlib.sha256(os.fsencode(location.common_dir) + b"\0" + os.fsencode(folder)).hexdigest()[:12]
    return CachePaths(cache / f"{name}-{key}", folder_prefix(location.top, folder))
