"""LOG: the record is built, and written for people; the ledger's commit makes the iteration count."""

from __future__ import annotations

from goalseek.git.paths import quote_path
from goalseek.ledger.records import Isolation, IterationRecord, MetricResult
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Evidence, IterationResult, Verdict
from goalseek.values import Usage


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
    """The record of an iteration: what came of it and how, whatever phase it ended in."""
    context, verdict, plan, change = outcome.context, outcome.verdict, outcome.plan, outcome.change
    candidate, decision = outcome.candidate, outcome.decision
    found = outcome.evidence or Evidence()
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
        runs=found.runs,
        guards=found.guards,
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
        verify=found.verify,
        isolation=isolation,
        digests=digests,
        directions=context.directions,
        run_dir=run_dir,
        notes=notes,
    )


def _incumbent_value(standing: Standing, verdict: Verdict) -> float | None:
    """What the candidate was held against; where it came to no comparison, what it would have been."""
    if verdict.outcome == "baseline" or verdict.incumbent is not None:
        return verdict.incumbent
    return standing.incumbent.value if standing.incumbent else None
