"""The loop of a climb, one iteration and a baseline.

An iteration is its phases in order; the result of each is checkpointed before the next begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from goalseek.doctor.diagnose import unseen_file_hint, unseen_script_hint
from goalseek.errors import GoalseekError, LimitReached, Paused, Rejected
from goalseek.evaluation.holdout import look_at_holdout
from goalseek.evaluation.measurements import baseline_error, take_ruler
from goalseek.evaluation.settle import seconds_to_settle, settle_at_end
from goalseek.git.command import MissingObject
from goalseek.git.packing import pack_when_due
from goalseek.git.repository import Refs
from goalseek.ledger.checkpoints import unrecorded_seconds
from goalseek.ledger.records import IterationRecord
from goalseek.loop.attempts import Attempts, decide_and_review, plan_with_retry, run_attempts
from goalseek.loop.baseline import (
    abandoned_candidate,
    baseline_candidate,
    end_unfinished,
    note_dropped_files,
    record_abandoned,
    saving_failure,
)
from goalseek.loop.ending import reporting_end
from goalseek.loop.notify import Notifier
from goalseek.loop.phases.approve import apply_approval, needs_approval
from goalseek.loop.phases.log import record_iteration
from goalseek.loop.phases.read_context import read_baseline_context, read_context
from goalseek.loop.phases.verify import next_baseline_measurement
from goalseek.loop.steps import begin_iteration
from goalseek.measurement.verifier import has_stop_code
from goalseek.phase_values import Candidate, Context, Decision, Evidence, IterationResult, Verdict
from goalseek.project.approval import remove_approval, undecided_verdict
from goalseek.project.config import Config
from goalseek.project.limits import RUN_STOP_REASONS, budget_warnings, median_iteration_seconds, why_stop
from goalseek.project.observer import OUTPUT, Observers, OutputLog
from goalseek.project.opening import check_fit, check_provider, files_of_commit
from goalseek.project.preflight import uncommitted_note
from goalseek.project.progress import new_warnings, progress_of, small_set_warning
from goalseek.project.project import Project
from goalseek.project.refs import check_refs, update_refs
from goalseek.project.stop import Ends, take_stop_request
from goalseek.proposal.call import briefing_for
from goalseek.providers.registry import provider_commands
from goalseek.statistics.guards import guard_warning
from goalseek.statistics.sequential_test import baseline_verdict
from goalseek.values import Stop, StopReason, Usage

__all__ = ["Ends", "baseline", "iterate", "iteration", "step"]


def iterate(project: Project, ends: Ends) -> Iterator[IterationRecord]:
    """Climbs until something stops it, yielding each record once it is in the ledger; sets ``project.stop``."""
    notifier = Notifier(lambda: project.loaded, project.programs, project.watch.on_note)
    project.watch = Observers(OutputLog(project.loaded.logs / OUTPUT), project.watch, notifier)
    with reporting_end(project):
        yield from _climb(project, ends)


def _climb(project: Project, ends: Ends) -> Iterator[IterationRecord]:
    began, count = time.monotonic(), 0
    project.ends_at = None if ends.seconds is None else began + ends.seconds
    entries = check_fit(project)
    check_refs(project)
    check_provider(project, entries)
    while True:
        project.repository.objects.bring_back()
        pack_when_due(project.repository, project.standing.seq, project.watch.on_note)
        config = project.config()
        _warn_of_budgets(project, config)
        now = ends.spendings(count, time.monotonic() - began)
        manifest, standing = config.manifest, project.standing.for_run(project.run_id)
        project.watch.on_progress(progress_of(manifest.project.name, manifest.limits, standing, project.recent, now))
        look_at_holdout(project, config, is_end=False)
        project.stop = _stop_before_iteration(project, config, ends, count, time.monotonic() - began)
        if project.stop:
            _settle_and_look(project, config, project.stop)
            return
        if project.standing.baseline is None:
            yield baseline(project)
            continue
        try:
            with saving_failure(project):
                record = iteration(project, config)
        except LimitReached as reached:
            project.stop = reached.stop
            _settle_and_look(project, config, project.stop)
            return
        count += 1
        yield record
        if has_stop_code(config.manifest, record.verify):
            project.stop = Stop("verifier_said_stop", record.why, "see its output: goalseek show")
            return


def _settle_and_look(project: Project, config: Config, stop: Stop) -> None:
    """At the end of a run, by a limit or at its target: measures baseline and best afresh, and the holdout."""
    if stop.reason not in RUN_STOP_REASONS:
        return
    settle_at_end(project, config)
    look_at_holdout(project, config, is_end=True)
    if warning := small_set_warning(config.manifest.metric, project.standing):
        project.watch.on_note(warning)


def iteration(project: Project, config: Config, phase_limit: int | None = None) -> IterationRecord:
    """One iteration, or the rest of one that was begun. Raises Paused after ``phase_limit`` phases.

    Raises LimitReached before a phase that would spend past a limit.
    """
    standing = project.standing
    number = standing.last_iteration + 1
    steps, folder = begin_iteration(project, number, phase_limit, limits=config.manifest.limits)
    refs = project.repository.refs()
    if abandoned := abandoned_candidate(project, steps, refs):
        return record_abandoned(project, config, refs, abandoned, phase_limit)
    project.provider()
    context = plan = decision = None
    attempts = Attempts()
    try:
        context = steps.do("READ_CONTEXT", "context", Context, partial(_read_context, project, config, refs, folder))
        config = project.config_of_begun_iteration(config, context)
        briefing = briefing_for(project, config, context)
        plan = plan_with_retry(project, config, steps, briefing, folder)
        attempts = run_attempts(project, config, steps, briefing, plan, folder)
        attempts, decision = decide_and_review(project, config, steps, briefing, plan, folder, attempts)
        if needs_approval(project, config, decision):
            candidate = attempts.measured()[1]
            ask = partial(apply_approval, project, context, candidate, decision)
            decision = steps.do("APPROVE", "word", Decision, ask, is_timed=False)
        verdict = decision.verdict
    except Rejected as rejected:
        verdict = Verdict(
            rejected.outcome, rejected.reason, rejected.why + _hint_for_failed_provider(project, config, rejected)
        )
    assert context
    parts = (attempts.change, attempts.candidate, attempts.evidence)
    outcome = IterationResult(context, verdict, plan, *parts, decision, attempts.attempts, attempts.notes)
    record = record_iteration(project, config, steps, outcome, folder)
    update_refs(project)
    remove_approval(project.loaded.logs)
    return record


def _hint_for_failed_provider(project: Project, config: Config, rejected: Rejected) -> str:
    """A likely cause of a provider's failure, to be added to its own message: a script that its tree lacks; or ""."""
    if rejected.reason != "provider_failed" or project.standing.incumbent is None:
        return ""
    entries = project.repository.objects.files(project.standing.incumbent.tree)
    share = config.manifest.scope.share
    hint = unseen_script_hint(provider_commands(project.provider()), project.folder, config.scope, share, entries)
    return "; " + ": ".join(hint) if hint[0] else ""


def _read_context(project: Project, config: Config, refs: Refs, folder: Path) -> Context:
    """The context. Raises GoalseekError for a changed ruler here, before a proposal is paid for."""
    project.refuse_changed_hidden_files(config)
    return read_context(project, config, refs, folder)


def baseline(project: Project, source: str | None = None, phase_limit: int | None = None) -> IterationRecord:
    """A new ruler from HEAD, measured under the incumbent's code; with ``source``, under that revision's.

    Raises GoalseekError where the measurement fails: then nothing is recorded, and nothing has changed.
    """
    end_unfinished(project, partial(_why_not_finish, project))
    config = note_dropped_files(project, project.config_for_baseline(), source)
    number = project.standing.last_iteration + 1
    ruler = take_ruler(project, config)
    steps, folder = begin_iteration(
        project, number, phase_limit, f"{ruler.digest} {project.repository.head()} {source or ''}"
    )
    context = steps.do(
        "READ_CONTEXT", "context", Context, partial(_read_baseline_context, project, config, folder, source)
    )
    candidate = steps.do("COMMIT", "candidate", Candidate, lambda: baseline_candidate(project, config, context, source))
    if not project.repository.objects.has(candidate.commit):
        steps.forget("candidate")
        raise MissingObject(candidate.commit)
    next_part = partial(next_baseline_measurement, project, config, ruler.digest, candidate, folder)
    evidence = steps.gather("VERIFY", "evidence", Evidence(), next_part)
    metric, guards = config.manifest.metric, config.manifest.guard
    verdict = baseline_verdict(metric, guards, evidence, candidate.commit)
    assert verdict is not None  # else VERIFY would not have ended
    decision = steps.do("DECIDE", "verdict", Decision, lambda: Decision(verdict))
    if not decision.verdict:
        steps.forget("evidence")
        entries = project.repository.objects.files(candidate.tree)
        remedy = unseen_file_hint(config.manifest, evidence.verify, project.folder, project.places.prefix, entries)
        raise baseline_error(decision.verdict, folder, remedy=remedy)
    warning = guard_warning(guards, "the baseline", evidence.guards, {})
    notes = (warning,) if warning else ()
    outcome = IterationResult(context, decision.verdict, None, None, candidate, evidence, decision, notes=notes)
    record = record_iteration(project, config, steps, outcome, folder, ruler)
    update_refs(project)
    return record


def _read_baseline_context(project: Project, config: Config, folder: Path, source: str | None) -> Context:
    """The context; notes uncommitted changes of the checkout, which are not measured."""
    code = source or ("the incumbent" if project.standing.incumbent else "HEAD")
    if changed := uncommitted_note(project.repository, config.scope, code):
        project.watch.on_note(changed)
    return read_baseline_context(project, config, folder)


def step(project: Project) -> tuple[str, str]:
    """Does exactly one phase; gives its name and that of the next one."""
    entries = check_fit(project)
    check_refs(project)
    check_provider(project, entries)
    pack_when_due(project.repository, project.standing.seq, project.watch.on_note)
    try:
        if project.standing.baseline is None:
            record = baseline(project, phase_limit=1)
        else:
            config = project.config()
            if stop := _limit_stop(project, config):
                raise GoalseekError(stop.why, stop.next, StopReason(stop.reason))
            with saving_failure(project):
                record = iteration(project, config, phase_limit=1)
    except LimitReached as reached:
        stop = reached.stop
        raise GoalseekError(stop.why, stop.next, StopReason(stop.reason)) from None
    except Paused as paused:
        return project.last_phase, paused.next_phase
    return f"LOG (iteration {record.iteration}: {record.outcome})", "READ_CONTEXT"


def _stop_before_iteration(project: Project, config: Config, ends: Ends, count: int, seconds: float) -> Stop | None:
    """Why no other iteration begins: a limit of the run, a request to stop, the invocation's or a script's end."""
    asked = take_stop_request(project.repository.own)
    stop = _limit_stop(project, config, _usual_seconds(project))
    return stop or asked or ends.reached(project.standing, count, seconds) or _script_end(project, ends)


def _script_end(project: Project, ends: Ends) -> Stop | None:
    """The stop where a scripted provider has no more moves and nothing else bounds the iterations."""
    standing = project.standing
    is_begun = (project.loaded.runs / f"{standing.last_iteration + 1:04d}").exists()
    if ends.count is not None or standing.baseline is None or is_begun:
        return None
    why = project.provider().played_out(standing.tried)
    return Stop("failures", why, "add a [[move]]; or take the best home: goalseek promote") if why else None


def _limit_stop(project: Project, config: Config, usual: float | None = None) -> Stop | None:
    """The stop of a limit that is reached. None where the next iteration has its verdict already, so spends no more."""
    if undecided_verdict(project.loaded.runs, project.standing, project.run_id):
        return None
    standing, manifest = project.standing.for_run(project.run_id), config.manifest
    if project.standing.baseline is None:  # no phase of a baseline asks for itself
        standing = standing.spending(unrecorded_seconds(project.loaded.runs / "0000", project.run_id, ""), Usage())
    reserved = seconds_to_settle(manifest, project.standing)
    return why_stop(manifest.limits, manifest.metric, standing, project.clock.now(), usual, reserved)


def _why_not_finish(project: Project, config: Config) -> str:
    """Why ``iterate`` could not finish the iteration that was begun; "" where it can."""
    assert project.standing.incumbent
    try:
        check_provider(project, files_of_commit(project, project.standing.incumbent.commit))
    except GoalseekError as error:
        return error.message
    stop = _limit_stop(project, config)
    return stop.why if stop else ""


def _usual_seconds(project: Project) -> float | None:
    """Usual seconds of an iteration of this run; None where the next has its candidate already and may finish."""
    next_folder = project.loaded.runs / f"{project.standing.last_iteration + 1:04d}"
    if (next_folder / "candidate.json").exists():
        return None
    return median_iteration_seconds(record for record in project.recent if record.run_id == project.run_id)


def _warn_of_budgets(project: Project, config: Config) -> None:
    """Warns of budgets that are nearly spent, of each once a run."""
    warnings = budget_warnings(config.manifest.limits, project.standing.for_run(project.run_id))
    for text in new_warnings(project.loaded.logs, project.run_id, warnings):
        project.watch.on_budget(text)
