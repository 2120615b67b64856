"""LOG: the record of the iteration, committed to the ledger and then written as files for people.

The ledger's commit is the only point at which an iteration counts.
"""

from __future__ import annotations

from pathlib import Path

from goalseek._version import __version__
from goalseek.git.paths import quote_path
from goalseek.ledger.artifacts import write_summary
from goalseek.ledger.records import Isolation, IterationRecord, MetricResult, RunRecord
from goalseek.ledger.standing import Standing
from goalseek.loop.steps import StepRunner, iteration_usage
from goalseek.manifest.tables import Manifest
from goalseek.measurement.ruler import Ruler
from goalseek.own_folders import remove_if_exists
from goalseek.phase_values import Evidence, IterationResult, Verdict
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.providers.prompt_templates import versions
from goalseek.values import Usage, to_plain
from goalseek.workspace.scan import digest_of


def build_record(
    manifest: Manifest,
    standing: Standing,
    outcome: IterationResult,
    *,
    run_id: str,
    epoch: int,
    timestamp: str,
    provider: str,
    model: str,
    usage: Usage,
    seconds: dict[str, float],
    isolation: Isolation,
    digests: dict[str, str],
    run_dir: str,
    notes: tuple[str, ...],
) -> IterationRecord:
    """The record of an iteration, whatever phase it ended in."""
    context, verdict, plan, change = outcome.context, outcome.verdict, outcome.plan, outcome.change
    candidate, decision = outcome.candidate, outcome.decision
    evidence = outcome.evidence or Evidence()
    return IterationRecord(
        seq=0,
        kind="iteration",
        project=manifest.project.name,
        run_id=run_id,
        epoch=epoch,
        timestamp=timestamp,
        iteration=context.iteration,
        outcome=verdict.outcome,
        reason=verdict.reason,
        why=verdict.why,
        metric=MetricResult(
            manifest.metric.name,
            manifest.metric.direction,
            verdict.value,
            _incumbent_value(standing, verdict),
            verdict.delta,
            verdict.odds,
        ),
        runs=evidence.runs,
        guards=evidence.guards,
        attempts=outcome.attempts,
        commit_hash=candidate.commit if candidate else None,
        parent_commit_hash=candidate.parent if candidate and candidate.parent else None,
        rollback_commit_hash=decision.rollback if decision else None,
        tree_hash=candidate.tree if candidate else None,
        planned_files=tuple(quote_path(path) for path in plan.files) if plan else (),
        changed_files=tuple(quote_path(edit.path) for edit in change.edits) if change else (),
        dropped_files=change.dropped if change else (),
        changed_loc=change.lines_added + change.lines_removed if change else 0,
        hypothesis_summary=change.title if change else plan.title if plan else "",
        provider=provider,
        model=model,
        usage=usage,
        seconds={phase: round(spent, 6) for phase, spent in seconds.items()},
        verify=evidence.verify,
        isolation=isolation,
        digests=digests,
        directions=context.directions,
        run_dir=run_dir,
        notes=notes,
    )


def _incumbent_value(standing: Standing, verdict: Verdict) -> float | None:
    """The incumbent's value that the candidate was compared with, or would have been."""
    if verdict.outcome == "baseline" or verdict.incumbent is not None:
        return verdict.incumbent
    return standing.incumbent.value if standing.incumbent else None


def record_iteration(
    project: Project,
    config: Config,
    steps: StepRunner,
    outcome: IterationResult,
    folder: Path,
    ruler: Ruler | None = None,
) -> IterationRecord:
    """Builds the record once, commits it to the ledger, and writes its files. ``ruler`` is given for a baseline."""
    standing = project.standing
    digest = ruler.digest if ruler else standing.ruler
    has_provider = bool(outcome.plan) or outcome.verdict.outcome != "baseline"
    provider = project.provider() if has_provider and not _author(outcome) else None
    record = steps.do(
        "LOG",
        "record",
        IterationRecord,
        lambda: build_record(
            config.manifest,
            standing,
            outcome,
            run_id=project.run_id,
            epoch=standing.epoch + 1 if ruler else standing.epoch,
            timestamp=project.ledger.now(),
            provider=_author(outcome) or (provider.name if provider else ""),
            model=_author_model(outcome) if _author(outcome) else (provider.model if provider else ""),
            usage=iteration_usage(steps),
            seconds=dict(steps.seconds),
            isolation=Isolation(project.confines.level.name, weakest_isolation(config)),
            digests={
                "ruler": digest,
                **({"hidden_from": digest_of(config.hidden_from)} if config.hidden_from else {}),
                **({"prompts": versions(config.templates)} if has_provider else {}),
                **project.shares.digests(config.manifest.scope.share),
            },
            run_dir=f"runs/{folder.name}",
            notes=(
                *config.notes,
                *steps.calls.notes,
                *outcome.notes,
                *project.waited,
                *_incumbent_notes(outcome),
                *_resume_notes(steps),
                *_share_notes(project, config, ruler),
            ),
        ),
    )
    _begin_run(project, config, digest)
    candidate = record.commit_hash
    project.ledger.mended = ""
    sealed_record = project.ledger.append(record, candidate, ruler.to_json() if ruler else None)
    if project.ledger.mended:
        project.watch.on_note(project.ledger.mended)
    if project.took:
        project.took.forget()
    write_summary(folder, sealed_record)
    project.add_record(sealed_record)
    project.shares.save_baseline(config.manifest.scope.share, sealed_record.epoch)
    return sealed_record


def _author(outcome: IterationResult) -> str:
    """The provider that made the change, or else the plan; "" where the answers name none."""
    return (outcome.change.provider if outcome.change else "") or (outcome.plan.provider if outcome.plan else "")


def _author_model(outcome: IterationResult) -> str:
    source = outcome.change if outcome.change and outcome.change.provider else outcome.plan
    return source.model if source else ""


def _incumbent_notes(outcome: IterationResult) -> tuple[str, ...]:
    """A note for each measurement in which the incumbent failed; the next measurement replaces it."""
    runs = outcome.evidence.runs if outcome.evidence else ()
    failed = [number for number, run in enumerate(runs, 1) if run.of == "incumbent" and run.value is None]
    return tuple(f"the incumbent failed in run {number}, and was measured once more" for number in failed)


def _resume_notes(steps: StepRunner) -> tuple[str, ...]:
    """A note that an earlier invocation ended in this iteration, with the checkpoints it left."""
    if not steps.found:
        return ()
    return (f"an earlier invocation ended in the middle; gone on with from its {', '.join(steps.found)}",)


def _share_notes(project: Project, config: Config, ruler: Ruler | None) -> tuple[str, ...]:
    """Notes on shared folders that changed since the baseline; none for a baseline itself."""
    return () if ruler else project.shares.notes(config.manifest.scope.share, project.standing.epoch)


def weakest_isolation(config: Config) -> str:
    """The ``sees`` of the verify command that is least isolated from the candidate."""
    seen = [command.sees for command in config.manifest.verify]
    return "both" if "both" in seen else str(seen[-1])


def _begin_run(project: Project, config: Config, ruler: str) -> None:
    """Writes the record of a run that begins with this iteration."""
    if project.standing.run_id == project.run_id:
        return
    record = RunRecord(
        seq=0,
        kind="run",
        project=config.manifest.project.name,
        run_id=project.run_id,
        epoch=max(project.standing.epoch, 0),
        timestamp=project.ledger.now(),
        began=project.began,
        versions={"goalseek": __version__},
        sandbox=project.confines.level.name,
        limits=to_plain(config.manifest.limits),
        ruler=ruler,
    )
    project.ledger.append(record)
    remove_if_exists(project.repository.own / "run")
