"""The landing: the one place where tip, branch, ledger and standing of a climb are read and moved.

The record is written first, then tip and branch move. The next start completes a move that a kill cut off; a ref that
somebody else moved is refused, never overwritten.
"""

from goalseek.errors import GoalseekError
from goalseek.git.repository import RefMove, RefMoved, Refs, candidate_commits, commit_lines, ref_moved_error
from goalseek.ledger import artifacts
from goalseek.ledger.checkpoints import Begun, Flight, key_of
from goalseek.ledger.ledger import AnyRecord
from goalseek.project import tries
from goalseek.project.project import Project
from goalseek.records import IterationRecord
from goalseek.values import StopReason


def flight_of(project: Project) -> Flight:
    return Flight(project.loaded.runs, project.ledger.seal, project.run_id)


def in_flight(project: Project) -> list[Begun]:
    """The iterations that a killed queue of several left, oldest first, with candidates that have no checkpoint.

    Without the candidate of the next iteration alone, on the present tip: a queue of one leaves that, and resumes it.
    """
    flight, standing = flight_of(project), project.standing
    begun = {one.iteration: one for one in flight.begun()}
    candidates = project.repository.flight()
    numbers = sorted({*begun, *candidates})
    if numbers == [standing.next_iteration] and not flight.numbers():
        first = project.repository.load_commit(candidates[numbers[0]][0])
        numbers = [] if first.parents == (standing.tip,) else numbers
    return [begun.get(number, Begun(number, standing.seq, standing.last_seal)) for number in numbers]


def append(project: Project, record: AnyRecord, ruler: str | None = None) -> AnyRecord:
    ledger = project.ledger
    ledger.mended = ""
    sealed = ledger.append(record, ruler)
    if ledger.mended:
        project.watch.on_note(ledger.mended)
    return sealed


def follow(project: Project) -> None:
    """Move tip and branch to the last record, and end its try.

    The next start completes or reports a move that this could not make.
    """
    refs, loaded = project.repository.refs(), project.loaded
    _refuse_moved_tip(project, refs)
    _move_refs(project, refs)
    tries.end_try(project.repository, _last_record(project))
    _write_git_after(project)
    artifacts.prune_artifacts(loaded.runs, loaded.manifest.log, project.standing, project.ledger.history)


def catch_up(project: Project) -> None:
    """Move refs that a kill left behind the last record, and make a deleted branch again.

    Raises GoalseekError if somebody moved a ref, or, before the first baseline, if the branch is taken or is that of a
    climb whose records are missing, as in a clone.
    """
    repository, standing, loaded, history = project.repository, project.standing, project.loaded, project.ledger.history
    refs = repository.refs()
    if standing.last is None:
        _refuse_foreign_branch(project, refs)
        branch = repository.branch
        if refs.branch and not (refs.branch_is_checked_out or repository.is_ancestor(refs.branch, repository.head())):
            message = f"the branch {branch} exists, but not the records of its climb, {repository.ledger_ref}"
            fetch_hint = "fetch them: git fetch origin 'refs/goalseek/*:refs/goalseek/*'"
            hint = f"{fetch_hint}; or begin another climb: git branch -m {branch} {repository.name}-before"
            raise GoalseekError(message, hint, StopReason.REPOSITORY)
        return
    candidates: tuple[str, ...] = ()
    if refs.tip and refs.tip != standing.tip:
        # An earlier version left a candidate on the tip; it gets refs of its own.
        number = standing.next_iteration
        candidates = candidate_commits(repository.load_commit, refs.tip, standing.tip, repository.name, number)
        for attempt, commit in enumerate(candidates, 1):
            repository.add_flight(number, attempt, commit)
    if not candidates:
        _refuse_moved_tip(project, refs)
    _move_refs(project, refs)
    tries.end_try(repository, standing.last)
    # What is recorded is under way no more, nor is a proposal to a run that was given up.
    flight, going_on = flight_of(project), {begun.iteration for begun in in_flight(project)}
    for number in going_on | flight.numbers():
        is_recorded = history.iteration(number) is not None
        if is_recorded:
            repository.remove_flight(number)
        if is_recorded or number not in going_on:
            flight.remove(number)
    folder = project.run_folder(standing.last.iteration)
    is_finished = (folder / "git_after.txt").exists()  # the last to be written: the others may be missing or torn
    if folder.is_dir() and not is_finished and artifacts.is_run_folder(folder):
        artifacts.write_summary(folder, standing.last)
        _write_git_after(project)
    artifacts.prune_outputs(artifacts.run_folders(loaded.runs), loaded.manifest.log, standing, history)


def _last_record(project: Project) -> IterationRecord:
    assert project.standing.last is not None
    return project.standing.last


def _move_refs(project: Project, refs: Refs) -> None:
    repository, tip = project.repository, project.standing.tip
    moves = []
    if refs.tip != tip:
        moves.append(RefMove(repository.tip_ref, refs.tip, tip))
    if refs.branch != tip and not refs.branch_is_checked_out:  # else that checkout would look edited
        _refuse_moved_branch(project, refs)
        if refs.branch is None:
            repository.note_branch()
        moves.append(RefMove(repository.branch_ref, refs.branch, tip))
    try:
        repository.move(moves)
    except RefMoved:
        failed_move = next((move for move in moves if repository.resolve(move.ref) != move.before), moves[0])
        raise ref_moved_error(failed_move.ref, tip, repository.resolve(failed_move.ref)) from None


def _write_git_after(project: Project) -> None:
    tip, repository = project.standing.tip, project.repository
    folder = project.run_folder(_last_record(project).iteration)
    if folder.is_dir():
        commits = commit_lines(repository, tip, 3)
        artifacts.write_git_state(folder / "git_after.txt", (tip, project.ledger.head, tip), repository.branch, commits)


def _refuse_moved_tip(project: Project, refs: Refs) -> None:
    """Raises GoalseekError unless the tip is a commit of the last record."""
    last, tip = _last_record(project), project.standing.tip
    if refs.tip is None and last.iteration == 0:
        return
    if refs.tip is None or refs.tip not in (tip, last.commit_hash, last.parent_commit_hash):
        raise ref_moved_error(project.repository.tip_ref, tip, refs.tip)


def _refuse_moved_branch(project: Project, refs: Refs) -> None:
    """Raises GoalseekError unless the branch is at a commit of the climb."""
    last, tip, repository = _last_record(project), project.standing.tip, project.repository
    _refuse_foreign_branch(project, refs)
    if refs.branch is None:
        # The first baseline makes it, and a climb fetched from elsewhere has none.
        if last.iteration > 0 and key_of(last.seal) == project.ledger.seal.key:
            project.watch.on_note(f"the branch {repository.branch} was missing; goalseek made it at {tip[:12]}")
        return
    if refs.branch in (last.parent_commit_hash, last.commit_hash):
        return
    if not repository.is_ancestor(refs.branch, tip):
        raise ref_moved_error(repository.branch_ref, tip, refs.branch)


def _refuse_foreign_branch(project: Project, refs: Refs) -> None:
    if refs.branch and not project.repository.is_own_branch():
        message = f"the branch {project.repository.branch} exists already, and goalseek did not make it"
        raise GoalseekError(message, "choose another log.branch_prefix", StopReason.REPOSITORY)
