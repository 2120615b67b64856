"""The climb's refs, tip and branch: they follow the last record.

The record is written first. A kill before the refs have moved is made good at the next start; a ref that somebody else
moved is refused, never overwritten.
"""

from __future__ import annotations

from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.git.commits import candidate_commits, commit_lines, restore_roll_back
from goalseek.git.repository import RefMove, RefMoved, Refs, Repository, ref_moved_error
from goalseek.ledger.artifacts import is_run_folder, prune_artifacts, prune_outputs, write_git_state, write_summary
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.seal import key_of
from goalseek.ledger.standing import Standing
from goalseek.own_folders import remove_if_exists
from goalseek.phase_values import Candidate
from goalseek.project.project import Project
from goalseek.values import StopReason


def update_refs(project: Project) -> None:
    """Moves tip and branch to where the last record says; doing so again is harmless."""
    standing, repository = project.standing, project.repository
    if standing.last is None:
        return
    refs = repository.refs()
    _refuse_moved_tip(project, refs)
    _move_refs(project, refs)
    _write_git_after(project, refs, project.loaded.runs / f"{standing.last.iteration:04d}")
    prune_artifacts(project.loaded.runs, project.loaded.manifest.log, standing)
    project.watch.on_record(standing.last)


def check_refs(project: Project) -> None:
    """Moves the refs that a kill left behind the last record, and makes a deleted branch again.

    Raises GoalseekError where somebody moved a ref, and where a first baseline would find the branch taken.
    """
    standing, repository = project.standing, project.repository
    refs = repository.refs()
    if standing.last is None:
        _refuse_branch_without_records(project, refs)
        return
    refs = _restore_lost_tip(project, refs)
    is_ahead = bool(refs.tip and unfinished_commits(repository, standing, refs.tip))
    if not is_ahead:
        _refuse_moved_tip(project, refs)
    _move_refs(project, refs, is_ahead)
    folder = project.loaded.runs / f"{standing.last.iteration:04d}"
    is_finished = (folder / "git_after.txt").exists()  # the last to be written: the others may be missing or torn
    if folder.is_dir() and not is_finished and is_run_folder(folder):
        write_summary(folder, standing.last)
        _write_git_after(project, refs, folder)
    prune_outputs(project.loaded.runs, project.loaded.manifest.log, standing, project.ledger.history)


def _restore_lost_tip(project: Project, refs: Refs) -> Refs:
    """Moves the tip back where git has lost the candidate's commit, which is then made again from its checkpoints."""
    standing, repository = project.standing, project.repository
    if refs.tip in (None, standing.tip) or repository.objects.has(refs.tip):
        return refs
    for path in (project.loaded.runs / f"{standing.next_iteration:04d}").glob("candidate*.json"):
        remove_if_exists(path)
    repository.move([RefMove(repository.tip_ref, refs.tip, standing.tip)])
    return repository.refs()


def _move_refs(project: Project, refs: Refs, is_tip_ahead: bool = False) -> None:
    """Moves tip and branch together to where the records say; a branch that is checked out stays where it is."""
    standing, repository = project.standing, project.repository
    assert standing.last is not None
    moves = []
    if refs.tip != standing.tip and not is_tip_ahead:
        _recreate_revert(repository, standing.last)
        moves.append(RefMove(repository.tip_ref, refs.tip, standing.tip))
    if refs.branch != standing.tip and not refs.branch_is_checked_out:
        _refuse_moved_branch(project, refs)
        moves.append(RefMove(repository.branch_ref, refs.branch, standing.tip))
    try:
        repository.move(moves)
    except RefMoved:
        failed_move = next((move for move in moves if repository.resolve(move.ref) != move.before), moves[0])
        raise ref_moved_error(failed_move.ref, standing.tip, repository.resolve(failed_move.ref)) from None


def _recreate_revert(repository: Repository, record: IterationRecord) -> None:
    if record.rollback_commit_hash is None:
        return
    assert record.commit_hash and record.tree_hash and record.parent_commit_hash
    earlier = record.earlier_commits
    candidate = Candidate(record.commit_hash, record.tree_hash, record.parent_commit_hash, earlier)
    restore_roll_back(repository, candidate, record.rollback_commit_hash)


def _refuse_moved_tip(project: Project, refs: Refs) -> None:
    """Raises GoalseekError where the tip is at no commit that the last record put there or found there."""
    standing, last = project.standing, project.standing.last
    assert last is not None
    if refs.tip is None and last.iteration == 0:
        return
    if refs.tip is None or refs.tip not in (standing.tip, last.commit_hash, last.parent_commit_hash):
        raise ref_moved_error(project.repository.tip_ref, standing.tip, refs.tip)


def _write_git_after(project: Project, refs: Refs, folder: Path) -> None:
    """Writes ``git_after.txt``, where the run folder exists."""
    tip, repository = project.standing.tip, project.repository
    if folder.is_dir():
        refs_after = Refs(tip, project.ledger.head, tip, refs.branch_is_checked_out)
        write_git_state(folder / "git_after.txt", refs_after, repository.branch, commit_lines(repository, tip, 3))


def _refuse_moved_branch(project: Project, refs: Refs) -> None:
    """Raises GoalseekError where the branch is at no commit of ours."""
    standing, repository = project.standing, project.repository
    last = standing.last
    assert last is not None
    if refs.branch is None:
        # A first baseline makes it, and what was climbed elsewhere and fetched was without it.
        if last.iteration > 0 and key_of(last.seal) == project.ledger.seal.key:
            project.watch.on_note(
                f"the branch {repository.branch} was deleted; it shows the tip again, {standing.tip[:12]}"
            )
        return
    if refs.branch in (last.parent_commit_hash, last.commit_hash):
        return
    if not repository.is_ancestor(refs.branch, standing.tip):
        raise ref_moved_error(repository.branch_ref, standing.tip, refs.branch)


def _refuse_branch_without_records(project: Project, refs: Refs) -> None:
    """Raises GoalseekError where the branch is of another climb whose records are not here: in a clone, say."""
    repository = project.repository
    if refs.branch is None or refs.branch_is_checked_out or repository.is_ancestor(refs.branch, repository.head()):
        return
    message = f"the branch {repository.branch} is here, but not the records of its climb, {repository.ledger_ref}"
    fetch_hint = "fetch them: git fetch origin 'refs/goalseek/*:refs/goalseek/*'"
    hint = f"{fetch_hint}; or begin another climb: git branch -m {repository.branch} {repository.name}-before"
    raise GoalseekError(message, hint, StopReason.REPOSITORY)


def unfinished_commits(repository: Repository, standing: Standing, commit: str) -> tuple[str, ...]:
    """The commits of the iteration that was under way, oldest first, up to this one; none where it is another's."""
    return candidate_commits(repository.load_commit, commit, standing.tip, repository.name, standing.next_iteration)


def move_tip(repository: Repository, before: str | None, after: str) -> None:
    """Moves the tip from ``before`` to ``after``. Raises GoalseekError where it is at neither."""
    if before == after:
        return
    try:
        repository.move([RefMove(repository.tip_ref, before, after)])
    except RefMoved:
        tip = repository.refs().tip
        if tip != after:
            raise ref_moved_error(repository.tip_ref, before or "nothing", tip) from None
