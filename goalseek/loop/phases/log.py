"""LOG: the record of the iteration. It counts only once it is committed to the ledger; files for people follow."""

from msgspec import structs

from goalseek._version import __version__
from goalseek.disk import remove_if_exists
from goalseek.git.paths import quote_path
from goalseek.humanize import format_duration
from goalseek.ledger.artifacts import write_summary
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.iteration import Iteration
from goalseek.manifest.exposure import isolation_of
from goalseek.measurement.ruler import Ruler
from goalseek.phase_values import Evidence, IterationResult
from goalseek.project import landing
from goalseek.project.approval import approval_file
from goalseek.project.tries import request_of
from goalseek.records import Isolation, IterationRecord, MetricResult, RunRecord
from goalseek.values import FUNCTION, OPEN, Outcome, Phase, to_line, to_plain
from goalseek.workspace.listing import digest_of
from goalseek.workspace.shared_folders import SharedFolders


def log(iteration: Iteration, result: IterationResult, ruler: Ruler | None = None) -> IterationRecord:
    """Build the record once, commit it to the ledger, write its files, move the refs. ``ruler``: for a baseline."""
    project, share = iteration.project, iteration.config.manifest.scope.share
    shares = SharedFolders(project.repository.own, project.folder, share) if share else None
    name = CheckpointName("record")
    record = iteration.steps.do(Phase.LOG, name, IterationRecord, _make_record, iteration, result, ruler, shares)
    clock = iteration.lanes.pool.clock
    record = structs.replace(record, active_seconds=round(clock.seconds, 6) if clock else None)
    if project.standing.run_id != project.run_id:  # it begins with this iteration
        run = RunRecord(
            **project.record_head("run", max(project.standing.epoch, 0)),
            began=project.began,
            versions={"goalseek": __version__},
            sandbox=project.confines.level.name,
            limits=to_plain(iteration.config.manifest.limits),
            ruler=record.digests["ruler"],
        )
        landing.append(project, run)
        remove_if_exists(project.repository.own / "run")
    sealed_record = landing.append(project, record, to_line(ruler) if ruler else None)
    iteration.steps.phase_seconds.forget()
    write_summary(iteration.folder, sealed_record)
    project.activity.waited.clear()
    if shares:
        shares.save_baseline(sealed_record.epoch)
    landing.follow(project)
    project.repository.remove_flight(iteration.number)
    iteration.lanes.pool.end(iteration.number)
    if ruler is None:
        remove_if_exists(approval_file(project.loaded.logs, iteration.number))
    if iteration.lanes.pool.is_serial:  # of several the queue tells it, once the others may go on meanwhile
        project.watch.on_record(sealed_record)
    return sealed_record


def _make_record(
    iteration: Iteration, result: IterationResult, ruler: Ruler | None, shares: SharedFolders | None
) -> IterationRecord:
    project, config, standing, steps = iteration.project, iteration.config, iteration.standing, iteration.steps
    manifest, verdict, plan, change = config.manifest, result.decision.verdict, result.plan, result.change
    candidate, evidence = result.candidate, result.evidence or Evidence()
    has_author = verdict.outcome != Outcome.BASELINE
    provider, model = iteration.author_of(change, plan) if has_author else ("", "")
    spending = steps.usage_log.spending()
    benches, host = (evidence.benches, evidence.host) if evidence.runs else iteration.lanes.pool.setting
    trial, is_asked = (plan.trial, plan.is_asked) if plan else ("", True)
    author_level = request_of(project.repository.load_commit(trial))[-1] if trial else OPEN * (provider == FUNCTION)
    failed = [number for number, run in enumerate(evidence.runs, 1) if run.of == "incumbent" and run.value is None]
    used = ", ".join(map(str, steps.resumed_from))
    resumed = used and f"an earlier invocation ended before its record; this one used its stored answers: {used}"
    prompts = ", ".join(f"{phase} {template.version}" for phase, template in config.templates.items())
    turn_note = result.context.turn_note if is_asked else ""  # the turn begins with its first proposal
    incumbent_value = verdict.incumbent
    if has_author and incumbent_value is None and standing.incumbent:  # it would have been compared with this
        incumbent_value = standing.incumbent.value
    return IterationRecord(
        **project.record_head("iteration", standing.epoch + 1 if ruler else standing.epoch),
        iteration=iteration.number,
        outcome=verdict.outcome,
        reason=verdict.reason,
        why=verdict.why,
        metric=MetricResult(
            manifest.metric.name,
            manifest.metric.direction,
            verdict.value,
            incumbent_value,
            verdict.delta,
            verdict.odds,
            manifest.metric.unit,
            verdict.needed,
            verdict.cases,
        ),
        runs=evidence.runs,
        case_ids=evidence.case_ids,
        guards=evidence.guards,
        attempts=result.attempts,
        commit_hash=candidate.commit if candidate else None,
        parent_commit_hash=candidate.parent if candidate and candidate.parent else None,
        base_commit_hash=standing.incumbent.commit if has_author and standing.incumbent else None,
        base_seq=None if benches is None else standing.seq,
        machine=evidence.machine,
        rollback_commit_hash=result.decision.rollback,
        tree_hash=candidate.tree if candidate else None,
        taken_back=result.taken_back,
        planned_files=tuple(quote_path(path) for path in plan.files) if plan else (),
        changed_files=tuple(quote_path(edit.path) for edit in change.edits) if change else (),
        dropped_files=change.dropped if change else (),
        changed_loc=change.lines_added + change.lines_removed if change else 0,
        hypothesis_summary=change.title if change else plan.title if plan else "",
        tried=change.tried if change else plan.tried if plan else "",
        stacked=plan.stacked if plan else (),
        not_stacked=iteration.not_stacked,
        provider=provider,
        model=model,
        turn_of=result.context.turn[0] if result.context.turn and not trial else None,
        usage=spending.usage,
        usage_before_run=spending.before_run,
        seconds={phase: round(spent, 6) for phase, spent in steps.seconds.items()},
        verify=evidence.verify,
        benches=benches,
        host=host,
        isolation=Isolation(project.confines.level.name, isolation_of(config.manifest), author_level),
        digests={
            "ruler": ruler.digest if ruler else standing.ruler,
            **({"hidden_from": digest_of(config.trees.hidden_from)} if config.trees.hidden_from else {}),
            **({"prompts": prompts} if has_author else {}),
            **({"proposer": digest_of(config.trees.proposer)} if has_author and config.trees.proposer else {}),
            **({"source": result.source} if result.source else {}),
            **({"script": plan.script} if plan and plan.script else {}),
            **({"try": trial} if trial else {}),
            **({"share": shares.digest()} if shares else {}),
        },
        directions=result.context.directions,
        run_dir=f"runs/{iteration.folder.name}",
        notes=(
            *config.notes,
            *filter(None, [turn_note]),
            *steps.usage_log.notes,
            *result.notes,
            *(f"waited {format_duration(seconds)}: {why}" for why, seconds in project.activity.waited.items()),
            *(f"the incumbent gave no number in run {number}, and was measured once more" for number in failed),
            *filter(None, [resumed]),
            *(shares.notes(standing.epoch) if shares and not ruler else ()),
        ),
    )
