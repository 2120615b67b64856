"""The end of an iteration: the ledger's commit makes it count, then refs and trees are brought to what it says."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from goalseek._version import __version__
from goalseek.desk import Desk
from goalseek.errors import LimitReached
from goalseek.ledger.artifacts import write_for_people
from goalseek.ledger.checkpoints import Memory, PhaseSeconds
from goalseek.ledger.records import Isolation, IterationRecord, RunRecord
from goalseek.manifest.loading import ignore_home
from goalseek.manifest.tables import Limits
from goalseek.measurement.ruler import Ruler
from goalseek.own_folders import clear
from goalseek.phase_values import IterationResult
from goalseek.phases.log import build_record
from goalseek.project.limits import why_not_begin
from goalseek.project.preflight import refuse_foreign_logs
from goalseek.project.project import Run, tell
from goalseek.project.setting import Setting
from goalseek.proposal.usage import Calls, killed_call, sum_of, usual_call
from goalseek.providers.answer import usage_of
from goalseek.providers.prompt_templates import versions
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
