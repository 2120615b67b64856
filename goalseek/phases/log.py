"""LOG: the record is built, and written for people; the ledger's commit makes the iteration count."""

from __future__ import annotations

import json
from pathlib import Path

from goalseek.git.paths import quote_path
from goalseek.humanize import in_words, number
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Evidence, IterationResult, Verdict
from goalseek.records import Isolation, IterationRecord, MetricResult
from goalseek.standing import Standing
from goalseek.values import Usage, to_plain

_RESULT = "result.json"


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


def write_for_people(run_folder: Path, record: IterationRecord) -> None:
    """``results_discussion.md``, then ``result.json``, which is there whole or not at all."""
    metric = record.metric
    value = "no value" if metric.value is None else number(metric.value)
    lines = [f"# Iteration {record.iteration}: {record.outcome} ({record.reason})", "", record.why + ".", ""]
    if record.hypothesis_summary:
        lines += [f"Tried: {record.hypothesis_summary}", ""]
    lines.append(f"- {metric.name}: {value} ({metric.direction})")
    if metric.incumbent is not None:
        lines.append(f"- incumbent: {number(metric.incumbent)}")
    lines += [f"- {name}: {number(guard)}" for name, guard in record.guards.items()]
    lines += [f"- changed: {path}" for path in record.changed_files]
    lines += [f"- left out: {path}" for path in record.dropped_files]
    lines += [f"- {phase}: {in_words(spent)}" for phase, spent in record.seconds.items()]
    lines += [f"- note: {note}" for note in record.notes]
    run_folder.mkdir(parents=True, exist_ok=True)
    (run_folder / "results_discussion.md").write_text("\n".join(lines) + "\n", encoding="utf-8", errors="replace")
    temporary = run_folder / f"{_RESULT}.new"
    temporary.write_text(json.dumps(to_plain(record), indent=1) + "\n")
    temporary.replace(run_folder / _RESULT)
