"""Commits: writing one, reading one, the first-parent history, a candidate's message and its revert.

The same values always give the same commit: a step that was killed and is taken again makes no other.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice, pairwise

from msgspec import Struct

from goalseek.git.command import AUTHOR, MissingObject, ObjectsFailed

if typing.TYPE_CHECKING:  # whoever reads one commit of git's output needs neither
    from goalseek.git.objects import Objects
    from goalseek.git.repository import Repository
    from goalseek.phase_values import Candidate

_TRAILER = "Goalseek-"


class Commit(Struct, frozen=True):
    """A commit as it is stored. Bytes that are not UTF-8 are surrogates in it."""

    name: str
    tree: str
    parents: tuple[str, ...]
    committer: str
    message: str

    @property
    def subject(self) -> str:
        """The first line of its message."""
        return self.message.split("\n", 1)[0]

    @property
    def last_line(self) -> str:
        """The last line of its message; of a ledger commit, its record."""
        return self.message.rstrip("\n").rpartition("\n")[2]

    @property
    def time(self) -> int:
        """When it was made, in seconds since 1970."""
        return int(self.committer.rsplit(" ", 2)[1])

    @property
    def trailers(self) -> dict[str, str]:
        """Goalseek's trailers by their names, without the ``Goalseek-`` before them."""
        last = self.message.rstrip("\n").rpartition("\n\n")[2]
        rows = (line.partition(": ") for line in last.split("\n") if line.startswith(_TRAILER))
        return {name.removeprefix(_TRAILER): value for name, _, value in rows}


class UnreadableCommit(Exception):
    """The commit ``name`` is missing, or its content does not have its hash; the text says which."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


def parse_commit(name: str, content: bytes) -> Commit:
    """A commit from its content, as ``git cat-file commit`` gives it."""
    head, _, message = content.decode("utf-8", "surrogateescape").partition("\n\n")
    lines = head.split("\n")
    parents = tuple(line.removeprefix("parent ") for line in lines if line.startswith("parent "))
    committer = next((line for line in lines if line.startswith("committer ")), "")
    return Commit(name, lines[0].removeprefix("tree "), parents, committer, message)


def read_commit(objects: Objects, name: str) -> Commit:
    """Reads a commit by its full hash and checks that its content has that hash. Raises UnreadableCommit."""
    if not re.fullmatch(f"[0-9a-f]{{{len(objects.zero)}}}", name):
        raise UnreadableCommit(name, "no hash of a commit")
    try:
        content = objects.read(name)
    except MissingObject:
        raise UnreadableCommit(name, "no such object") from None
    except (ObjectsFailed, BrokenPipeError, ValueError) as error:
        objects.close()
        raise UnreadableCommit(name, f"an object that git cannot read: {error}") from None
    if objects.hash_of(content, "commit") != name:
        objects.close()
        raise UnreadableCommit(name, "a damaged object, or one that is no commit")
    return parse_commit(name, content)


def write_commit(objects: Objects, tree: str, parents: Sequence[str], message: str, moment: int) -> str:
    """Stores a commit by goalseek at ``moment`` (seconds since 1970), and gives its hash."""
    who = f"{AUTHOR[0]} <{AUTHOR[1]}> {moment} +0000"
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {who}", f"committer {who}"]
    return objects.write_bytes("\n".join([*lines, "", message]).encode("utf-8", "surrogateescape"), "commit")


def walk_first_parents(
    read: Callable[[str], Commit], name: str | None, boundary: Collection[str] = ()
) -> Iterator[Commit]:
    """The first-parent history from a commit on, newest first; nothing for None.

    It ends at a commit of ``boundary``: a shallow clone does not have the parents of these.
    """
    while name:
        commit = read(name)
        yield commit
        name = commit.parents[0] if commit.parents and name not in boundary else None


def commit_lines(repository: Repository, commit: str, limit: int) -> list[str]:
    """Short hash and subject of the newest ``limit`` commits of the history, newest first."""
    commits = islice(walk_first_parents(repository.load_commit, commit, repository.cut()), limit)
    lines = (f"{one.name[:12]} {one.subject}" for one in commits)
    return [line.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for line in lines]


def candidate_message(title: str, project: str, run_id: str, iteration: int, provider: str) -> str:
    """A candidate's commit message: the title, and the trailers by which goalseek recognises the commit."""
    trailers = {"Project": project, "Run": run_id, "Iteration": str(iteration), "Provider": provider}
    return title + "\n\n" + "".join(f"{_TRAILER}{name}: {value}\n" for name, value in trailers.items() if value)


def candidate_commits(
    read: Callable[[str], Commit], name: str, tip: str, project: str, iteration: int
) -> tuple[str, ...]:
    """The commits of an iteration from the tip up to this one, its attempts, oldest first; none where it is another's.

    Raises what ``read`` raises.
    """
    names: tuple[str, ...] = ()
    for commit in walk_first_parents(read, name):
        trailers = commit.trailers
        is_ours = (trailers.get("Project"), trailers.get("Iteration")) == (project, str(iteration))
        if not is_ours or len(commit.parents) != 1:
            break
        names = (commit.name, *names)
        if commit.parents == (tip,):
            return names
    return ()


def revert_message(commit: Commit) -> str:
    """The message of a commit's revert, as ``git revert --no-edit`` writes it."""
    return f'Revert "{commit.subject}"\n\nThis reverts commit {commit.name}.\n'


def roll_back(repository: Repository, candidate: Candidate, moment: int) -> str:
    """Reverts a candidate's commits, newest first, as ``git revert --no-edit`` does; gives the last hash."""
    tip = candidate.commit
    for before, name in reversed(list(pairwise((candidate.parent, *candidate.commits)))):
        message = revert_message(repository.load_commit(name))
        tip = repository.commit(repository.tree_of(before), (tip,), message, moment)
    return tip
