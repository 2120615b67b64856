"""A fixture of the package as the repository of somebody who is in the middle of something else."""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path

from project import Ended, Project, ended

ROOT = Path(__file__).parents[2]


class FixtureProject(Project):
    """A committed copy of ``fixtures/NAME`` with ``manifests/NAME.toml`` as its ``goalseek.toml``."""

    def __init__(self, top: Path, name: str) -> None:
        super().__init__(top, top)
        self.name = name
        self.branch = f"goalseek/{name}"
        shutil.copytree(ROOT / "fixtures" / name, top)
        shutil.copy(ROOT / "manifests" / f"{name}.toml", self.manifest)
        self.tables = tomllib.loads(self.manifest.read_text())
        self.git("init", "--quiet", "--initial-branch=main")
        self.start_commit = self.commit("start")

    def disturb(self, writable: str) -> None:
        """Leaves unfinished work: a stash, a staged new file, an edited writable file, an untracked one."""
        readme = self.top / "README.md"
        readme.write_text(readme.read_text() + "a thought for later\n")
        self.git("stash", "push", "--quiet", "-m", "later")
        (self.top / "staged.txt").write_text("staged\n")
        self.git("add", "staged.txt")
        (self.top / writable).write_text("not what the climb starts from\n")
        (self.top / "untracked.txt").write_text("untracked\n")

    def run(self, *arguments: str) -> Ended:
        """Runs goalseek to its end, which may take a while on a machine at work."""
        return ended(arguments, self.folder, seconds=300.0)

    def hidden_blobs(self) -> dict[str, str]:
        """The committed hidden files: path and blob."""
        patterns = [*self.tables["scope"]["hidden"], "goalseek.toml"]
        listing = self.git("ls-tree", "-r", "-z", "--format=%(objectname) %(path)", self.start_commit)
        blobs = dict(reversed(line.split(" ", 1)) for line in listing.split("\0") if line)
        return {
            path: blob
            for path, blob in blobs.items()
            if any(path == pattern or path.startswith(pattern.removesuffix("**")) for pattern in patterns)
        }

    def workspace(self) -> Path:
        (found,) = Path(os.environ["XDG_CACHE_HOME"], "goalseek").glob("*/workspace")
        return found

    def workspace_objects(self) -> set[str]:
        """Every object of the workspace's store, reachable or not."""
        listing = self.git(
            "--git-dir", str(self.workspace() / ".git"), "cat-file", "--batch-all-objects", "--batch-check"
        )
        return {line.split(" ")[0] for line in listing.splitlines()}
