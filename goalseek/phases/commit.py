"""COMMIT: the change becomes a commit on the incumbent, reachable for ever."""

from __future__ import annotations

from pathlib import Path

from goalseek.errors import Rejected
from goalseek.objects import Entry, Objects
from goalseek.quoting import quote_path
from goalseek.repository import RefMove, RefMoved, Repository, moved_by_somebody
from goalseek.run import Run, Setting
from goalseek.values import Candidate, Change, Context


def commit(run: Run, setting: Setting, context: Context, change: Change, run_folder: Path) -> Candidate:
    """Makes the candidate's commit and moves the tip to it.

    Raises Rejected for a tree that was already measured under this ruler, and where somebody pruned what it is made
    of; GoalseekError where somebody moved the tip.
    """
    standing, repository, scope = run.standing, run.repository, setting.scope
    assert standing.incumbent
    objects = repository.objects
    _store_again(objects, change, run_folder / "snapshot")
    edits = {edit.path: Entry(edit.mode, edit.blob) if edit.mode else None for edit in change.edits}
    tree = objects.splice(standing.incumbent.tree, edits)
    strange = [found.path for found in objects.differences(standing.incumbent.tree, tree)]
    assert all(scope.kind(path) == "writable" for path in strange), f"not the candidate's: {strange}"
    before = run.measured.iteration(standing.ruler, tree)
    if before is not None:
        raise Rejected("skipped", "duplicate", f"the same tree was measured in iteration {before}")
    provider = change.provider or run.provider().name
    message = message_of(change.title, repository.name, run.run_id, context.iteration, provider)
    made = repository.commit(tree, (standing.tip,), message, context.moment)
    move_tip(repository, standing.tip, made)
    return Candidate(made, tree, standing.tip)


def _store_again(objects: Objects, change: Change, snapshot: Path) -> None:
    """Stores what a ``git gc --prune=now`` removed before any commit held it, from the snapshot of the same bytes."""
    for edit in change.edits:
        if not edit.mode or objects.has(edit.blob):
            continue
        place = snapshot / edit.path
        if not place.is_file() or place.is_symlink() or objects.write_file(place) != edit.blob:
            why = f"git does not have the content of {quote_path(edit.path)} any more: somebody pruned it"
            raise Rejected("skipped", "interrupted", why)


def message_of(title: str, project: str, run_id: str, iteration: int, provider: str) -> str:
    """A candidate's message: the title, and trailers by which it is recognised."""
    trailers = {"Project": project, "Run": run_id, "Iteration": str(iteration), "Provider": provider}
    return title + "\n\n" + "".join(f"Goalseek-{name}: {value}\n" for name, value in trailers.items() if value)


def move_tip(repository: Repository, before: str | None, after: str) -> None:
    """Moves the tip. Raises GoalseekError where it is neither where it was left nor there already."""
    if before == after:
        return
    try:
        repository.move([RefMove(repository.tip_ref, before, after)])
    except RefMoved:
        found = repository.refs().tip
        if found != after:
            raise moved_by_somebody(repository.tip_ref, before or "nothing", found) from None
