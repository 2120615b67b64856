"""COMMIT: the change becomes the candidate's commit on top of the incumbent, and stays reachable for ever."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from goalseek.errors import Rejected
from goalseek.git.commits import candidate_message
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
    """Makes the candidate's commit and moves the tip to it. Its parent is the last of ``earlier``, the commits of the
    attempts before it in this iteration, or the tip.

    ``snapshot`` has the changed files. Raises Rejected for a tree that was already measured under this ruler, for an
    object that was pruned, and for a file that the manifest no longer lets it change; GoalseekError where somebody
    moved the tip.
    """
    standing, repository, scope = project.standing, project.repository, config.scope
    assert standing.incumbent
    objects = repository.objects
    restore_blobs(objects, change.edits, snapshot)
    edits = entries_by_path(change.edits)
    tree = objects.splice(standing.incumbent.tree, edits)
    changed = [difference.path for difference in objects.differences(standing.incumbent.tree, tree)]
    assert edits.keys() >= set(changed), f"not the candidate's: {changed}"
    if not_writable := [quote_path(path) for path in changed if scope.kind(path) != "writable"]:
        reason = f"{abbreviate(not_writable)} is not the candidate's to edit any more"
        why = f"the manifest has changed since it was proposed: {reason}"
        raise Rejected("skipped", "out_of_scope", why)
    duplicate = project.measured.iteration(standing.ruler, tree)
    if duplicate is not None:
        raise Rejected("skipped", "duplicate", f"the same tree was measured in iteration {duplicate}")
    provider = change.provider or project.provider().name
    title = f"{change.title} (try {len(earlier) + 1})" if earlier else change.title
    message = candidate_message(title, repository.name, project.run_id, context.iteration, provider)
    parent = earlier[-1] if earlier else standing.tip
    commit_hash = repository.commit(tree, (parent,), message, context.moment)
    move_tip(repository, parent, commit_hash)
    return Candidate(commit_hash, tree, standing.tip, earlier)


def entries_by_path(edits: Iterable[Edit]) -> dict[str, Entry | None]:
    """The tree entries of edits by path; None for a deleted file."""
    return {edit.path: Entry(edit.mode, edit.blob) if edit.mode else None for edit in edits}


def restore_blobs(objects: Objects, edits: Iterable[Edit], snapshot: Path) -> None:
    """Writes blobs again from the snapshot that ``git gc --prune=now`` removed. Raises Rejected where it has others."""
    for edit in edits:
        if not edit.mode or objects.has(edit.blob):
            continue
        file = snapshot / edit.path
        if not file.is_file() or file.is_symlink() or objects.write_file(file) != edit.blob:
            why = f"git does not have the content of {quote_path(edit.path)} any more: somebody pruned it"
            raise Rejected("skipped", "interrupted", why)
