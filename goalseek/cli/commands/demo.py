"""The fixtures that come with goalseek, and a fresh repository made of one."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from goalseek.cli.commands.iterate import climb
from goalseek.cli.options import start_folder
from goalseek.cli.output import answer, answer_lines, say, wants_json
from goalseek.cli.watch import watch_live
from goalseek.errors import UNFIT, USAGE, GoalseekError
from goalseek.git.command import git
from goalseek.humanize import pluralize
from goalseek.ledger.standing import Standing
from goalseek.manifest import loading
from goalseek.manifest.loading import Loaded
from goalseek.manifest.tables import ProviderTable
from goalseek.project import stop
from goalseek.project.opening import asked_provider, opened
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
    package = Path(__file__).resolve().parents[2]
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise GoalseekError(f"this installation has no {name}", "install goalseek again, from a wheel", UNFIT)


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``demo`` takes."""
    parser.add_argument("name", metavar="NAME", nargs="?", default=DEFAULT, help="which fixture (digits)")
    parser.add_argument("target", metavar="DIR", nargs="?", help="a new or empty folder (goalseek-demo-NAME)")
    parser.add_argument("-n", dest="count", type=int, metavar="N", help="so many iterations")
    parser.add_argument("--provider", metavar="P", help="who proposes, instead of the fixture's own")
    parser.add_argument("--list", action="store_true", help="name the fixtures")


def run(options: argparse.Namespace) -> int:
    """Makes the repository, climbs, and says what happened and what to type next."""
    if options.list:
        return _list(options)
    if options.count is not None and options.count < 1:
        raise GoalseekError(f"-n {options.count}: at least 1", "-n 10")
    chosen = fixture(options.name)
    folder = start_folder(options) / (options.target or f"goalseek-demo-{chosen.name}")
    asked = asked_of(chosen, options.provider)
    loaded = make_repository(chosen, folder)
    count = options.count or iterations(loaded, asked)
    say(
        options,
        f"{chosen.summary}\na fresh repository in {folder}; {pluralize(count, 'iteration')} of goalseek iterate in it:",
    )
    with watch_live(options) as watch, opened(loaded, watch, asked, doing="iterate") as opened_run:
        exit_code = climb(opened_run, stop.Ends(count))
        standing = opened_run.standing
    if wants_json(options):
        answer(options, {"event": "demo", "folder": str(folder), **_numbers(standing)})
    else:
        print("\n".join(_closing(loaded)))
    return exit_code


def _list(options: argparse.Namespace) -> int:
    found = fixtures().values()
    if wants_json(options):
        answer_lines(options, [{"name": one.name, "summary": one.summary} for one in found])
        return 0
    for one in found:
        print(f"{one.name:<12} {one.summary}")
    return 0


def _numbers(standing: Standing) -> dict[str, object]:
    return {
        "metric": standing.metric,
        "from": standing.baseline.value if standing.baseline else None,
        "to": standing.best.value if standing.best else None,
        "iterations": standing.tried,
        "kept": standing.outcomes.get("kept", 0),
    }


def _closing(loaded: Loaded) -> list[str]:
    name = loaded.manifest.project.name
    where = shlex.quote(_from_here(loaded.folder))
    return [
        "",
        f"the repository: {loaded.folder}; main is as it was, the climb is on the branch goalseek/{name}",
        f"look at it:     cd {where}; goalseek log; goalseek show best --diff; git log --oneline goalseek/{name}",
        "take it home:   goalseek promote",
    ]


def _from_here(folder: Path) -> str:
    relative = os.path.relpath(folder)
    return str(folder) if relative.startswith("..") else relative
