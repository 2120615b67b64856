"""Git as the user runs it: their identity, signature and hooks, in a work tree of its own that nobody registers."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from goalseek import process
from goalseek.beneath import clear
from goalseek.errors import BAD_FINDING, UNFIT, USAGE, GoalseekError
from goalseek.git import git
from goalseek.objects import Objects
from goalseek.process import Answer
from goalseek.promote import Promoted
from goalseek.quoting import quote_path
from goalseek.repository import Repository

_FOLDER = "promote-"
_QUIET = (
    "-c gc.auto=0 -c maintenance.auto=false -c core.fsmonitor=false -c core.untrackedCache=false "
    "-c core.sparseCheckout=false -c core.splitIndex=false -c i18n.commitEncoding=UTF-8"
).split()
_NO_HOOKS = "the same without your hooks: goalseek promote --patch home.patch; git am --keep-cr --no-verify home.patch"


def users_environment() -> dict[str, str]:
    """The user's own, without what git set for another command."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _is_settled(name)}


def users_git(repository: Repository, *arguments: str) -> Answer:
    """A git command in the user's checkout as they would type it."""
    return process.ask(["git", *arguments], users_environment(), folder=repository.top)


@contextlib.contextmanager
def objects_apart(repository: Repository) -> Iterator[Objects]:
    """An object store that reads the repository's, and is gone after this block with what was written into it."""
    with tempfile.TemporaryDirectory(prefix="goalseek-") as place:
        store = Path(place, "objects")
        (store / "info").mkdir(parents=True)
        quoted = "".join(f"\\{byte:03o}" for byte in os.fsencode(repository.objects.store))
        (store / "info" / "alternates").write_text(f'"{quoted}"\n')
        objects = Objects(repository.objects.git_dir, store, repository.location.object_format)
        try:
            yield objects
        finally:
            objects.close()


def commit_plainly(repository: Repository, objects: Objects, promoted: Sequence[Promoted], base: str) -> str:
    """The commits by the user, made in this store without hooks or signatures, for a mailbox; gives the last one."""
    variables = {**users_environment(), **objects.variables(), "GIT_DIR": str(repository.location.git_dir)}
    commit = base
    for one in promoted:
        arguments = ["git", "-c", "i18n.commitEncoding=UTF-8", "commit-tree", one.tree, "-p", commit]
        answer = process.ask(arguments, variables, _message(one), repository.top)
        if answer.exit_code:
            raise _no_commit(one, answer, "git config user.name and user.email say who you are")
        commit = answer.stdout.decode().strip()
    return commit


def commit_all(repository: Repository, promoted: Sequence[Promoted], base: str) -> str:
    """The commits, each by ``git commit`` as the user runs it, hooks included; gives the last one.

    Raises GoalseekError where git makes none, and where a hook made another commit of it than was asked for.
    """
    hooks = _hooks(repository)
    clear_left_over(repository)
    # Below the repository's own git directory, so that `includeIf "gitdir:..."` holds here too.
    git_dir = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=repository.own))
    try:
        with tempfile.TemporaryDirectory(prefix="goalseek-") as tree:
            (git_dir / "commondir").write_bytes(os.fsencode(repository.location.common_dir) + b"\n")
            (git_dir / "HEAD").write_text(base + "\n")
            Path(tree, ".git").write_bytes(b"gitdir: " + os.fsencode(git_dir) + b"\n")
            for one in promoted:
                _commit(repository, one, git_dir, Path(tree), hooks)
            return (git_dir / "HEAD").read_text().strip()
    finally:
        clear(git_dir)


def _commit(repository: Repository, one: Promoted, git_dir: Path, tree: Path, hooks: Path | None) -> None:
    files = ["--reset", "-u"] if hooks else ["--reset"]
    git("read-tree", *files, one.tree, git_dir=git_dir, folder=tree, variables={"GIT_WORK_TREE": str(tree)})
    message = git_dir / "message"
    message.write_bytes(_message(one))
    settings = [*_QUIET, *(["-c", f"core.hooksPath={hooks}"] if hooks else [])]
    arguments = ["git", *settings, "commit", "--quiet", "--cleanup=verbatim", "--file", str(message)]
    answer = process.ask(arguments, users_environment(), folder=tree)
    if answer.exit_code:
        hint = "git config user.name and user.email say who you are"
        raise _no_commit(one, answer, f"{hint}; {_NO_HOOKS}" if hooks else hint)
    commit = (git_dir / "HEAD").read_text().strip()
    changed = repository.objects.differences(one.tree, repository.tree_of(commit))
    if changed:
        named = ", ".join(quote_path(found.path) for found in changed)
        message_text = f"a hook of yours changed {named} in {_which(one)}: that is not what was measured"
        raise GoalseekError(message_text, f"no branch was made; {_NO_HOOKS}", BAD_FINDING)


def refuse_branch(repository: Repository, name: str) -> None:
    """Raises GoalseekError where no new branch can have this name: existing ones are never moved."""
    if users_git(repository, "check-ref-format", "--branch", name).exit_code:
        raise GoalseekError(f"--branch {name!r} is no name for a branch", "see: git help check-ref-format", USAGE)
    parts = name.split("/")
    above = [f"refs/heads/{'/'.join(parts[:depth])}" for depth in range(1, len(parts))]
    taken = repository.git("for-each-ref", "--format=%(refname)", f"refs/heads/{name}").decode().split()
    there = repository.git("for-each-ref", "--format=%(refname)", *above).decode().split() if above else []
    if taken or set(there) & set(above):
        message = f"the branch {name!r} exists, or a branch is in its way"
        raise GoalseekError(message, "name a new one; existing branches are never moved", USAGE)
    if f"branch refs/heads/{name}\n" in os.fsdecode(repository.git("worktree", "list", "--porcelain")) + "\n":
        message = f"the branch {name!r} is checked out somewhere, though it has no commit yet"
        raise GoalseekError(message, "name another; a branch that is checked out is never moved", USAGE)


def make_branch(repository: Repository, name: str, commit: str) -> None:
    """A new branch at a commit. Raises GoalseekError where git makes none."""
    answer = users_git(repository, "branch", "--no-track", name, commit)
    if answer.exit_code:
        raise GoalseekError(f"git made no branch {name!r}: {_said(answer)}", "name another, or mend that", UNFIT)


def mailbox(objects: Objects, base: str, commit: str) -> bytes:
    """The commits after the base as ``git am`` takes them."""
    return objects.git("format-patch", "--stdout", "--binary", "--full-index", "--no-signature", f"{base}..{commit}")


def clear_left_over(repository: Repository) -> None:
    """Removes what promotions left behind that were killed."""
    for folder in repository.own.glob(f"{_FOLDER}*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            clear(folder)


def _hooks(repository: Repository) -> Path | None:
    """The folder of the user's hooks, by the checkout that they work in; None where there is none to run."""
    answer = users_git(repository, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
    folder = Path(os.fsdecode(answer.stdout.rstrip(b"\n")))
    if answer.exit_code or not folder.is_dir():
        return None
    is_there = any(
        os.access(path, os.X_OK) and path.suffix != ".sample" and path.is_file() for path in folder.iterdir()
    )
    return folder if is_there else None


def _no_commit(one: Promoted, answer: Answer, hint: str) -> GoalseekError:
    return GoalseekError(f"git made no commit of {_which(one)}: {_said(answer)}", hint, UNFIT, "repository")


def _which(one: Promoted) -> str:
    return f"iteration{'s' if len(one.iterations) > 1 else ''} {', '.join(map(str, one.iterations))}"


def _said(answer: Answer) -> str:
    return (answer.stderr + answer.stdout).decode("utf-8", "replace").strip()


def _message(one: Promoted) -> bytes:
    return one.message.encode("utf-8", "replace")


def _is_settled(name: str) -> bool:
    return name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG", "GIT_SSH"))
