"""The commits that a record names, held against what it says of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise

from goalseek.git.command import Missing, ObjectsFailed
from goalseek.git.commits import Commit, UnreadableCommit, read_commit
from goalseek.git.objects import Objects
from goalseek.git.paths import quote_path
from goalseek.ledger.chain import Deviation, of_values
from goalseek.ledger.records import IterationRecord

_TRAILER = "Goalseek-"


class NamedCommits:
    """Checks of one repository's records; a commit that follows another is not read twice."""

    def __init__(self, objects: Objects, project: str) -> None:
        self.objects = objects
        self.project = project
        self._read = functools.lru_cache(maxsize=32)(functools.partial(read_commit, objects))

    def check(self, record: IterationRecord, tip: str) -> Iterator[Deviation]:
        """Every difference between the record, which follows on ``tip``, and the commits that it names."""
        where = f"record {record.seq}"
        candidate = yield from self._commit(record.commit_hash, f"{where}, commit_hash")
        parent = yield from self._commit(record.parent_commit_hash, f"{where}, parent_commit_hash")
        rollback = yield from self._commit(record.rollback_commit_hash, f"{where}, rollback_commit_hash")
        if record.commit_hash and tip:
            named = record.parent_commit_hash
            yield from of_values("the candidate is not on the tip", f"{where}, parent_commit_hash", tip, named)
        if candidate:
            yield from self._candidate(record, candidate, parent)
        if candidate and rollback:
            yield from self._rollbacks(record, candidate, parent, rollback)

    def _commit(self, name: str | None, where: str) -> Generator[Deviation, None, Commit | None]:
        """Gives (as a generator's value) the commit; names it where it is not there."""
        if name is None:
            return None
        try:
            return self._read(name)
        except UnreadableCommit as error:
            yield Deviation("a commit is missing", where, name, str(error))
            return None

    def _candidate(self, record: IterationRecord, candidate: Commit, parent: Commit | None) -> Iterator[Deviation]:
        where = f"candidate {candidate.name}"
        yield from of_values("another tree than recorded", where, record.tree_hash, candidate.tree)
        if record.parent_commit_hash in (None, record.commit_hash):
            return
        is_baseline = record.outcome == "baseline"
        parents = candidate.parents[:1] if is_baseline else candidate.parents
        expected = (str(record.parent_commit_hash), *record.earlier_commits)
        yield from of_values("another parent than recorded", where, expected[-1], " ".join(parents))
        for before, name in pairwise(expected):
            earlier = yield from self._commit(name, f"record {record.seq}, attempts")
            if earlier:
                told = " ".join(earlier.parents)
                yield from of_values("another parent than recorded", f"earlier try {name}", before, told)
        wanted = {"Project": self.project, "Run": record.run_id, "Iteration": str(record.iteration)}
        if record.reason == "interrupted":
            del wanted["Run"]  # a run that was given up had made it
        trailers = _trailers(candidate.message)
        for name, value in wanted.items():
            yield from of_values(f"another trailer {_TRAILER}{name}", where, value, trailers.get(name))
        if parent and not is_baseline:
            yield from self._changed_files(record, candidate, parent)

    def _changed_files(self, record: IterationRecord, candidate: Commit, parent: Commit) -> Iterator[Deviation]:
        where = f"record {record.seq}, changed_files"
        try:
            found = self.objects.differences(parent.tree, candidate.tree)
        except (Missing, ObjectsFailed, BrokenPipeError) as error:
            self.objects.close()
            yield Deviation("trees that git cannot compare", where, "two trees", str(error))
            return
        changed = sorted(quote_path(difference.path) for difference in found)
        yield from of_values("other paths than git's", where, changed, sorted(record.changed_files))

    def _rollbacks(
        self, record: IterationRecord, candidate: Commit, parent: Commit | None, last: Commit
    ) -> Iterator[Deviation]:
        """The reverts of every try, the last of which is recorded and takes back the first try."""
        tries: list[Commit | None] = [parent]
        for name in record.earlier_commits:
            tries.append((yield from self._commit(name, f"record {record.seq}, attempts")))
        tries.append(candidate)
        rollback = last
        for before, reverted in pairwise(tries):
            if reverted is None:
                return
            yield from self._rollback(reverted, before, rollback)
            if reverted is candidate:
                yield from of_values(
                    "another parent than the candidate",
                    f"rollback {rollback.name}",
                    candidate.name,
                    " ".join(rollback.parents),
                )
                return
            found = yield from self._commit(rollback.parents[0] if rollback.parents else "", "a revert's parent")
            if found is None:
                return
            rollback = found

    def _rollback(self, reverted: Commit, before: Commit | None, rollback: Commit) -> Iterator[Deviation]:
        where = f"rollback {rollback.name}"
        subject = reverted.message.split("\n", 1)[0]
        message = f'Revert "{subject}"\n\nThis reverts commit {reverted.name}.\n'
        yield from of_values("another message than git revert's", where, message, rollback.message)
        if before:
            yield from of_values("another tree than before the candidate", where, before.tree, rollback.tree)


def is_next_candidate(read: Callable[[str], Commit], commit: str, tip: str, project: str, iteration: int) -> bool:
    """Whether a commit is the candidate of the iteration under way, which has no record yet, or a later try of it.

    Raises Unreadable where a commit is not there.
    """
    while True:
        found = read(commit)
        trailers = _trailers(found.message)
        if trailers.get("Project") != project or trailers.get("Iteration") != str(iteration):
            return False
        if len(found.parents) != 1 or found.parents[0] == tip:
            return found.parents == (tip,)
        commit = found.parents[0]


def _trailers(message: str) -> dict[str, str]:
    last = message.rstrip("\n").rpartition("\n\n")[2]
    rows = (line.partition(": ") for line in last.split("\n") if line.startswith(_TRAILER))
    return {name.removeprefix(_TRAILER): value for name, _, value in rows}
