"""Where a repository is, in one question to git."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from goalseek import process
from goalseek.errors import UNFIT, GitFailed, GoalseekError
from goalseek.git.command import git_text, users_environment

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
    answer = process.run(["git", *_QUESTION], users_environment(LC_ALL="C"), folder=folder)
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


_WORDS = {
    **dict.fromkeys(("umask", "false", "no", "off", "0"), 0),
    **dict.fromkeys(("group", "true", "yes", "on", "1", ""), 0o660),
    **dict.fromkeys(("all", "world", "everybody", "2"), 0o664),
}
_NOT_SET = 1


@dataclass(frozen=True)
class Sharing:
    """The setting as it is written; None where there is none."""

    value: str | None = None

    def variables(self) -> dict[str, str]:
        """What makes a git command write so, whatever configuration it reads."""
        if self.value is None:
            return {}
        value = self.value or "true"
        return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.sharedRepository", "GIT_CONFIG_VALUE_0": value}

    def make_folder(self, folder: Path) -> None:
        """Makes a folder with the rights that git would give it; one that is there is left as it is."""
        try:
            folder.mkdir()
        except FileExistsError:
            return
        written = stat.S_IMODE(folder.stat().st_mode)
        if (wanted := self._mode_of_folder(written)) != written:
            folder.chmod(wanted)

    def _mode_of_folder(self, mode: int) -> int:
        """Git's own rule: words add to what the umask leaves, a number is instead of it."""
        if self.value is None or _WORDS.get(self.value.lower()) == 0:
            return mode
        added = _WORDS.get(self.value.lower())
        mode = mode | added if added is not None else mode & ~0o777 | int(self.value, 8) & 0o666
        mode |= (mode & 0o444) >> 2
        return mode | stat.S_ISGID if mode & 0o060 else mode


UNSHARED = Sharing()


def sharing_of(location: Location) -> Sharing:
    """The setting, in whichever file the user's git finds it. Raises GoalseekError where git cannot read them."""
    variables = users_environment(GIT_DIR=str(location.git_dir))
    answer = process.run(["git", "config", "--get", "core.sharedRepository"], variables)
    if answer.exit_code == _NOT_SET:
        return Sharing()
    if answer.exit_code:
        message = f"git config fails in {location.top}: {answer.stderr.decode('utf-8', 'replace').strip()}"
        raise GoalseekError(message, "see that it works here, and run the same command", UNFIT, "repository")
    return Sharing(answer.stdout.decode("utf-8", "replace").strip())
