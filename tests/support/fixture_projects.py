"""A fixture of the package as the repository of somebody who is in the middle of something else."""

import shutil
from pathlib import Path

from project import Ended, Project, ended

ROOT = Path(__file__).parents[2]


class FixtureProject(Project):
    """A committed copy of ``fixtures/NAME`` with ``manifests/NAME.toml`` as its ``goalseek.toml``."""

    def __init__(self, top: Path, name: str) -> None:
        super().__init__(top, top)
        self.name = name
        shutil.copytree(ROOT / "fixtures" / name, top)
        shutil.copy(ROOT / "manifests" / f"{name}.toml", self.manifest)
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
