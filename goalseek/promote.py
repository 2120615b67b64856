"""Taking the kept changes home: each replayed on a commit of the user's, without the reverts or a checkout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.kept_changes import KeptChain
from goalseek.objects import Difference, Objects
from goalseek.quoting import quote_path
from goalseek.records import IterationRecord
from goalseek.tree_merge import Conflicts, merged
from goalseek.units import number


@dataclass(frozen=True)
class Promoted:
    """One commit to make: its tree on the new base, its message, and what it changes there."""

    iterations: tuple[int, ...]
    tree: str
    message: str
    files: tuple[str, ...]


def replay(objects: Objects, chain: KeptChain, base_tree: str) -> list[Promoted]:
    """Each kept change on top of the base, in order; one that the base has already is left out.

    Raises GoalseekError naming iteration, title and files where a change does not apply.
    """
    made: list[Promoted] = []
    tree = base_tree
    for change in chain.changes:
        try:
            after = merged(objects, change.before, tree, change.after)
        except Conflicts as found:
            raise _conflict(change.record, found) from None
        if after != tree:
            files = _named(objects.differences(tree, after))
            made.append(Promoted((change.record.iteration,), after, message_of(change.record), files))
        tree = after
    return made


def squashed(objects: Objects, promoted: Sequence[Promoted], base_tree: str, metric: str) -> list[Promoted]:
    """All of them as one; none where they take each other back."""
    if not promoted or promoted[-1].tree == base_tree:
        return []
    if len(promoted) == 1:
        return list(promoted)
    titles = "".join(f"* {one.message.splitlines()[0]}\n" for one in promoted)
    message = f"Improve {metric} in {len(promoted)} steps\n\n{titles}\n{promoted[-1].message.splitlines()[-1]}\n"
    files = _named(objects.differences(base_tree, promoted[-1].tree))
    return [Promoted(tuple(n for one in promoted for n in one.iterations), promoted[-1].tree, message, files)]


def message_of(record: IterationRecord) -> str:
    """Title, why, and the metric."""
    metric = record.metric
    assert metric.value is not None
    was = f" (was {number(metric.incumbent)})" if metric.incumbent is not None else ""
    title = record.hypothesis_summary or f"Improve {metric.name}"
    return f"{title}\n\n{record.why}\n\n{metric.name}: {number(metric.value)}{was}\n"


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


def _conflict(record: IterationRecord, found: Conflicts) -> GoalseekError:
    title = f" ({record.hypothesis_summary})" if record.hypothesis_summary else ""
    message = f"iteration {record.iteration}{title} does not apply there: conflicts in {', '.join(found.files)}"
    hint = (
        "nothing was written; promote without --onto, and merge or rebase that branch yourself; "
        "or climb on from there: goalseek baseline --from REV"
    )
    return GoalseekError(message, hint, BAD_FINDING)


def _named(differences: Iterable[Difference]) -> tuple[str, ...]:
    return tuple(quote_path(found.path) for found in differences)
