"""COMMIT: the change becomes a commit on the incumbent, reachable for ever."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from goalseek.errors import Rejected
from goalseek.git.commits import message_of
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import quote_path
from goalseek.humanize import abbreviate
from goalseek.phase_values import Candidate, Change, Context, Edit
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.project.refs import move_tip


def commit(
    project: Project, config: Config, context: Context, change: Change, snapshot: Path, earlier: tuple[str, ...] = ()
) -> Candidate:
    """Makes the candidate's commit, on the last of the ``earlier`` ones of its iteration, and moves the tip to it.

    ``snapshot`` has the changed files. Raises Rejected for a tree that was already measured under this ruler, where
    somebody pruned what it is made of, and where the manifest leaves it a file no more; GoalseekError where somebody
    moved the tip.
    """
    standing, repository, scope = project.standing, project.repository, config.scope
    assert standing.incumbent
    objects = repository.objects
    store_again(objects, change.edits, snapshot)
    edits = entries_of(change.edits)
    tree = objects.splice(standing.incumbent.tree, edits)
    changed = [found.path for found in objects.differences(standing.incumbent.tree, tree)]
    assert edits.keys() >= set(changed), f"not the candidate's: {changed}"
    if strange := [quote_path(path) for path in changed if scope.kind(path) != "writable"]:
        what = f"{abbreviate(strange)} is not the candidate's to edit any more"
        why = f"the manifest has changed since it was proposed: {what}"
        raise Rejected("skipped", "out_of_scope", why)
    before = project.measured.iteration(standing.ruler, tree)
    if before is not None:
        raise Rejected("skipped", "duplicate", f"the same tree was measured in iteration {before}")
    provider = change.provider or project.provider().name
    title = f"{change.title} (try {len(earlier) + 1})" if earlier else change.title
    message = message_of(title, repository.name, project.run_id, context.iteration, provider)
    parent = earlier[-1] if earlier else standing.tip
    made = repository.commit(tree, (parent,), message, context.moment)
    move_tip(repository, parent, made)
    return Candidate(made, tree, standing.tip, earlier)


def entries_of(edits: Iterable[Edit]) -> dict[str, Entry | None]:
    """Edits by path, None for what was deleted."""
    return {edit.path: Entry(edit.mode, edit.blob) if edit.mode else None for edit in edits}


def store_again(objects: Objects, edits: Iterable[Edit], snapshot: Path) -> None:
    """Stores what a ``git gc --prune=now`` removed before any commit held it, from the snapshot of the same bytes."""
    for edit in edits:
        if not edit.mode or objects.has(edit.blob):
            continue
        place = snapshot / edit.path
        if not place.is_file() or place.is_symlink() or objects.write_file(place) != edit.blob:
            why = f"git does not have the content of {quote_path(edit.path)} any more: somebody pruned it"
            raise Rejected("skipped", "interrupted", why)
