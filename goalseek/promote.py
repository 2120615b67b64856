"""Taking the kept changes home: each replayed on another base as an ordinary commit, without the reverts.

Nothing of the checkout is touched: changes are merged as trees, and commits made by git's plumbing under the user's
own identity.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from goalseek import process
from goalseek.errors import BAD_FINDING, UNFIT, USAGE, GoalseekError
from goalseek.git import environment
from goalseek.history import History
from goalseek.objects import Difference
from goalseek.quoting import quote_path
from goalseek.records import IterationRecord
from goalseek.repository import RefMove, RefMoved, Repository
from goalseek.standing import Mark
from goalseek.units import number


@dataclass(frozen=True)
class Promoted:
    """One commit to make: its tree on the new base, its message, and what it changes there."""

    iterations: tuple[int, ...]
    tree: str
    message: str
    files: tuple[str, ...]


def kept_records(history: History, epoch: int) -> list[IterationRecord]:
    """What was kept in an epoch, oldest first."""
    kept = []
    for record in history.newest():
        if not isinstance(record, IterationRecord):
            continue
        if record.epoch != epoch or record.outcome == "baseline":
            break
        if record.outcome == "kept":
            kept.append(record)
    return kept[::-1]


def own_base(repository: Repository, baseline: Mark) -> str:
    """The commit that a promotion builds on where no other is asked for: the one that the epoch began at.

    A later baseline is a commit of goalseek's, with reverts behind it; a commit of HEAD's with the same tree has none.
    """
    if baseline.iteration > 0:
        for line in repository.git("log", "--first-parent", "--format=%T %H", "HEAD").decode().splitlines():
            tree, commit = line.split(" ")
            if tree == baseline.tree:
                return commit
    return baseline.commit


def replay(repository: Repository, kept: Sequence[IterationRecord], base: str) -> list[Promoted]:
    """Each kept change on top of the base, in order; one that the base has already is left out.

    Raises GoalseekError naming iteration and files where a change does not apply.
    """
    made: list[Promoted] = []
    tree = repository.tree_of(base)
    for record in kept:
        assert record.commit_hash and record.parent_commit_hash
        before, after = repository.tree_of(record.parent_commit_hash), repository.tree_of(record.commit_hash)
        merged = _merged(repository, before, tree, after, record)
        if merged != tree:
            files = named(repository.objects.differences(tree, merged))
            made.append(Promoted((record.iteration,), merged, message_of(record), files))
        tree = merged
    return made


def squashed(promoted: Sequence[Promoted], repository: Repository, base: str, metric: str) -> list[Promoted]:
    """All of them as one."""
    if not promoted:
        return []
    titles = "".join(f"* {one.message.splitlines()[0]}\n" for one in promoted)
    message = f"Improve {metric} in {len(promoted)} steps\n\n{titles}\n{promoted[-1].message.splitlines()[-1]}\n"
    files = named(repository.objects.differences(repository.tree_of(base), promoted[-1].tree))
    return [Promoted(tuple(n for one in promoted for n in one.iterations), promoted[-1].tree, message, files)]


def message_of(record: IterationRecord) -> str:
    """Title, why, and the metric."""
    metric = record.metric
    assert metric.value is not None
    was = f" (was {number(metric.incumbent)})" if metric.incumbent is not None else ""
    return f"{record.hypothesis_summary}\n\n{record.why}\n\n{metric.name}: {number(metric.value)}{was}\n"


def commit_all(repository: Repository, promoted: Sequence[Promoted], base: str) -> str:
    """Makes the commits on the base under the user's identity, signed where they sign; gives the last one."""
    commit = base
    for one in promoted:
        arguments = ["commit-tree", one.tree, "-p", commit, *(["-S"] if _signs(repository) else [])]
        answer = process.ask(
            ["git", *arguments], _environment(), one.message.encode("utf-8", "replace"), repository.top
        )
        if answer.exit_code:
            said = answer.stderr.decode("utf-8", "replace").strip()
            hint = "git config user.name and user.email say who you are"
            raise GoalseekError(f"git made no commit: {said}", hint, UNFIT, "repository")
        commit = answer.stdout.decode().strip()
    return commit


def make_branch(repository: Repository, name: str, commit: str) -> None:
    """A new branch at a commit. Raises GoalseekError for a name that is taken, or none."""
    if process.ask(["git", "check-ref-format", "--branch", name], _environment()).exit_code:
        raise GoalseekError(f"--branch {name!r} is no name for a branch", "see: git help check-ref-format", USAGE)
    try:
        repository.move([RefMove(f"refs/heads/{name}", None, commit)])
    except RefMoved:
        message = f"the branch {name!r} exists, or a branch is in its way"
        raise GoalseekError(message, "name a new one; existing branches are never moved", USAGE) from None


def patch_between(repository: Repository, base: str, tree: str) -> bytes:
    """The whole result as a patch that ``git apply`` takes."""
    return repository.objects.git("diff-tree", "-p", "--binary", "--full-index", repository.tree_of(base), tree)


def _merged(repository: Repository, before: str, ours: str, theirs: str, record: IterationRecord) -> str:
    """The three-way merge of a change onto a tree, by commits made only to tell git what the three are."""
    if before == ours:
        return theirs
    root = repository.commit(before, (), "before\n", 0)
    left = repository.commit(ours, (root,), "ours\n", 0)
    right = repository.commit(theirs, (root,), "theirs\n", 0)
    arguments = ["git", "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", left, right]
    answer = process.ask(arguments, _hardened(repository), folder=repository.top)
    fields = os.fsdecode(answer.stdout).split("\0")
    if answer.exit_code == 0:
        return fields[0]
    if answer.exit_code == 1:
        files = ", ".join(sorted({quote_path(path) for path in fields[1:] if path}))
        message = f"iteration {record.iteration} does not apply there: conflicts in {files}"
        hint = "promote without --onto, and merge or rebase that branch yourself"
        raise GoalseekError(message, hint, BAD_FINDING)
    raise GoalseekError(f"git merge-tree failed: {answer.stderr.decode('utf-8', 'replace').strip()}", "", UNFIT)


def named(differences: Iterable[Difference]) -> tuple[str, ...]:
    """The paths that differ."""
    return tuple(quote_path(found.path) for found in differences)


def _environment() -> dict[str, str]:
    """The user's own, without what git set for another command."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _is_identity(name)}


def _is_identity(name: str) -> bool:
    return name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG"))


def _hardened(repository: Repository) -> dict[str, str]:
    return environment(**repository.objects.variables())


def _signs(repository: Repository) -> bool:
    answer = process.ask(["git", "config", "--type=bool", "commit.gpgSign"], _environment(), folder=repository.top)
    return answer.stdout.strip() == b"true"
