"""Where a repository is, in one question to git."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from goalseek import process
from goalseek.errors import UNFIT, GitFailed, GoalseekError
from goalseek.git import git_text, users_environment

_QUESTION = (
    "rev-parse",
    *("--absolute-git-dir", "--path-format=absolute", "--git-common-dir", "--show-object-format", "--show-toplevel"),
)
_DUBIOUS = "dubious ownership"


@dataclass(frozen=True)
class Location:
    """Where a repository is: top of the working tree, this worktree's git directory, the common one, its hash."""

    top: Path
    git_dir: Path
    common_dir: Path
    object_format: str

    def own(self, name: str) -> Path:
        """The folder of goalseek's own for a project, in the common git directory: lock, secret, caches."""
        return self.common_dir / "goalseek" / name


def locate(folder: Path) -> Location:
    """The repository that the folder belongs to.

    Raises GoalseekError where there is none, no checkout of it, or where it is somebody else's and git does not trust
    it; so too where its checkout is set to be another one's elsewhere.
    """
    try:
        answer = _ask(folder)
    except (GitFailed, FileNotFoundError, NotADirectoryError) as error:
        raise _nowhere(folder, str(error)) from None
    if answer.count("\n") != 3:
        hint = "rename that folder, or clone the repository to another place"
        raise GoalseekError(f"the path of {folder} has a line break in it", hint, UNFIT, "repository")
    git_dir, common_dir, object_format, top = answer.split("\n")
    location = Location(Path(top), Path(git_dir), Path(common_dir), object_format)
    if not folder.resolve().is_relative_to(location.top):
        _refuse_anothers_tree(location)
    return location


def _ask(folder: Path) -> str:
    """Git's answer. Where the owner is in doubt, the user's own git decides, under its whole configuration."""
    try:
        return git_text(*_QUESTION, folder=folder)
    except GitFailed as failed:
        if _DUBIOUS not in failed.said:
            raise
    answer = process.ask(["git", *_QUESTION], users_environment(LC_ALL="C"), folder=folder)
    if answer.exit_code:
        raise GitFailed(_QUESTION, answer.exit_code, answer.stderr)
    return os.fsdecode(answer.stdout).rstrip("\n")


def _refuse_anothers_tree(location: Location) -> None:
    """Raises GoalseekError where ``core.worktree`` is neither ours nor its repository owner's: git does not ask."""
    owner = location.top.stat().st_uid
    if owner not in (os.geteuid(), location.git_dir.stat().st_uid):
        message = f"core.worktree of {location.git_dir} is {location.top}, which belongs to another user"
        hint = f"set it to a folder of yours: git --git-dir {location.git_dir} config core.worktree FOLDER"
        raise GoalseekError(message, hint, UNFIT, "repository")


def elsewhere(location: Location) -> tuple[Path, ...]:
    """Where else the repository's files can be read: its other checkouts, and the stores that it borrows objects from.

    As git has noted them, wherever they lie; read from its files, for every iteration asks. A submodule's checkouts
    are not among them: its files are another repository's.
    """
    common = location.common_dir
    folders = [common.parent] if common.name == ".git" else []
    if b"worktree" in (common / "config").read_bytes().lower() and common != location.git_dir:
        with contextlib.suppress(GitFailed):
            main = git_text("config", "--file", str(common / "config"), "--get", "core.worktree", folder=common)
            folders.append(common / main)
    for note in sorted(common.glob("worktrees/*/gitdir")):
        with contextlib.suppress(OSError):
            folders.append((note.parent / os.fsdecode(note.read_bytes().rstrip(b"\n"))).parent)
    folders += _borrowed(common / "objects", ())
    # os.path: a folder that this account may not look into is no error, nor can its programs read there
    found = (path.resolve() for path in folders if os.path.isdir(path))
    return tuple(path for path in dict.fromkeys(found) if path != location.top.resolve())


def _borrowed(store: Path, known: tuple[Path, ...]) -> list[Path]:
    try:
        lines = (store / "info/alternates").read_bytes().splitlines()
    except OSError:
        return []
    stores = [store / os.fsdecode(line) for line in lines if line and not line.startswith(b"#")]
    new = [path for path in stores if path not in known]
    return [*new, *(inner for path in new for inner in _borrowed(path, (*known, *stores)))]


def prefix_below(top: Path, folder: Path) -> str:
    """A folder as git names it below the top: "" or "sub/"; "" too for one that is elsewhere."""
    place, top = folder.resolve(), top.resolve()
    relative = place.relative_to(top).as_posix() if place.is_relative_to(top) else "."
    return "" if relative == "." else relative + "/"


def _nowhere(folder: Path, said: str) -> GoalseekError:
    if _DUBIOUS in said:
        way = re.search(r"git config --global --add safe\.directory .+", said)
        hint = f"if you trust what is in it: {way[0]}" if way else "see: git help config, safe.directory"
        return GoalseekError(f"git does not trust {folder}, which belongs to another user", hint, UNFIT, "repository")
    if "must be run in a work tree" in said:
        hint = "goalseek reads files of a checkout; clone the repository, or add a worktree"
        return GoalseekError(f"{folder} is in a bare repository, or in a git directory", hint, UNFIT, "repository")
    hint = "run: git init && git add -A && git commit -m start"
    return GoalseekError(f"{folder} is not in a git repository", hint, UNFIT, "repository")
