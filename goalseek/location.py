"""Where a repository is, in one question to git."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError
from goalseek.git import GitFailed, git_text


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
    """The repository that the folder belongs to. Raises GoalseekError where there is none, or no checkout of it."""
    asked = ("--absolute-git-dir", "--path-format=absolute", "--git-common-dir", "--show-object-format")
    try:
        told = git_text("rev-parse", *asked, "--show-toplevel", folder=folder)
    except (GitFailed, FileNotFoundError, NotADirectoryError) as error:
        raise _nowhere(folder, str(error)) from None
    if told.count("\n") != 3:
        hint = "rename that folder, or clone the repository to another place"
        raise GoalseekError(f"the path of {folder} has a line break in it", hint, UNFIT, "repository")
    git_dir, common_dir, object_format, top = told.split("\n")
    return Location(Path(top), Path(git_dir), Path(common_dir), object_format)


def prefix_below(top: Path, folder: Path) -> str:
    """A folder as git names it below the top: "" or "sub/"; "" too for one that is elsewhere."""
    place, top = folder.resolve(), top.resolve()
    relative = place.relative_to(top).as_posix() if place.is_relative_to(top) else "."
    return "" if relative == "." else relative + "/"


def _nowhere(folder: Path, said: str) -> GoalseekError:
    if "dubious ownership" in said:
        return GoalseekError(f"git does not trust {folder}: {said}", "", UNFIT, "repository")
    if "must be run in a work tree" in said:
        hint = "goalseek reads files of a checkout; clone the repository, or add a worktree"
        return GoalseekError(f"{folder} is in a bare repository, or in a git directory", hint, UNFIT, "repository")
    hint = "run: git init && git add -A && git commit -m start"
    return GoalseekError(f"{folder} is not in a git repository", hint, UNFIT, "repository")
