"""Promotion: kept changes replayed as commits on one of the user's, without reverts or a checkout."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct, structs

from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.git.as_user import PlannedCommit
from goalseek.git.merge import Conflicts, merge_trees
from goalseek.git.objects import MissingObject, Objects
from goalseek.git.paths import quote_path
from goalseek.git.repository import Repository, UnreadableCommit, walk_first_parents
from goalseek.humanize import format_distinct, format_number, pluralize
from goalseek.ledger.standing import take_back
from goalseek.records import IterationRecord, SettleRecord, parse_record
from goalseek.values import IN_TIP, Outcome, StopReason

MAX_HEADS = 2000


def replay(objects: Objects, chain: KeptChain, base_tree: str) -> list[PlannedCommit]:
    """Commits on the base, without changes that it has already. Raises GoalseekError if one does not apply."""
    promoted: list[PlannedCommit] = []
    tree = base_tree
    for change in chain.changes[_count_applied(objects, chain, base_tree) :]:
        try:
            after = merge_trees(objects, change.before, tree, change.after)
        except Conflicts as conflicts:
            which = f"iteration {change.record.iteration} ({commit_title(change.record)})"
            message = f"{which} does not apply there: conflicts in {', '.join(conflicts.files)}"
            hint = (
                "nothing was written; promote without --onto, and merge or rebase that branch yourself; "
                "or climb on from there: goalseek baseline --from REV"
            )
            raise GoalseekError(message, hint, BAD_FINDING) from None
        if after != tree:
            files = tuple(map(quote_path, objects.changed_paths(tree, after)))
            record = change.record
            is_last = change is chain.changes[-1] and chain.result is not None and chain.result.taken_back is not None
            measured = chain.result if is_last else record if change.after == record.tree_hash else None
            result = _describe_result((record,), measured, chain)
            message = f"{commit_title(record)}\n\n{record.why}\n\n{result}\n"
            promoted.append(PlannedCommit(after, message, (record.iteration,), files))
        tree = after
    return promoted


def squash(
    objects: Objects, chain: KeptChain, promoted: Sequence[PlannedCommit], base_tree: str
) -> list[PlannedCommit]:
    """All as one commit; none if they cancel out. The gain counts from the first under the last ruler."""
    if not promoted or promoted[-1].tree == base_tree:
        return []
    if len(promoted) == 1:
        return list(promoted)
    numbers = tuple(number for commit in promoted for number in commit.iterations)
    records = [change.record for change in chain.changes if change.record.iteration in numbers]
    titles = "".join(f"* {commit_title(record)}\n" for record in records)
    is_of_last = chain.result is None or chain.result.epoch == records[-1].epoch
    result = _describe_result(records, chain.result if is_of_last else records[-1], chain)
    message = f"Improve {records[-1].metric.name} in {pluralize(len(promoted), 'step')}\n\n{titles}\n{result}\n"
    files = tuple(map(quote_path, objects.changed_paths(base_tree, promoted[-1].tree)))
    return [PlannedCommit(promoted[-1].tree, message, numbers, files)]


def commit_title(record: IterationRecord) -> str:
    return " ".join(record.hypothesis_summary.split()) or f"Improve {record.metric.name}"


def _describe_result(records: Sequence[IterationRecord], result: IterationRecord | None, chain: KeptChain) -> str:
    """``result`` measured the records together; a settling of it is added, or replaces its values."""
    name, settled = records[-1].metric.name, chain.settled
    numbers = {record.iteration for record in records if record.epoch == records[-1].epoch}
    first = next(change for change in chain.changes if change.record.iteration in numbers)
    text = f"{name}: some kept changes are left out"
    if result and (value := result.metric.value) is not None:
        before = first.value_before if first.record.epoch == result.epoch else None
        text = f"{name}: {_format_values(before, value, result.metric.unit)}"
        newest = chain.result or chain.changes[-1].record
        text += " (under an earlier verifier)" if result.epoch < newest.epoch else ""
    if result and settled and settled.iteration == result.iteration:
        values = f"{_format_values(settled.baseline, settled.best, settled.unit)}, settled: {settled.why}"
        is_all = first.record.base_commit_hash == settled.baseline_commit_hash
        text = f"{name}: {values}" if is_all else f"{text}\n{name} since the baseline: {values}"
    is_exposed = any(record.isolation.verifier == "both" for record in records)
    return f"{text}; candidate code could read the hidden files" if is_exposed else text


def _format_values(before: float | None, after: float, unit: str) -> str:
    if before is None:
        return format_number(after, unit)
    before_text, after_text = format_distinct(before, after, unit=unit)
    return f"{after_text} (was {before_text})"


def unmeasured_files(
    objects: Objects, chain: KeptChain, base_tree: str, result_tree: str, is_writable: Callable[[str], bool]
) -> tuple[str, ...]:
    """Writable files of the result that differ from the best commit, because the base had others."""

    def writable(tree: str, other: str) -> list[str]:
        return list(filter(is_writable, objects.changed_paths(tree, other)))

    paths = tuple(map(quote_path, writable(result_tree, chain.end)))
    if paths and chain.result and not writable(base_tree, chain.start):
        raise RuntimeError(f"the replayed changes differ from the best commit: {', '.join(paths)}")
    return paths


def _count_applied(objects: Objects, chain: KeptChain, base_tree: str) -> int:
    """How many first changes the base has, as after a squash merge: replayed one by one they would conflict."""
    files = (set(objects.changed_paths(one.before, one.after)) for one in chain.changes)
    cumulative = list(itertools.accumulate(files, set[str].union))
    for count in range(len(cumulative), 0, -1):
        for tree, applied in ((chain.changes[0].before, 0), (chain.changes[count - 1].after, count)):
            if cumulative[count - 1].isdisjoint(objects.changed_paths(base_tree, tree)):
                return applied
    return 0


class KeptStep(Struct, frozen=True):
    """``value_before`` is the value of the tree ``before`` under the same verifier; None if it was not measured."""

    record: IterationRecord
    before: str
    after: str
    value_before: float | None


class KeptChain(Struct, frozen=True):
    """Oldest first, from the tree ``start`` to ``end``, the best's. ``base`` has ``start``'s writable files.

    ``result`` measured ``end``, and ``settled`` is its settling; None if there is none.
    """

    changes: tuple[KeptStep, ...]
    start: str
    end: str
    base: str
    result: IterationRecord | None = None
    settled: SettleRecord | None = None

    @property
    def iterations(self) -> list[int]:
        return [change.record.iteration for change in self.changes]

    @property
    def taken_back(self) -> dict[int, int]:
        """The iteration that took each change back."""
        taken_back: dict[int, int] = {}
        for record in (change.record for change in self.changes):
            if record.taken_back is not None:
                taken_back = take_back(taken_back, record.taken_back, record.iteration)
        return taken_back


def leave_out(objects: Objects, chain: KeptChain, numbers: Collection[int]) -> KeptChain:
    """Later changes are merged on the rest. Raises GoalseekError if one stands on a change that is left out."""
    changes: list[KeptStep] = []
    values = {(change.record.epoch, change.before): change.value_before for change in chain.changes}
    before = tree = chain.start
    for change in chain.changes:
        tree = _merge_on(objects, before, tree, change.before, change.record)  # a baseline between them, if any
        if change.record.iteration not in numbers:
            after = _merge_on(objects, change.before, tree, change.after, change.record)
            changes.append(KeptStep(change.record, tree, after, values.get((change.record.epoch, tree))))
            tree = after
        before = change.after
    end = _merge_on(objects, before, tree, chain.end, chain.changes[-1].record) if chain.changes else chain.end
    if end == chain.end:
        return structs.replace(chain, changes=tuple(changes))
    return structs.replace(chain, changes=tuple(changes), end=end, result=None, settled=None)


def _merge_on(objects: Objects, before: str, tree: str, after: str, record: IterationRecord) -> str:
    try:
        return tree if before == after else merge_trees(objects, before, tree, after)
    except Conflicts as conflicts:
        message = f"iteration {record.iteration}, {commit_title(record)}, depends on a change that is left out"
        message = f"{message}, in {', '.join(conflicts.files)}"
        raise GoalseekError(message, f"leave it out too: --without {record.iteration}", BAD_FINDING) from None


def without_reverts(objects: Objects, chain: KeptChain, base_tree: str) -> KeptChain:
    """Without reverts and the changes that they took back, unless the base would then get other files."""
    reverts = {change.record.iteration for change in chain.changes if change.record.taken_back is not None}
    try:
        shorter = leave_out(objects, chain, reverts.union(chain.taken_back))
        results = {
            (base_tree, *(one.tree for one in replay(objects, each, base_tree)))[-1] for each in (chain, shorter)
        }
    except GoalseekError:
        return chain
    return shorter if shorter.end == chain.end and len(results) == 1 else chain


def load_kept_chain(repository: Repository, is_writable: Callable[[str], bool]) -> KeptChain:
    """Up to the best, from the newest baseline whose code the user had, also under earlier rulers.

    Raises GoalseekError if a record differs from git or nothing was measured, MissingObject if git lacks an object.
    """

    def has_same_files(tree: str, other: str) -> bool:
        return not any(map(is_writable, repository.objects.changed_paths(tree, other)))

    def find_matching(commits: list[str], tree: str) -> str | None:
        return next((name for name in commits if has_same_files(repository.tree_of(name), tree)), None)

    records: list[IterationRecord] = []
    users: list[str] = []
    results = _results(repository)
    newest = next(results, None)
    settled = newest if isinstance(newest, SettleRecord) else None
    keeps = (one for one in itertools.chain([newest], results) if isinstance(one, IterationRecord))
    for record, older in itertools.pairwise(itertools.chain(keeps, [None])):
        assert record
        records.append(record)
        if record.outcome != Outcome.BASELINE:
            continue
        own_commits, tree = _users_commits(repository, record), str(record.tree_hash)
        users += own_commits
        before = str(older.tree_hash) if older else None
        is_other_code = before is None or not has_same_files(before, tree)
        if is_other_code or find_matching(own_commits, tree):
            base = find_matching(users, tree)
            records.reverse()
            changes = tuple(
                KeptStep(after, str(before.tree_hash), str(after.tree_hash), before.metric.value)
                for before, after in itertools.pairwise(records)
                if after.outcome == Outcome.KEPT
            )
            end = str(records[-1].tree_hash)
            return KeptChain(changes, tree, end, base or str(record.commit_hash), records[-1], settled)
    refs = f"refs/goalseek/{repository.name}/*"
    hint = f"fetch it from the clone that ran the climb: git fetch CLONE '{refs}:{refs}'"
    raise GoalseekError(f"{repository.ledger_ref} has no measured code", hint, StopReason.REPOSITORY)


def _results(repository: Repository) -> Iterator[IterationRecord | SettleRecord]:
    """Keeps, baselines and settlings, newest first; reads the ledger only as far as this is iterated."""
    marks = ['"kind":"settle"', *(f'"outcome":"{outcome}"' for outcome in IN_TIP)]  # in strings they have backslashes
    name = repository.refs().ledger
    try:
        for entry in walk_first_parents(repository.read_commit, name):
            name = entry.name
            if not entry.parents or not any(mark in entry.message for mark in marks):
                continue
            record = parse_record(entry.last_line)
            if isinstance(record, SettleRecord):
                yield record
            elif isinstance(record, IterationRecord) and record.outcome in IN_TIP:
                try:
                    commit = repository.read_commit(str(record.commit_hash))
                except UnreadableCommit as error:
                    raise MissingObject(error.name) from None
                if commit.tree != record.tree_hash:
                    said = f"record {record.seq} says {record.tree_hash}"
                    message = f"the tree of {commit.name} is {commit.tree}, and {said}"
                    raise GoalseekError(message, "run: goalseek audit", StopReason.TAMPERED)
                yield record
    except (UnreadableCommit, ValueError) as error:
        name = error.name if isinstance(error, UnreadableCommit) else name
        raise GoalseekError(f"ledger commit {name}: {error}", "run: goalseek audit", StopReason.TAMPERED) from None


def _users_commits(repository: Repository, record: IterationRecord) -> list[str]:
    """HEAD at the time of a baseline, and the commit that its code came from."""
    assert record.commit_hash
    if record.parent_commit_hash is None:
        return [record.commit_hash]
    measured = repository.load_commit(record.commit_hash)
    if record.commit_hash != record.parent_commit_hash:
        return list(measured.parents[0 if record.iteration == 0 else 1 :])
    if repository.resolve("HEAD") is None:
        return []
    listing = repository.git("log", "--first-parent", f"--max-count={MAX_HEADS}", "--format=%T %H", "HEAD")
    lines = (line.split(" ") for line in listing.decode().splitlines())
    return [commit for tree, commit in lines if tree == measured.tree][:1]
