"""The audit of the commits that a record names: parents, trees, trailers, paths and reverts against the record."""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import pairwise

from goalseek.git.command import MissingObject, ObjectsFailed
from goalseek.git.commits import Commit, UnreadableCommit, read_commit, revert_message
from goalseek.git.objects import Objects
from goalseek.git.paths import quote_path
from goalseek.ledger.chain import Deviation, value_deviations
from goalseek.records import IterationRecord
from goalseek.values import Outcome, Reason


class NamedCommits:
    """Checks the commits of one repository's records; the newest commits are cached."""

    def __init__(self, objects: Objects, project: str) -> None:
        self._objects = objects
        self._project = project
        self._kept: dict[int, str] = {}
        self._read = functools.lru_cache(maxsize=32)(functools.partial(read_commit, objects))

    def check(self, record: IterationRecord, tip: str, tips: Mapping[str, str]) -> Iterator[Deviation]:
        """Every difference between the record, which follows on ``tip``, and the commits that it names.

        ``tips`` are all of its epoch until then, each with its incumbent. A ``tip`` of "" is not known.
        """
        where = f"record {record.seq}"
        candidate = yield from self._load_commit(record.commit_hash, f"{where}, commit_hash")
        parent = yield from self._load_commit(record.parent_commit_hash, f"{where}, parent_commit_hash")
        rollback = yield from self._load_commit(record.rollback_commit_hash, f"{where}, rollback_commit_hash")
        named = record.parent_commit_hash
        if record.commit_hash and tip and not (record.may_be_late and named in tips):
            yield from value_deviations("the candidate is not on the tip", f"{where}, parent_commit_hash", tip, named)
        if candidate:
            yield from self._check_candidate(record, candidate, parent)
        if candidate and rollback:
            yield from self._check_rollbacks(record, candidate, parent, rollback)
        if tip:
            yield from self._check_moved(record, tips)

    def _load_commit(self, name: str | None, where: str) -> Generator[Deviation, None, Commit | None]:
        """Returns (as a generator) the commit; yields a difference where it is not there."""
        if name is None:
            return None
        try:
            return self._read(name)
        except UnreadableCommit as error:
            yield Deviation("a commit is missing", where, name, str(error))
            return None

    def _check_candidate(
        self, record: IterationRecord, candidate: Commit, parent: Commit | None
    ) -> Iterator[Deviation]:
        where = f"candidate {candidate.name}"
        yield from value_deviations("another tree than recorded", where, record.tree_hash, candidate.tree)
        if record.parent_commit_hash in (None, record.commit_hash):
            return
        is_baseline = record.outcome == Outcome.BASELINE
        parents = candidate.parents[:1] if is_baseline else candidate.parents
        expected = (str(record.parent_commit_hash), *record.earlier_commits)
        yield from value_deviations("another parent than recorded", where, expected[-1], " ".join(parents))
        for before, name in pairwise(expected):
            yield from self._check_try(record, name, [before])
        yield from self._check_trailers(record, candidate, where)
        if parent and not is_baseline:
            where_changed = f"record {record.seq}, changed_files"
            try:
                differences = self._objects.differences(parent.tree, candidate.tree)
                changed = sorted(quote_path(difference.path) for difference in differences)
                recorded = sorted(record.changed_files)
                yield from value_deviations("other paths than git's", where_changed, changed, recorded)
            except (MissingObject, ObjectsFailed, BrokenPipeError) as error:
                self._objects.close()
                yield Deviation("trees that git cannot compare", where_changed, "two trees", str(error))
        if record.taken_back is not None:
            reverted = yield from self._load_commit(
                self._kept.get(record.taken_back), f"record {record.seq}, taken_back"
            )
            what = "another message than git revert's"
            expected_message = revert_message(reverted) if reverted else "the revert of a kept iteration"
            message = candidate.message.rpartition("\n\n")[0] + "\n"
            yield from value_deviations(what, where, expected_message, message)
        if record.outcome == Outcome.KEPT:
            self._kept[record.iteration] = candidate.name

    def _check_trailers(self, record: IterationRecord, commit: Commit, where: str) -> Iterator[Deviation]:
        expected_trailers = {"Project": self._project, "Run": record.run_id, "Iteration": str(record.iteration)}
        if record.reason == Reason.INTERRUPTED:
            del expected_trailers["Run"]  # a run that was given up had made it
        for name, value in expected_trailers.items():
            yield from value_deviations(f"another trailer Goalseek-{name}", where, value, commit.trailers.get(name))

    def _check_moved(self, record: IterationRecord, tips: Mapping[str, str]) -> Iterator[Deviation]:
        """Checks the versions that were moved to a later tip: each on a tip of its base, its tries one on another."""
        for base, names in record.moved_versions:
            parents = [tip for tip, incumbent in tips.items() if incumbent == base]
            for name in names:
                commit = yield from self._check_try(record, name, parents or [f"a tip of {base}"])
                if commit:
                    yield from self._check_trailers(record, commit, f"earlier try {name}")
                parents = [name]

    def _check_try(
        self, record: IterationRecord, name: str, parents: Sequence[str]
    ) -> Generator[Deviation, None, Commit | None]:
        """Checks the parent of an earlier try, which must be one of these; returns its commit."""
        commit = yield from self._load_commit(name, f"record {record.seq}, attempts")
        if commit and (found := " ".join(commit.parents)) not in parents:
            yield from value_deviations("another parent than recorded", f"earlier try {name}", parents[-1], found)
        return commit

    def _check_rollbacks(
        self, record: IterationRecord, candidate: Commit, parent: Commit | None, last: Commit
    ) -> Iterator[Deviation]:
        """Checks the reverts of every attempt; ``last``, the recorded one, reverts the first attempt."""
        attempts: list[Commit | None] = [parent]
        for name in record.earlier_commits:
            attempts.append((yield from self._load_commit(name, f"record {record.seq}, attempts")))
        attempts.append(candidate)
        rollback: Commit | None = last
        for before, reverted in pairwise(attempts):
            if reverted is None or rollback is None:
                return
            where, message = f"rollback {rollback.name}", revert_message(reverted)
            yield from value_deviations("another message than git revert's", where, message, rollback.message)
            if before:
                what = "another tree than before the candidate"
                yield from value_deviations(what, where, before.tree, rollback.tree)
            if reverted is candidate:
                parents = " ".join(rollback.parents)
                yield from value_deviations("another parent than the candidate", where, candidate.name, parents)
                return
            rollback = yield from self._load_commit("".join(rollback.parents[:1]), "a revert's parent")
