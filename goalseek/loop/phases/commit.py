"""COMMIT: the change becomes the candidate's commit on top of the incumbent, and stays reachable for ever."""

from collections.abc import Iterable, Mapping

from goalseek.errors import Rejected
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import quote_path
from goalseek.git.repository import candidate_message
from goalseek.humanize import abbreviate
from goalseek.ledger.artifacts import publish_candidate
from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.iteration import Iteration
from goalseek.phase_values import Candidate, Change, Edit
from goalseek.values import Outcome, Reason
from goalseek.workspace.scope import Scope


def commit(iteration: Iteration, attempt: OpenAttempt, change: Change) -> Candidate:
    """The candidate's commit, on top of the attempt before or the tip.

    Raises Rejected for a tree that was or is being measured under this ruler, a pruned object, and a file that is no
    longer writable; GoalseekError if somebody moved the tip.
    """
    project, standing = iteration.project, iteration.standing
    repository, objects = project.repository, project.repository.objects
    attempt_folder = attempt.folder_in(iteration.folder)
    refuse_missing(objects, change.edits)
    edits = entries_by_path(change.edits)
    tree = objects.splice(iteration.incumbent.tree, edits)
    changed = objects.changed_paths(iteration.incumbent.tree, tree)
    assert edits.keys() >= set(changed), f"not the candidate's: {changed}"
    refuse_fixed(iteration.config.scope, changed, "the manifest has changed since it was proposed: ")
    duplicate = project.ledger.history.measured_in(standing.ruler, tree)
    if duplicate is not None:
        raise Rejected(Outcome.SKIPPED, Reason.DUPLICATE, f"the same tree was measured in iteration {duplicate}")
    for other, commits in repository.flight().items():
        if other != iteration.number and repository.tree_of(commits[-1]) == tree:
            raise Rejected(Outcome.SKIPPED, Reason.DUPLICATE, f"the same tree is being measured in iteration {other}")
    title = f"{change.title} (try {len(attempt.commits) + 1})" if attempt.commits else change.title
    author, _ = iteration.author_of(change)
    message = candidate_message(title, repository.name, project.run_id, iteration.number, author)
    parent = attempt.commits[-1] if attempt.commits else standing.tip
    commit_hash = objects.write_commit(tree, (parent,), message, iteration.context.moment)
    repository.add_flight(iteration.number, attempt.number, commit_hash)
    if attempt.last_committed:
        publish_candidate(iteration.folder, attempt_folder, attempt.last_committed)
    return Candidate(commit_hash, tree, standing.tip, attempt.commits)


def edits_of(entries: Mapping[str, Entry | None]) -> tuple[Edit, ...]:
    """The edits that put these entries at their paths; None deletes a file."""
    rows = sorted(entries.items())
    return tuple(Edit(path, entry.mode if entry else "", entry.blob if entry else "") for path, entry in rows)


def entries_by_path(edits: Iterable[Edit]) -> dict[str, Entry | None]:
    return {edit.path: Entry(edit.mode, edit.blob) if edit.mode else None for edit in edits}


def refuse_fixed(scope: Scope, paths: Iterable[str], since: str = "") -> None:
    if fixed := [quote_path(path) for path in paths if scope.kind(path) != "writable"]:
        raise Rejected(Outcome.SKIPPED, Reason.OUT_OF_SCOPE, f"{since}{abbreviate(fixed)} is no longer writable")


def refuse_missing(objects: Objects, edits: Iterable[Edit]) -> None:
    for edit in edits:
        if edit.mode and not objects.has(edit.blob):
            why = f"git does not have the content of {quote_path(edit.path)} any more: somebody pruned it"
            raise Rejected(Outcome.SKIPPED, Reason.INTERRUPTED, why)
