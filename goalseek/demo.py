"""The fixtures that come with goalseek, and a fresh repository made of one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from goalseek.errors import UNFIT, USAGE, GoalseekError
from goalseek.git.command import git
from goalseek.manifest import loading
from goalseek.manifest.loading import Loaded
from goalseek.manifest.tables import ProviderTable
from goalseek.project.opening import asked_provider
from goalseek.providers.registry import chosen_provider
from goalseek.providers.scripted import read_script

DEFAULT = "digits"
_TUNED = 20
_IDENTITY = ("goalseek demo", "demo@localhost")


@dataclass(frozen=True)
class Fixture:
    """A small plain tree, and its manifest."""

    name: str
    folder: Path
    manifest: Path

    @property
    def summary(self) -> str:
        """The first sentence of its README."""
        lines = (self.folder / "README.md").read_text("utf-8").splitlines()
        paragraph: list[str] = []
        for line in lines:
            if paragraph and not line.strip():
                break
            if line.strip() and not line.startswith("#"):
                paragraph.append(line.strip())
        first, _, _ = " ".join(paragraph).partition(". ")
        return first.removesuffix(".") + "."


def fixtures() -> dict[str, Fixture]:
    """Every fixture by its name. Raises GoalseekError where this installation has none."""
    trees, manifests = _packaged("fixtures"), _packaged("manifests")
    named = {path.stem: path for path in sorted(manifests.glob("*.toml"))}
    return {name: Fixture(name, trees / name, path) for name, path in named.items() if (trees / name).is_dir()}


def fixture(name: str) -> Fixture:
    """The fixture of this name. Raises GoalseekError naming them all where there is none."""
    found = fixtures()
    if name not in found:
        raise GoalseekError(f"there is no demo {name!r}", f"one of {', '.join(found)}", USAGE)
    return found[name]


def asked_of(chosen: Fixture, provider: str | None) -> ProviderTable | None:
    """Who proposes where it is not the manifest's provider.

    Raises GoalseekError where that one cannot start, before anything is written.
    """
    loaded = Loaded(chosen.folder / loading.FILE_NAME, loading.load(chosen.manifest).manifest)
    asked = asked_provider(loaded, provider, None)
    table = asked or loaded.manifest.provider
    if table:
        chosen_provider(loaded, table).check()
    git("--version")
    return asked


def iterations(loaded: Loaded, asked: ProviderTable | None) -> int:
    """How many iterations show it all in well under a minute: every move of a script, some twenty where tune turns."""
    table = asked or loaded.manifest.provider
    if table and table.name == "scripted":
        return len(read_script(loaded.folder / table.script))
    if table and table.name == "tune":
        return _TUNED
    return loaded.manifest.limits.iterations or _TUNED


def make_repository(chosen: Fixture, folder: Path) -> Loaded:
    """A repository in ``folder`` with the fixture as its first commit, whatever the user's git is told elsewhere.

    Raises GoalseekError where the folder has something in it.
    """
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise GoalseekError(f"{folder} is there already", "name another folder: goalseek demo NAME DIR", USAGE)
    ignored: Callable[[str, list[str]], set[str]] = shutil.ignore_patterns("__pycache__", ".git", ".goalseek")
    shutil.copytree(chosen.folder, folder, ignore=ignored, copy_function=shutil.copyfile, dirs_exist_ok=True)
    path = folder / loading.FILE_NAME
    shutil.copyfile(chosen.manifest, path)
    git("init", "--quiet", "--initial-branch=main", "--template=", str(folder))
    git("add", "--all", "--force", folder=folder)
    name, mail = _IDENTITY
    who = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": mail, "GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": mail}
    git("commit", "--quiet", "--message", f"The fixture {chosen.name}", folder=folder, variables=who)
    return loading.load(path)


def _packaged(name: str) -> Path:
    """A folder of data: in the package where it is installed, beside it in a source checkout."""
    package = Path(__file__).resolve().parent
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise GoalseekError(f"this installation has no {name}", "install goalseek again, from a wheel", UNFIT)
