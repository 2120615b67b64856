"""Where a repository is, in one call of git; and its other folders."""

import contextlib
import os
import re
from pathlib import Path

from msgspec import Struct

from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.command import git, git_as_user
from goalseek.values import StopReason

_REV_PARSE = (
    "rev-parse",
    *("--absolute-git-dir", "--path-format=absolute", "--git-common-dir", "--show-object-format", "--show-toplevel"),
)
_DUBIOUS_OWNER = "dubious ownership"


class Location(Struct, frozen=True):
    """``git_dir`` is this worktree's; ``object_format`` names the hash."""

    top: Path
    git_dir: Path
    common_dir: Path
    object_format: str

    def own(self, name: str) -> Path:
        """In the common git directory: lock, secret, caches."""
        return self.common_dir / "goalseek" / name


def locate(folder: Path) -> Location:
    """Raises GoalseekError without a checkout, for an untrusted owner, or for another user's ``core.worktree``."""
    try:
        try:
            output = git(*_REV_PARSE, folder=folder)
        except GitFailed as error:
            if _DUBIOUS_OWNER not in error.stderr:
                raise
            # Where git doubts the owner, the user's whole configuration decides.
            own = git_as_user(*_REV_PARSE, folder=folder, variables={"LC_ALL": "C"})
            if own.returncode:
                raise GitFailed(_REV_PARSE, own.returncode, own.stderr) from None
            output = own.stdout
    except (GitFailed, FileNotFoundError, NotADirectoryError) as error:
        stderr = str(error)
        message, hint = f"{folder} is not in a git repository", "run: git init && git add -A && git commit -m start"
        if _DUBIOUS_OWNER in stderr:
            message = f"git does not trust {folder}, which belongs to another user"
            match = re.search(r"git config --global --add safe\.directory .+", stderr)
            hint = f"if you trust its content: {match[0]}" if match else "see: git help config, safe.directory"
        elif "must be run in a work tree" in stderr:
            message = f"{folder} is in a bare repository, or in a git directory"
            hint = "goalseek reads files of a checkout; clone the repository, or add a worktree"
        raise GoalseekError(message, hint, StopReason.REPOSITORY) from None
    answer = os.fsdecode(output).rstrip("\n")
    if answer.count("\n") != 3:
        hint = "rename that folder, or clone the repository to another place"
        raise GoalseekError(f"the path of {folder} has a line break in it", hint, StopReason.REPOSITORY)
    git_dir, common_dir, object_format, top = answer.split("\n")
    location = Location(Path(top), Path(git_dir), Path(common_dir), object_format)
    is_elsewhere = not folder.resolve().is_relative_to(location.top)  # core.worktree, whose owner git does not check
    if is_elsewhere and location.top.stat().st_uid not in (os.geteuid(), location.git_dir.stat().st_uid):
        message = f"core.worktree of {git_dir} is {top}, which belongs to another user"
        hint = f"set it to your folder: git --git-dir {git_dir} config core.worktree FOLDER"
        raise GoalseekError(message, hint, StopReason.REPOSITORY)
    return location


def other_folders(location: Location) -> tuple[Path, ...]:
    """Other checkouts and borrowed object stores, no submodules; without a git command, since every iteration asks."""
    common = location.common_dir
    folders = [common.parent] if common.name == ".git" else []
    if b"worktree" in (common / "config").read_bytes().lower() and common != location.git_dir:
        with contextlib.suppress(GitFailed):
            main = git("config", "--file", str(common / "config"), "--get", "core.worktree", folder=common)
            folders.append(common / os.fsdecode(main).rstrip("\n"))
    for worktree in _worktrees(common):
        with contextlib.suppress(OSError):
            folders.append((worktree / os.fsdecode((worktree / "gitdir").read_bytes().rstrip(b"\n"))).parent)
    folders += _alternate_stores(common / "objects", ())
    # os.path: a folder that this account may not look into is no error, nor can its programs read there
    resolved = (path.resolve() for path in folders if path != location.top and os.path.isdir(path))
    return tuple(path for path in dict.fromkeys(resolved) if path != location.top.resolve())


def checked_out_refs(location: Location) -> list[str] | None:
    """The refs or commits that are HEAD in a worktree; None if only git can tell, as of a repository with reftables."""
    heads = [folder / "HEAD" for folder in (location.common_dir, *_worktrees(location.common_dir))]
    try:
        lines = [os.fsdecode(head.read_bytes()).strip() for head in heads if not head.is_symlink()]
    except OSError:
        return None
    is_known = len(lines) == len(heads) and "ref: refs/heads/.invalid" not in lines
    return [line.removeprefix("ref: ") for line in lines] if is_known else None


def _worktrees(common: Path) -> list[Path]:
    try:
        return [common / "worktrees" / name for name in sorted(os.listdir(common / "worktrees"))]
    except FileNotFoundError:
        return []


def _alternate_stores(store: Path, visited: tuple[Path, ...]) -> list[Path]:
    try:
        lines = (store / "info/alternates").read_bytes().splitlines()
    except OSError:
        return []
    stores = [store / os.fsdecode(line) for line in lines if line and not line.startswith(b"#")]
    new = [path for path in stores if path not in visited]
    return [*new, *(inner for path in new for inner in _alternate_stores(path, (*visited, *stores)))]
