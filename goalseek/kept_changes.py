"""The chain of kept changes that leads from code of the user's own to the best, and the commit it goes on top of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from goalseek.chain import newest_with
from goalseek.errors import UNFIT, GoalseekError
from goalseek.git.command import Missing
from goalseek.git.commits import Commit, Unreadable, read_commit
from goalseek.git.repository import Repository
from goalseek.records import IterationRecord

HEADS_LOOKED_AT = 2000


@dataclass(frozen=True)
class KeptChange:
    """One kept iteration: the tree that it stood on, and its own."""

    record: IterationRecord
    before: str
    after: str


@dataclass(frozen=True)
class KeptChain:
    """The changes, oldest first; ``start`` is the tree they begin at, ``end`` the best's, ``base`` the user's commit.

    ``base`` has the writable files of ``start``.
    """

    changes: tuple[KeptChange, ...]
    start: str
    end: str
    base: str


def kept_chain(repository: Repository, is_writable: Callable[[str], bool]) -> KeptChain:
    """What leads to the best: from the newest baseline whose code the user had, so an earlier ruler's keeps are in it.

    The records are read from the ledger in git, and their trees held against the commits that they name: what
    somebody wrote into ``results.jsonl`` does not get home. Raises GoalseekError where one does not hold, where there
    is no ledger and where nothing was measured yet, and Missing where git does not have what a record names.
    """
    marks: list[IterationRecord] = []
    users: list[str] = []
    newest = _marks(repository)
    following = next(newest, None)
    while following is not None:
        record, following = following, next(newest, None)
        marks.append(record)
        if record.outcome != "baseline":
            continue
        own = _users_commits(repository, record)
        users += own
        tree = str(record.tree_hash)
        is_other_code = following is None or not _same(repository, str(following.tree_hash), tree, is_writable)
        if is_other_code or _first_with(repository, own, tree, is_writable):
            base = _first_with(repository, users, tree, is_writable)
            return _chain(marks[::-1], base or str(record.commit_hash))
    refs = f"refs/goalseek/{repository.name}/*"
    hint = f"fetch it from where the climb ran: git fetch CLONE '{refs}:{refs}'"
    raise GoalseekError(f"{repository.ledger_ref} has no measured code", hint, UNFIT, "repository")


def _chain(marks: list[IterationRecord], base: str) -> KeptChain:
    steps = [
        KeptChange(after, str(before.tree_hash), str(after.tree_hash))
        for before, after in pairwise(marks)
        if after.outcome == "kept"
    ]
    return KeptChain(tuple(steps), str(marks[0].tree_hash), str(marks[-1].tree_hash), base)


def _marks(repository: Repository) -> Iterator[IterationRecord]:
    """Keeps and baselines, newest first."""
    for record in newest_with(repository.objects, repository.refs().ledger, ("kept", "baseline")):
        found = _commit(repository, str(record.commit_hash))
        if found.tree != record.tree_hash:
            message = f"the tree of {found.name} is {found.tree}, and record {record.seq} says {record.tree_hash}"
            raise GoalseekError(message, "run: goalseek audit", UNFIT, "tampered")
        yield record


def _users_commits(repository: Repository, record: IterationRecord) -> list[str]:
    """The commits of the user's that a baseline was made of: HEAD then, and where its code came from."""
    assert record.commit_hash
    if record.parent_commit_hash is None:
        return [record.commit_hash]
    made = _commit(repository, record.commit_hash)
    if record.commit_hash != record.parent_commit_hash:
        return list(made.parents[0 if record.iteration == 0 else 1 :])
    if repository.resolve("HEAD") is None:
        return []
    listing = repository.git("log", "--first-parent", f"--max-count={HEADS_LOOKED_AT}", "--format=%T %H", "HEAD")
    lines = (line.split(" ") for line in listing.decode().splitlines())
    return [commit for tree, commit in lines if tree == made.tree][:1]


def _commit(repository: Repository, name: str) -> Commit:
    try:
        return read_commit(repository.objects, name)
    except Unreadable:
        raise Missing(name) from None


def _first_with(
    repository: Repository, commits: list[str], tree: str, is_writable: Callable[[str], bool]
) -> str | None:
    """The first commit with the writable files of a tree."""
    return next((name for name in commits if _same(repository, repository.tree_of(name), tree, is_writable)), None)


def _same(repository: Repository, one: str, other: str, is_writable: Callable[[str], bool]) -> bool:
    return not any(is_writable(found.path) for found in repository.objects.differences(one, other))
