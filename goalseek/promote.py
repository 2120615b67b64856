"""Taking the kept changes home: each replayed on a commit of the user's, without the reverts or a checkout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.git.merge import Conflicts, merged
from goalseek.git.objects import Difference, Objects
from goalseek.git.paths import quote_path
from goalseek.humanize import counted, number
from goalseek.kept_changes import KeptChain
from goalseek.records import IterationRecord


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
    message = f"Improve {records[-1].metric.name} in {counted(len(promoted), 'step')}\n\n{titles}\n{gain}\n"
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
    was = f" (was {number(before)})" if before is not None else ""
    return f"{record.metric.name}: {number(record.metric.value)}{was}"


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
