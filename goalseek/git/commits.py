"""Commits: reading one by its verified hash, walking the first-parent history, a candidate's message and its revert.

The same values always give the same commit, so that one which was pruned can be made again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from goalseek.git.command import MissingObject, ObjectsFailed
from goalseek.git.objects import Objects
from goalseek.git.repository import Repository
from goalseek.phase_values import Candidate


@dataclass(frozen=True)
class Commit:
    """A commit as it is stored."""

    name: str
    tree: str
    parents: tuple[str, ...]
    message: str


def read_commit(objects: Objects, name: str) -> Commit:
    """Reads a commit by its full hash and checks that its content has that hash. Raises UnreadableCommit."""
    if not re.fullmatch(f"[0-9a-f]{{{len(objects.zero)}}}", name):
        raise UnreadableCommit("no hash of a commit")
    try:
        content = objects.read(name)
    except MissingObject:
        raise UnreadableCommit("no such object") from None
    except (ObjectsFailed, BrokenPipeError, ValueError) as error:
        objects.close()
        raise UnreadableCommit(f"an object that git cannot read: {error}") from None
    algorithm = "sha1" if len(objects.zero) == 40 else "sha256"
    if hashlib.new(algorithm, b"commit %d\0" % len(content) + content).hexdigest() != name:
        objects.close()
        raise UnreadableCommit("a damaged object, or one that is no commit")
    head, _, message = content.partition(b"\n\n")
    lines = head.decode("utf-8", "surrogateescape").split("\n")
    parents = tuple(line[7:] for line in lines if line.startswith("parent "))
    return Commit(name, lines[0].removeprefix("tree "), parents, message.decode("utf-8", "surrogateescape"))


def walk_first_parents(
    objects: Objects, commit: str, limit: int, boundary: Collection[str] = ()
) -> Iterable[tuple[str, bytes]]:
    """The first-parent history from a commit on: (hash, raw commit), newest first, at most ``limit`` of them.

    It ends at a commit of ``boundary``: a shallow clone does not have the parents of these.
    """
    for _ in range(limit):
        raw = objects.read(commit)
        yield commit, raw
        parent = next(
            (line[7:].decode() for line in raw.split(b"\n\n")[0].split(b"\n") if line[:7] == b"parent "), None
        )
        if parent is None or commit in boundary:
            return
        commit = parent


def candidate_message(title: str, project: str, run_id: str, iteration: int, provider: str) -> str:
    """A candidate's commit message: the title, and the trailers by which goalseek recognises the commit."""
    trailers = {"Project": project, "Run": run_id, "Iteration": str(iteration), "Provider": provider}
    return title + "\n\n" + "".join(f"Goalseek-{name}: {value}\n" for name, value in trailers.items() if value)


def roll_back(repository: Repository, candidate: Candidate, moment: int) -> str:
    """Reverts a candidate's commits, newest first, as ``git revert --no-edit`` does; gives the last hash."""
    tip = candidate.commit
    for index, commit in reversed(list(enumerate(candidate.commits))):
        before = candidate.commits[index - 1] if index else candidate.parent
        raw = repository.objects.read(commit)
        subject = raw.partition(b"\n\n")[2].split(b"\n", 1)[0].decode("utf-8", "surrogateescape")
        message = f'Revert "{subject}"\n\nThis reverts commit {commit}.\n'
        tip = repository.commit(repository.tree_of(before), (tip,), message, moment)
    return tip


def restore_roll_back(repository: Repository, candidate: Candidate, revert: str) -> None:
    """Makes a candidate's revert commit again where it was pruned before a ref named it.

    The same values give the same commit. Raises Missing where they do not.
    """
    if repository.objects.has(revert):
        return
    if roll_back(repository, candidate, repository.commit_time(candidate.commit)) != revert:
        raise MissingObject(revert)


def commit_lines(repository: Repository, commit: str, limit: int) -> list[str]:
    """Short hash and subject of the newest ``limit`` commits of the history, newest first."""
    lines = []
    for name, raw in walk_first_parents(repository.objects, commit, limit, repository.cut()):
        subject = raw.partition(b"\n\n")[2].split(b"\n", 1)[0].decode("utf-8", "replace")
        lines.append(f"{name[:12]} {subject}")
    return lines


class UnreadableCommit(Exception):
    """A commit that is missing, or whose content does not have its hash; the text says which."""
