"""To be written."""

from __future__ import annotations

from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError
from goalseek.git.commits import commit_lines, make_roll_back_again
from goalseek.git.repository import RefMove, RefMoved, Refs, Repository, moved_by_somebody
from goalseek.ledger.artifacts import is_ours, keep_few, keep_few_at_start, write_for_people, write_git_state
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.seal import key_of
from goalseek.ledger.standing import Standing
from goalseek.own_folders import clear
from goalseek.phase_values import Candidate
from goalseek.project.project import Project


def update_refs(project: Project) -> None:
    """Brings tip and branch to what the last record says; doing so again is harmless."""
    standing, repository = project.standing, project.repository
    if standing.last is None:
        return
    refs = repository.refs()
    _refuse_moved_tip(project, refs)
    _move_refs(project, refs)
    _show_refs(project, refs, project.loaded.runs / f"{standing.last.iteration:04d}")
    keep_few(project.loaded.runs, project.loaded.manifest.log, standing)
    project.watch.on_record(standing.last)


def check_refs(project: Project) -> None:
    """Finishes what a kill left between the record and the refs, and makes a branch again that somebody deleted.

    Raises GoalseekError where somebody moved a ref, and where a first baseline would find the branch taken.
    """
    standing, repository = project.standing, project.repository
    refs = repository.refs()
    if standing.last is None:
        _refuse_branch_without_records(project, refs)
        return
    refs = _without_lost_tip(project, refs)
    is_ahead = refs.tip is not None and is_next_candidate(repository, standing, refs.tip)
    if not is_ahead:
        _refuse_moved_tip(project, refs)
    _move_refs(project, refs, is_ahead)
    folder = project.loaded.runs / f"{standing.last.iteration:04d}"
    is_finished = (folder / "git_after.txt").exists()  # the last to be written: the others may be missing or torn
    if folder.is_dir() and not is_finished and is_ours(folder):
        write_for_people(folder, standing.last)
        _show_refs(project, refs, folder)
    keep_few_at_start(project.loaded.runs, project.loaded.manifest.log, standing, project.ledger.history)


def _without_lost_tip(project: Project, refs: Refs) -> Refs:
    """Sets the tip back where git lost the candidate that it was at: from what is stored it is committed once more."""
    standing, repository = project.standing, project.repository
    if refs.tip in (None, standing.tip) or repository.objects.has(refs.tip):
        return refs
    for path in (project.loaded.runs / f"{standing.last_iteration + 1:04d}").glob("candidate*.json"):
        clear(path)
    repository.move([RefMove(repository.tip_ref, refs.tip, standing.tip)])
    return repository.refs()


def _move_refs(project: Project, refs: Refs, is_tip_ahead: bool = False) -> None:
    """Moves tip and branch to where the records say, together. A branch that is checked out is left alone."""
    standing, repository = project.standing, project.repository
    assert standing.last is not None
    moves = []
    if refs.tip != standing.tip and not is_tip_ahead:
        _make_revert_again(repository, standing.last)
        moves.append(RefMove(repository.tip_ref, refs.tip, standing.tip))
    if refs.branch != standing.tip and not refs.branch_is_checked_out:
        _refuse_moved_branch(project, refs)
        moves.append(RefMove(repository.branch_ref, refs.branch, standing.tip))
    try:
        repository.move(moves)
    except RefMoved:
        moved = next((move for move in moves if repository.resolve(move.ref) != move.before), moves[0])
        raise moved_by_somebody(moved.ref, standing.tip, repository.resolve(moved.ref)) from None


def _make_revert_again(repository: Repository, record: IterationRecord) -> None:
    if record.rollback_commit_hash is None:
        return
    assert record.commit_hash and record.tree_hash and record.parent_commit_hash
    earlier = record.earlier_commits
    candidate = Candidate(record.commit_hash, record.tree_hash, record.parent_commit_hash, earlier)
    make_roll_back_again(repository, candidate, record.rollback_commit_hash)


def _refuse_moved_tip(project: Project, refs: Refs) -> None:
    """Raises GoalseekError where the tip is at no commit that the last record put there or found there."""
    standing, last = project.standing, project.standing.last
    assert last is not None
    if refs.tip is None and last.iteration == 0:
        return
    if refs.tip is None or refs.tip not in (standing.tip, last.commit_hash, last.parent_commit_hash):
        raise moved_by_somebody(project.repository.tip_ref, standing.tip, refs.tip)


def _show_refs(project: Project, refs: Refs, folder: Path) -> None:
    """``git_after.txt``, where the run folder is there."""
    tip, repository = project.standing.tip, project.repository
    if folder.is_dir():
        after = Refs(tip, project.ledger.head, tip, refs.branch_is_checked_out)
        write_git_state(folder / "git_after.txt", after, repository.branch, commit_lines(repository, tip, 3))


def _refuse_moved_branch(project: Project, refs: Refs) -> None:
    """Raises GoalseekError where the branch is at no commit of ours."""
    standing, repository = project.standing, project.repository
    last = standing.last
    assert last is not None
    if refs.branch is None:
        # A first baseline makes it, and what was climbed elsewhere and fetched was without it.
        if last.iteration > 0 and key_of(last.seal) == project.seal.key:
            project.watch.on_note(
                f"the branch {repository.branch} was deleted; it shows the tip again, {standing.tip[:12]}"
            )
        return
    if refs.branch in (last.parent_commit_hash, last.commit_hash):
        return
    if not repository.is_ancestor(refs.branch, standing.tip):
        raise moved_by_somebody(repository.branch_ref, standing.tip, refs.branch)


def _refuse_branch_without_records(project: Project, refs: Refs) -> None:
    """Raises GoalseekError where the branch shows another climb, whose records are not here: one in a clone, say."""
    repository = project.repository
    if refs.branch is None or refs.branch_is_checked_out or repository.is_ancestor(refs.branch, repository.head()):
        return
    message = f"the branch {repository.branch} is here, but not the records of its climb, {repository.ledger_ref}"
    fetched = "fetch them: git fetch origin 'refs/goalseek/*:refs/goalseek/*'"
    hint = f"{fetched}; or begin another climb: git branch -m {repository.branch} {repository.name}-before"
    raise GoalseekError(message, hint, UNFIT, "repository")


def is_next_candidate(repository: Repository, standing: Standing, commit: str) -> bool:
    """Whether a commit is the candidate of the iteration that was under way."""
    return bool(candidate_commits(repository, standing, commit))


def candidate_commits(repository: Repository, standing: Standing, commit: str) -> tuple[str, ...]:
    """The commits of the iteration that was under way, oldest first, up to this one; none where it is another's."""
    trailer = f"Goalseek-Iteration: {standing.last_iteration + 1}\n".encode()
    found = [commit]
    while True:
        head, _, message = repository.objects.read(found[0]).partition(b"\n\n")
        parents = [line.removeprefix(b"parent ") for line in head.split(b"\n") if line.startswith(b"parent ")]
        if trailer not in message or len(parents) != 1:
            return ()
        parent = parents[0].decode()
        if parent == standing.tip:
            return tuple(found)
        found.insert(0, parent)


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
