"""Taking the kept changes home: each replayed on a commit of the user's, without the reverts or a checkout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from goalseek.errors import BAD_FINDING, UNFIT, GoalseekError
from goalseek.git.command import Missing
from goalseek.git.commits import Commit, UnreadableCommit, read_commit
from goalseek.git.merge import Conflicts, merged
from goalseek.git.objects import Difference, Objects
from goalseek.git.paths import quote_path
from goalseek.git.repository import Repository
from goalseek.humanize import format_number, pluralize
from goalseek.ledger.chain import newest_with
from goalseek.ledger.records import IterationRecord


@dataclass(frozen=True)
class Promoted:
    """One commit to make: its tree on the new base, its message, and what it changes there."""

    records: tuple[IterationRecord, ...]
    tree: str
    message: str
    files: tuple[str, ...]

    @property
    def iterations(self) -> tuple[int, ...]:
        """The numbers of the iterations that are in it."""
        return tuple(record.iteration for record in self.records)


def replay(objects: Objects, chain: KeptChain, base_tree: str) -> list[Promoted]:
    """Each kept change on top of the base, in order; one that the base has already is left out.

    Raises GoalseekError naming iteration, title and files where a change does not apply.
    """
    made: list[Promoted] = []
    tree = base_tree
    for change in chain.changes[_already_there(objects, chain, base_tree) :]:
        try:
            after = merged(objects, change.before, tree, change.after)
        except Conflicts as found:
            raise _conflict(change.record, found) from None
        if after != tree:
            files = _named(objects.differences(tree, after))
            made.append(Promoted((change.record,), after, message_of(change.record), files))
        tree = after
    return made


def squashed(objects: Objects, promoted: Sequence[Promoted], base_tree: str) -> list[Promoted]:
    """All of them as one; none where they take each other back. Its metric is against where this ruler began."""
    if not promoted or promoted[-1].tree == base_tree:
        return []
    if len(promoted) == 1:
        return list(promoted)
    records = tuple(record for one in promoted for record in one.records)
    first = next(record for record in records if record.epoch == records[-1].epoch)
    titles = "".join(f"* {title_of(record)}\n" for record in records)
    gain = _gain(records[-1], first.metric.incumbent)
    message = f"Improve {records[-1].metric.name} in {pluralize(len(promoted), 'step')}\n\n{titles}\n{gain}\n"
    files = _named(objects.differences(base_tree, promoted[-1].tree))
    return [Promoted(records, promoted[-1].tree, message, files)]


def message_of(record: IterationRecord) -> str:
    """Title, why, and the metric."""
    return f"{title_of(record)}\n\n{record.why}\n\n{_gain(record, record.metric.incumbent)}\n"


def title_of(record: IterationRecord) -> str:
    """What the author called it, in one line."""
    return " ".join(record.hypothesis_summary.split()) or f"Improve {record.metric.name}"


def _gain(record: IterationRecord, before: float | None) -> str:
    assert record.metric.value is not None
    was = f" (was {format_number(before)})" if before is not None else ""
    return f"{record.metric.name}: {format_number(record.metric.value)}{was}"


def unlike_best(
    objects: Objects, chain: KeptChain, base_tree: str, result_tree: str, is_writable: Callable[[str], bool]
) -> tuple[str, ...]:
    """The writable files in which the result is not the best commit, because the base had others: never measured.

    Raises RuntimeError where the base had none of its own, for then the result must be the best.
    """

    def writable(one: str, other: str) -> list[Difference]:
        return [found for found in objects.differences(one, other) if is_writable(found.path)]

    unlike = _named(writable(result_tree, chain.end))
    if unlike and not writable(base_tree, chain.start):
        raise RuntimeError(f"the replayed changes are not those of the best commit: {', '.join(unlike)}")
    return unlike


def _already_there(objects: Objects, chain: KeptChain, base_tree: str) -> int:
    """How many of the first changes the base has, as after a squashed merge: one by one they would conflict there.

    It has them where each file that they touched is as they left it.
    """
    touched: list[frozenset[str]] = []
    for change in chain.changes:
        files = {found.path for found in objects.differences(change.before, change.after)}
        touched.append(frozenset(files.union(*touched[-1:])))
    for count in range(len(touched), 0, -1):
        taken = touched[count - 1]

        def has(tree: str, taken: frozenset[str] = taken) -> bool:
            return not any(found.path in taken for found in objects.differences(base_tree, tree))

        if has(chain.changes[0].before):
            return 0
        if has(chain.changes[count - 1].after):
            return count
    return 0


def _conflict(record: IterationRecord, found: Conflicts) -> GoalseekError:
    message = (
        f"iteration {record.iteration} ({title_of(record)}) does not apply there: conflicts in {', '.join(found.files)}"
    )
    hint = (
        "nothing was written; promote without --onto, and merge or rebase that branch yourself; "
        "or climb on from there: goalseek baseline --from REV"
    )
    return GoalseekError(message, hint, BAD_FINDING)


def _named(differences: Iterable[Difference]) -> tuple[str, ...]:
    return tuple(quote_path(found.path) for found in differences)


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
    except UnreadableCommit:
        raise Missing(name) from None


def _first_with(
    repository: Repository, commits: list[str], tree: str, is_writable: Callable[[str], bool]
) -> str | None:
    """The first commit with the writable files of a tree."""
    return next((name for name in commits if _same(repository, repository.tree_of(name), tree, is_writable)), None)


def _same(repository: Repository, one: str, other: str, is_writable: Callable[[str], bool]) -> bool:
    return not any(is_writable(found.path) for found in repository.objects.differences(one, other))
