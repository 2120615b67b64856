"""The end of an iteration: the ledger's commit makes it count, then refs and trees are brought to what it says."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from goalseek._version import __version__
from goalseek.calls import Calls, sum_of
from goalseek.charge import killed_call, usual_call
from goalseek.desk import Desk
from goalseek.errors import UNFIT, GoalseekError, LimitReached
from goalseek.fitness import refuse_foreign_logs
from goalseek.git.commits import commit_lines, make_roll_back_again
from goalseek.git.repository import RefMove, RefMoved, Refs, Repository, moved_by_somebody
from goalseek.ledger.artifacts import is_ours, keep_few, keep_few_at_start, write_for_people, write_git_state
from goalseek.ledger.checkpoints import Memory, PhaseSeconds
from goalseek.ledger.records import Isolation, IterationRecord, RunRecord
from goalseek.ledger.seal import key_of
from goalseek.ledger.standing import Standing
from goalseek.limits import why_not_begin
from goalseek.manifest.loading import ignore_home
from goalseek.manifest.tables import Limits
from goalseek.measurement.ruler import Ruler
from goalseek.own_folders import clear
from goalseek.phase_values import Candidate, IterationResult
from goalseek.phases.log import build_record
from goalseek.providers.answer import usage_of
from goalseek.providers.prompt_templates import versions
from goalseek.run import Run
from goalseek.setting import Setting
from goalseek.state import Moment, utc_now
from goalseek.values import Usage, to_plain
from goalseek.workspace.listing import digest_of

_LONG_PHASES = ("PLAN", "APPLY_CHANGE", "VERIFY", "REVIEW")


def desk_for(
    run: Run, number: int, most: int | None, made_from: str = "", limits: Limits | None = None
) -> tuple[Desk, Path]:
    """The desk of an iteration, and its run folder. Answers that were made from something else are not taken up.

    Where ``limits`` are given, a phase that spends raises LimitReached in place of beginning past one of them.
    """
    folder = run.loaded.runs / f"{number:04d}"
    refuse_foreign_logs(run.loaded, number)
    ignore_home(run.loaded)
    folder.mkdir(parents=True, exist_ok=True)
    follows = run.standing.last.seal if run.standing.last else ""
    memory = Memory(folder, run.seal, run.run_id, follows)
    run.took = PhaseSeconds(memory, run.active_seconds)  # of this run: a new one has all its time
    calls = Calls(
        Memory(folder, run.seal, "", follows),  # of no run: a new one pays for what the last one began
        lambda: usage_of(run.places.call / "usage.json"),
        cache(lambda calls_each: usual_call(run.recent, calls_each)),
    )

    def on_phase(name: str, begins: bool) -> None:
        calls.settle(desk.done)
        if limits:
            spent = run.standing.of_run(run.run_id).spending(sum(desk.seconds.values()), _usage(desk))
            if stop := why_not_begin(name, limits, spent, run.clock.now(), calls.usual()):
                raise LimitReached(stop)
        run.last_phase = name
        if not folder.is_dir():  # somebody's git clean may have removed it
            ignore_home(run.loaded)
            folder.mkdir(parents=True, exist_ok=True)
        if not begins:
            return
        run.watch.phase(number, name)
        if name in _LONG_PHASES:
            tell(run, "running", number, name)

    made_from = f"iteration {number} {made_from}".rstrip()
    desk = Desk(memory, calls, made_from, on_phase, most, run.took)
    return desk, folder


def record_iteration(
    run: Run, setting: Setting, desk: Desk, outcome: IterationResult, folder: Path, ruler: Ruler | None = None
) -> IterationRecord:
    """LOG: builds the record once, commits it to the ledger, and writes it for people."""
    standing = run.standing
    digest = ruler.digest if ruler else standing.ruler
    is_asked = bool(outcome.plan) or outcome.verdict.outcome != "baseline"
    provider = run.provider() if is_asked and not _who(outcome) else None
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
            provider=_who(outcome) or (provider.name if provider else ""),
            model=_model(outcome) if _who(outcome) else (provider.model if provider else ""),
            usage=_usage(desk),
            seconds=dict(desk.seconds),
            isolation=Isolation(run.confines.level.name, weakest(setting)),
            digests={
                "ruler": digest,
                **({"hidden_from": digest_of(setting.hidden_from)} if setting.hidden_from else {}),
                **({"prompts": versions(setting.templates)} if is_asked else {}),
                **run.shares.digests(setting.manifest.scope.share),
            },
            run_dir=f"runs/{folder.name}",
            notes=(
                *setting.notes,
                *desk.calls.notes,
                *outcome.notes,
                *run.waited,
                *_of_incumbent(outcome),
                *_of_resuming(desk),
                *_of_shares(run, setting, ruler),
            ),
        ),
    )
    _begin_run(run, setting, digest)
    candidate = record.commit_hash
    run.ledger.mended = ""
    sealed = run.ledger.append(record, candidate, ruler.to_json() if ruler else None)
    if run.ledger.mended:
        run.watch.note(run.ledger.mended)
    if run.took:
        run.took.forget()
    write_for_people(folder, sealed)
    run.remember(sealed)
    run.shares.remember(setting.manifest.scope.share, sealed.epoch)
    return sealed


def _who(outcome: IterationResult) -> str:
    """Who made the change, or else the plan; "" where that is not told."""
    return (outcome.change.provider if outcome.change else "") or (outcome.plan.provider if outcome.plan else "")


def _model(outcome: IterationResult) -> str:
    source = outcome.change if outcome.change and outcome.change.provider else outcome.plan
    return source.model if source else ""


def _of_incumbent(outcome: IterationResult) -> tuple[str, ...]:
    """Each run in which the incumbent failed; the next one is that which was made in its place."""
    runs = outcome.evidence.runs if outcome.evidence else ()
    failed = [place for place, run in enumerate(runs, 1) if run.of == "incumbent" and run.value is None]
    return tuple(f"the incumbent failed in run {place}, and was measured once more" for place in failed)


def _of_resuming(desk: Desk) -> tuple[str, ...]:
    """Where an earlier invocation left the iteration, whatever ended that one."""
    if not desk.found:
        return ()
    return (f"an earlier invocation ended in the middle; gone on with from its {', '.join(desk.found)}",)


def _of_shares(run: Run, setting: Setting, ruler: Ruler | None) -> tuple[str, ...]:
    """What differs in the shared folders since the baseline; of a baseline, nothing does."""
    return () if ruler else run.shares.notes(setting.manifest.scope.share, run.standing.epoch)


def _usage(desk: Desk) -> Usage:
    """What the iteration's calls cost: as they reported it, and as those are charged that were killed."""
    usual = desk.calls.usual()
    usages = [
        killed_call(done.usage, usual) if done.rejected == "provider_timeout" else done.usage
        for done in desk.done.values()
    ]
    return sum_of([*usages, desk.calls.charged])


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
    _refuse_moved_tip(run, refs)
    _land_refs(run, refs)
    _show_refs(run, refs, run.loaded.runs / f"{standing.last.iteration:04d}")
    keep_few(run.loaded.runs, run.loaded.manifest.log, standing)
    run.watch.recorded(standing.last)


def check_refs(run: Run) -> None:
    """Finishes what a kill left between the record and the refs, and makes a branch again that somebody deleted.

    Raises GoalseekError where somebody moved a ref, and where a first baseline would find the branch taken.
    """
    standing, repository = run.standing, run.repository
    refs = repository.refs()
    if standing.last is None:
        _refuse_branch_without_records(run, refs)
        return
    refs = _without_lost_tip(run, refs)
    is_ahead = refs.tip is not None and is_next_candidate(repository, standing, refs.tip)
    if not is_ahead:
        _refuse_moved_tip(run, refs)
    _land_refs(run, refs, is_ahead)
    folder = run.loaded.runs / f"{standing.last.iteration:04d}"
    is_finished = (folder / "git_after.txt").exists()  # the last to be written: the others may be missing or torn
    if folder.is_dir() and not is_finished and is_ours(folder):
        write_for_people(folder, standing.last)
        _show_refs(run, refs, folder)
    keep_few_at_start(run.loaded.runs, run.loaded.manifest.log, standing, run.ledger.history)


def _without_lost_tip(run: Run, refs: Refs) -> Refs:
    """Sets the tip back where git lost the candidate that it was at: from what is stored it is committed once more."""
    standing, repository = run.standing, run.repository
    if refs.tip in (None, standing.tip) or repository.objects.has(refs.tip):
        return refs
    for path in (run.loaded.runs / f"{standing.last_iteration + 1:04d}").glob("candidate*.json"):
        clear(path)
    repository.move([RefMove(repository.tip_ref, refs.tip, standing.tip)])
    return repository.refs()


def tell(
    run: Run, status: str, iteration: int | None, phase: str | None, reason: str = "", following: str = ""
) -> None:
    """Renews ``state.json``."""
    now = utc_now()
    ended = None if status in ("running", "waiting") else now
    moment = Moment(
        status, run.run_id, run.started_at, iteration, phase, now if phase else None, reason or None, ended, following
    )
    run.picture.show(moment, run.standing, run.loaded.manifest.limits)


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
        sandbox=run.confines.level.name,
        limits=to_plain(setting.manifest.limits),
        ruler=ruler,
    )
    run.ledger.append(record)
    clear(run.repository.own / "run")


def _land_refs(run: Run, refs: Refs, is_tip_ahead: bool = False) -> None:
    """Moves tip and branch to where the records say, together. A branch that is checked out is left alone."""
    standing, repository = run.standing, run.repository
    assert standing.last is not None
    moves = []
    if refs.tip != standing.tip and not is_tip_ahead:
        _make_revert_again(repository, standing.last)
        moves.append(RefMove(repository.tip_ref, refs.tip, standing.tip))
    if refs.branch != standing.tip and not refs.branch_is_checked_out:
        _refuse_moved_branch(run, refs)
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


def _refuse_moved_tip(run: Run, refs: Refs) -> None:
    """Raises GoalseekError where the tip is at no commit that the last record put there or found there."""
    standing, last = run.standing, run.standing.last
    assert last is not None
    if refs.tip is None and last.iteration == 0:
        return
    if refs.tip is None or refs.tip not in (standing.tip, last.commit_hash, last.parent_commit_hash):
        raise moved_by_somebody(run.repository.tip_ref, standing.tip, refs.tip)


def _show_refs(run: Run, refs: Refs, folder: Path) -> None:
    """``git_after.txt``, where the run folder is there."""
    tip, repository = run.standing.tip, run.repository
    if folder.is_dir():
        after = Refs(tip, run.ledger.head, tip, refs.branch_is_checked_out)
        write_git_state(folder / "git_after.txt", after, repository.branch, commit_lines(repository, tip, 3))


def _refuse_moved_branch(run: Run, refs: Refs) -> None:
    """Raises GoalseekError where the branch is at no commit of ours."""
    standing, repository = run.standing, run.repository
    last = standing.last
    assert last is not None
    if refs.branch is None:
        # A first baseline makes it, and what was climbed elsewhere and fetched was without it.
        if last.iteration > 0 and key_of(last.seal) == run.seal.key:
            run.watch.note(f"the branch {repository.branch} was deleted; it shows the tip again, {standing.tip[:12]}")
        return
    if refs.branch in (last.parent_commit_hash, last.commit_hash):
        return
    if not repository.is_ancestor(refs.branch, standing.tip):
        raise moved_by_somebody(repository.branch_ref, standing.tip, refs.branch)


def _refuse_branch_without_records(run: Run, refs: Refs) -> None:
    """Raises GoalseekError where the branch shows another climb, whose records are not here: one in a clone, say."""
    repository = run.repository
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
