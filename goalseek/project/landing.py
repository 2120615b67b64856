"""The landing: the one place where tip, branch, ledger and standing of a climb are read and moved.

The record is written first, and tip and branch follow it. A kill before they have moved is made good at the next start;
a ref that somebody else moved is refused, never overwritten.
"""

from __future__ import annotations

from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.git.repository import RefMove, RefMoved, Refs, candidate_commits, commit_lines, ref_moved_error
from goalseek.ledger.artifacts import (
    is_run_folder,
    prune_artifacts,
    prune_outputs,
    run_folders,
    write_git_state,
    write_summary,
)
from goalseek.ledger.checkpoints import Begun, Flight, key_of
from goalseek.ledger.ledger import AnyRecord
from goalseek.ledger.standing import Standing
from goalseek.project.project import Project
from goalseek.records import IterationRecord
from goalseek.values import StopReason


def flight_of(project: Project) -> Flight:
    """What is stored of iterations that are under way beside each other."""
    return Flight(project.loaded.runs, project.ledger.seal, project.run_id)


def in_flight(project: Project) -> list[Begun]:
    """Those that a kill has left of several at once, oldest first.

    Also candidates of which nothing else is stored, of another run say. The candidate of the next iteration alone, on
    the tip of now, is what one at a time leaves, which is in its place already.
    """
    flight, standing = flight_of(project), project.standing
    begun = {one.iteration: one for one in flight.begun()}
    candidates = project.repository.flight()
    numbers = sorted({*begun, *candidates})
    if numbers == [standing.next_iteration] and not flight.numbers():
        first = project.repository.load_commit(candidates[numbers[0]][0])
        numbers = [] if first.parents == (standing.tip,) else numbers
    return [begun.get(number, Begun(number, standing.seq, standing.last_seal)) for number in numbers]


class Landing:
    """Appends records to the ledger, and moves tip and branch to where the last record of an iteration says."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._repository = project.repository
        self._loaded = project.loaded

    @property
    def _standing(self) -> Standing:
        return self._project.standing

    def append(self, record: AnyRecord, ruler: str | None = None) -> AnyRecord:
        """Commits a record to the ledger and gives it as written; see ``Ledger.append``."""
        ledger = self._project.ledger
        ledger.mended = ""
        sealed = ledger.append(record, ruler)
        if ledger.mended:
            self._project.watch.on_note(ledger.mended)
        return sealed

    def follow(self) -> None:
        """Moves tip and branch to where the record of an iteration that was just appended says.

        Where somebody moved them, or a kill comes before this, the next start says so or makes it good.
        """
        refs = self._repository.refs()
        self._refuse_moved_tip(refs)
        self._move_refs(refs)
        self._write_git_after(refs)
        history = self._project.ledger.history
        prune_artifacts(self._loaded.runs, self._loaded.manifest.log, self._standing, history)

    def catch_up(self) -> None:
        """Moves the refs that a kill left behind the last record, and makes a deleted branch again.

        Raises GoalseekError where somebody moved a ref, and where a first baseline would find the branch taken.
        """
        refs = self._repository.refs()
        if self._standing.last is None:
            self._refuse_branch_without_records(refs)
            return
        if not self._take_candidate_from(refs.tip):
            self._refuse_moved_tip(refs)
        self._move_refs(refs)
        self._forget_flights()
        folder = self._run_folder
        is_finished = (folder / "git_after.txt").exists()  # the last to be written: the others may be missing or torn
        if folder.is_dir() and not is_finished and is_run_folder(folder):
            write_summary(folder, self._last)
            self._write_git_after(refs)
        history = self._project.ledger.history
        prune_outputs(run_folders(self._loaded.runs), self._loaded.manifest.log, self._standing, history)

    def _take_candidate_from(self, tip: str | None) -> bool:
        """Puts a candidate that an earlier version left on the tip under refs of its own; whether there is one."""
        standing, repository = self._standing, self._repository
        if tip is None or tip == standing.tip:
            return False
        number = standing.next_iteration
        commits = candidate_commits(repository.load_commit, tip, standing.tip, repository.name, number)
        for attempt, commit in enumerate(commits, 1):
            repository.add_flight(number, attempt, commit)
        return bool(commits)

    def _forget_flights(self) -> None:
        """Forgets of the iterations beside each other those that are recorded, and proposals to a run given up."""
        project, flight = self._project, flight_of(self._project)
        going_on = {begun.iteration for begun in in_flight(project)}
        for number in going_on | flight.numbers():
            is_recorded = project.ledger.history.iteration(number) is not None
            if is_recorded:
                self._repository.remove_flight(number)
            if is_recorded or number not in going_on:
                flight.remove(number)

    @property
    def _last(self) -> IterationRecord:
        assert self._standing.last is not None
        return self._standing.last

    @property
    def _run_folder(self) -> Path:
        return self._project.run_folder(self._last.iteration)

    def _move_refs(self, refs: Refs) -> None:
        """Moves tip and branch together to where the records say; a branch that is checked out stays where it is."""
        repository, tip = self._repository, self._standing.tip
        moves = []
        if refs.tip != tip:
            moves.append(RefMove(repository.tip_ref, refs.tip, tip))
        if refs.branch != tip and not refs.branch_is_checked_out:
            self._refuse_moved_branch(refs)
            if refs.branch is None:
                repository.note_branch()
            moves.append(RefMove(repository.branch_ref, refs.branch, tip))
        try:
            repository.move(moves)
        except RefMoved:
            failed_move = next((move for move in moves if repository.resolve(move.ref) != move.before), moves[0])
            raise ref_moved_error(failed_move.ref, tip, repository.resolve(failed_move.ref)) from None

    def _write_git_after(self, refs: Refs) -> None:
        """Writes ``git_after.txt``, where the run folder exists."""
        tip, repository, folder = self._standing.tip, self._repository, self._run_folder
        if folder.is_dir():
            refs_after = Refs(tip, self._project.ledger.head, tip, refs.branch_is_checked_out)
            write_git_state(folder / "git_after.txt", refs_after, repository.branch, commit_lines(repository, tip, 3))

    def _refuse_moved_tip(self, refs: Refs) -> None:
        """Raises GoalseekError where the tip is at no commit that the last record put there or found there."""
        last, tip = self._last, self._standing.tip
        if refs.tip is None and last.iteration == 0:
            return
        if refs.tip is None or refs.tip not in (tip, last.commit_hash, last.parent_commit_hash):
            raise ref_moved_error(self._repository.tip_ref, tip, refs.tip)

    def _refuse_moved_branch(self, refs: Refs) -> None:
        """Raises GoalseekError where the branch is at no commit of ours."""
        last, tip, branch = self._last, self._standing.tip, self._repository.branch
        self._refuse_foreign_branch(refs)
        if refs.branch is None:
            # A first baseline makes it, and what was climbed elsewhere and fetched was without it.
            if last.iteration > 0 and key_of(last.seal) == self._project.ledger.seal.key:
                self._project.watch.on_note(f"there was no branch {branch}; it shows the tip again, {tip[:12]}")
            return
        if refs.branch in (last.parent_commit_hash, last.commit_hash):
            return
        if not self._repository.is_ancestor(refs.branch, tip):
            raise ref_moved_error(self._repository.branch_ref, tip, refs.branch)

    def _refuse_foreign_branch(self, refs: Refs) -> None:
        """Raises GoalseekError where somebody else made the branch that ``log.branch_prefix`` names."""
        branch = self._repository.branch
        if refs.branch and not self._repository.is_own_branch():
            message = f"the branch {branch} is there already, and goalseek did not make it"
            raise GoalseekError(message, "name another log.branch_prefix", StopReason.REPOSITORY)

    def _refuse_branch_without_records(self, refs: Refs) -> None:
        """Raises GoalseekError where the branch is of another climb whose records are not here: in a clone, say."""
        repository, branch = self._repository, self._repository.branch
        self._refuse_foreign_branch(refs)
        if refs.branch is None or refs.branch_is_checked_out:
            return
        if repository.is_ancestor(refs.branch, repository.head()):
            return
        message = f"the branch {branch} is here, but not the records of its climb, {repository.ledger_ref}"
        fetch_hint = "fetch them: git fetch origin 'refs/goalseek/*:refs/goalseek/*'"
        hint = f"{fetch_hint}; or begin another climb: git branch -m {branch} {repository.name}-before"
        raise GoalseekError(message, hint, StopReason.REPOSITORY)
