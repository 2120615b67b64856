"""The end of an iteration: the ledger's commit makes it count, then refs and trees are brought to what it says."""

from __future__ import annotations

from pathlib import Path

from goalseek import __version__, sandbox
from goalseek.desk import Desk
from goalseek.manifest_file import ignore_home
from goalseek.memory import Memory
from goalseek.phases.log import Outcome, build_record, write_for_people
from goalseek.phases.read_context import commit_lines, write_git_state
from goalseek.plain import to_plain
from goalseek.records import Isolation, IterationRecord, RunRecord
from goalseek.repository import RefMove, RefMoved, Refs, Repository, moved_by_somebody
from goalseek.ruler import Ruler
from goalseek.run import Run, Setting
from goalseek.standing import Standing
from goalseek.state import Moment, utc_now, write_state

_LONG_PHASES = ("PLAN", "APPLY_CHANGE", "VERIFY")


def desk_for(run: Run, number: int, most: int | None, made_from: str = "") -> tuple[Desk, Path]:
    """The desk of an iteration, and its run folder. Answers that were made from something else are not taken up."""
    folder = run.loaded.runs / f"{number:04d}"
    ignore_home(run.loaded)
    folder.mkdir(parents=True, exist_ok=True)
    follows = run.standing.last.seal if run.standing.last else ""
    memory = Memory(folder, run.seal, run.run_id, follows)

    def on_phase(name: str) -> None:
        run.last_phase = name
        run.watch.phase(number, name)
        if name in _LONG_PHASES:
            tell(run, "running", number, name)

    return Desk(memory, f"iteration {number} {made_from}".rstrip(), on_phase, most), folder


def record_iteration(
    run: Run, setting: Setting, desk: Desk, outcome: Outcome, folder: Path, ruler: Ruler | None = None
) -> IterationRecord:
    """LOG: builds the record once, commits it to the ledger, and writes it for people."""
    standing = run.standing
    digest = ruler.digest if ruler else standing.ruler
    provider = run.provider() if outcome.plan or outcome.verdict.outcome != "baseline" else None
    record = desk.do(
        "LOG",
        "record",
        IterationRecord,
        lambda: build_record(
            setting.manifest,
            standing,
            outcome,
            run_id=run.run_id,
            epoch=standing.epoch + 1 if ruler else standing.epoch,
            timestamp=run.ledger.now(),
            provider=provider.name if provider else "",
            model=provider.model if provider else "",
            seconds=dict(desk.seconds),
            isolation=Isolation(sandbox.LEVEL, weakest(setting)),
            digests={"ruler": digest},
            run_dir=f"runs/{folder.name}",
            notes=setting.notes,
        ),
    )
    _begin_run(run, setting, digest)
    candidate = record.commit_hash
    sealed = run.ledger.append(record, candidate, ruler.to_json() if ruler else None)
    write_for_people(folder, sealed)
    run.remember(sealed)
    return sealed


def weakest(setting: Setting) -> str:
    """How the least separated verify command sees the candidate."""
    seen = [command.sees for command in setting.manifest.verify]
    return "both" if "both" in seen else str(seen[-1])


def land(run: Run) -> None:
    """Brings tip and branch to what the last record says; doing so again is harmless."""
    standing, repository = run.standing, run.repository
    if standing.last is None:
        return
    refs = repository.refs()
    _land_refs(run, refs)
    _write_git_after(run, refs)
    run.watch.recorded(standing.last)


def check_refs(run: Run) -> None:
    """Finishes what a kill left undone after the record. Raises GoalseekError where somebody moved a ref."""
    standing, repository = run.standing, run.repository
    if standing.last is None:
        return
    refs = repository.refs()
    last = standing.last
    own = {standing.tip, last.commit_hash, last.parent_commit_hash}
    if refs.tip not in own and not (refs.tip and _is_next_candidate(repository, standing, refs.tip)):
        raise moved_by_somebody(repository.tip_ref, standing.tip, refs.tip)
    _land_refs(run, refs, is_tip_ahead=refs.tip not in own)
    folder = _folder_of(run, last)
    if folder.is_dir() and not (folder / "git_after.txt").exists():
        write_for_people(folder, last)
        _write_git_after(run, refs)


def tell(
    run: Run, status: str, iteration: int | None, phase: str | None, reason: str = "", following: str = ""
) -> None:
    """Renews ``state.json``."""
    now = utc_now()
    ended = None if status == "running" else now
    moment = Moment(
        status, run.run_id, run.started_at, iteration, phase, now if phase else None, reason or None, ended, following
    )
    if run.loaded.logs.is_dir():
        write_state(run.loaded.logs / "state.json", moment, run.standing, run.loaded.manifest.limits)


def _folder_of(run: Run, record: IterationRecord) -> Path:
    return run.loaded.runs / f"{record.iteration:04d}"


def _write_git_after(run: Run, refs: Refs) -> None:
    """The last file of a run folder: where it is, the others are whole."""
    standing, repository = run.standing, run.repository
    assert standing.last
    folder = _folder_of(run, standing.last)
    if folder.is_dir():
        after = Refs(standing.tip, run.ledger.head, standing.tip, refs.branch_is_checked_out)
        lines = commit_lines(repository, standing.tip, 3)
        write_git_state(folder / "git_after.txt", after, repository.branch, lines)


def _begin_run(run: Run, setting: Setting, ruler: str) -> None:
    """Writes the record of a run that begins with this iteration."""
    if run.standing.run_id == run.run_id:
        return
    record = RunRecord(
        seq=0,
        kind="run",
        project=setting.manifest.project.name,
        run_id=run.run_id,
        epoch=max(run.standing.epoch, 0),
        timestamp=run.ledger.now(),
        began=run.began,
        versions={"goalseek": __version__},
        sandbox=sandbox.LEVEL,
        limits=to_plain(setting.manifest.limits),
        ruler=ruler,
    )
    run.ledger.append(record)


def _land_refs(run: Run, refs: Refs, is_tip_ahead: bool = False) -> None:
    """Moves tip and branch to where the records say, together. A branch that is checked out is left alone."""
    standing, repository = run.standing, run.repository
    moves = []
    if refs.tip != standing.tip and not is_tip_ahead:
        moves.append(RefMove(repository.tip_ref, refs.tip, standing.tip))
    if refs.branch != standing.tip and not refs.branch_is_checked_out:
        _refuse_moved_branch(run, refs)
        moves.append(RefMove(repository.branch_ref, refs.branch, standing.tip))
    try:
        repository.move(moves)
    except RefMoved:
        now = repository.refs()
        ref, found = (moves[0].ref, now.tip if moves[0].ref == repository.tip_ref else now.branch)
        raise moved_by_somebody(ref, standing.tip, found) from None


def _refuse_moved_branch(run: Run, refs: Refs) -> None:
    """Raises GoalseekError where the branch is at no commit of ours."""
    standing, repository = run.standing, run.repository
    last = standing.last
    assert last is not None
    if refs.branch is None and last.iteration == 0:
        return
    if refs.branch is not None and refs.branch in (last.parent_commit_hash, last.commit_hash):
        return
    if refs.branch is None or not repository.is_ancestor(refs.branch, standing.tip):
        raise moved_by_somebody(repository.branch_ref, standing.tip, refs.branch)


def _is_next_candidate(repository: Repository, standing: Standing, commit: str) -> bool:
    """Whether a commit is the candidate of the iteration that was under way."""
    head, _, message = repository.objects.read(commit).partition(b"\n\n")
    trailer = f"Goalseek-Iteration: {standing.last_iteration + 1}\n".encode()
    return f"parent {standing.tip}\n".encode() in head and trailer in message
