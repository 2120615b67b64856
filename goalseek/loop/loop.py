"""The loop. One iteration is the seven phases in order; what each answers is stored before the next begins."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from goalseek.doctor.diagnose import agent_out_of_sight, out_of_sight
from goalseek.errors import GoalseekError, LimitReached, Paused, Rejected
from goalseek.evaluation.holdout import look
from goalseek.evaluation.measurements import failed_baseline, take_ruler
from goalseek.evaluation.settle import seconds_to_settle, settle_at_end
from goalseek.git.command import Missing
from goalseek.git.packing import pack_when_due
from goalseek.git.repository import Refs
from goalseek.ledger.checkpoints import unrecorded_seconds
from goalseek.ledger.records import IterationRecord
from goalseek.loop.attempts import Attempts, decide_and_review, plan_with_retry, run_attempts
from goalseek.loop.baseline import (
    baseline_candidate,
    failure_kept,
    left_behind,
    make_way,
    note_left_out,
    record_left_behind,
)
from goalseek.loop.ending import reporting_end
from goalseek.loop.notify import NotifyWatch
from goalseek.loop.phases.approve import apply_approval, needs_approval
from goalseek.loop.phases.log import record_iteration
from goalseek.loop.phases.read_context import read_baseline_context, read_context
from goalseek.loop.phases.verify import next_baseline_measurement
from goalseek.loop.steps import begin_iteration
from goalseek.measurement.verifier import said_stop
from goalseek.phase_values import Candidate, Context, Decision, Evidence, IterationResult, Verdict
from goalseek.project.approval import question_of, remove_approval
from goalseek.project.config import Config
from goalseek.project.limits import ENDS_THE_RUN, budget_warnings, pace, why_stop
from goalseek.project.opening import check_fit, check_provider, files_of
from goalseek.project.preflight import uncommitted_words
from goalseek.project.progress import new_warnings, scene_of, small_set
from goalseek.project.project import Project
from goalseek.project.refs import check_refs, update_refs
from goalseek.project.stop import Ends, asked_to_stop
from goalseek.project.watch import OUTPUT, OutputLog
from goalseek.proposal.call import briefing_for
from goalseek.providers.registry import commands_of
from goalseek.statistics.bounds import guard_warning
from goalseek.statistics.sequential_test import baseline_verdict
from goalseek.values import Stop, Usage

__all__ = ["Ends", "baseline", "iterate", "iteration", "step"]


def iterate(project: Project, ends: Ends) -> Iterator[IterationRecord]:
    """Climbs until something ends it, yielding each record once it counts. ``run.stop`` says then what it was."""
    notified = NotifyWatch(project.watch, lambda: project.loaded, project.programs)
    project.watch = OutputLog(notified, project.loaded.logs / OUTPUT)
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
        _warn(project, config)
        now = ends.spendings(count, time.monotonic() - began)
        manifest, standing = config.manifest, project.standing.of_run(project.run_id)
        project.watch.on_progress(scene_of(manifest.project.name, manifest.limits, standing, project.recent, now))
        look(project, config, is_end=False)
        project.stop = _why_end(project, config, ends, count, time.monotonic() - began)
        if project.stop:
            _claim(project, config, project.stop)
            return
        if project.standing.baseline is None:
            yield baseline(project)
            continue
        try:
            with failure_kept(project):
                record = iteration(project, config)
        except LimitReached as reached:
            project.stop = reached.stop
            _claim(project, config, project.stop)
            return
        count += 1
        yield record
        if said_stop(config.manifest, record.verify):
            project.stop = Stop("verifier_said_stop", record.why, "see its output: goalseek show")
            return


def _claim(project: Project, config: Config, stop: Stop) -> None:
    """What is claimed is measured afresh where the run ends by a limit or at its target, and the holdout looked at."""
    if stop.reason not in ENDS_THE_RUN:
        return
    settle_at_end(project, config)
    look(project, config, is_end=True)
    if worn := small_set(config.manifest.metric, project.standing):
        project.watch.on_note(worn)


def iteration(project: Project, config: Config, most: int | None = None) -> IterationRecord:
    """One iteration, or what is still owed of it. Raises Paused where ``most`` phases were done before its end.

    Raises LimitReached where a phase that spends would begin past a limit.
    """
    standing = project.standing
    number = standing.last_iteration + 1
    steps, folder = begin_iteration(project, number, most, limits=config.manifest.limits)
    refs = project.repository.refs()
    if lost := left_behind(project, steps, refs):
        return record_left_behind(project, config, refs, lost, most)
    project.provider()
    context = plan = decision = None
    tries = Attempts()
    try:
        context = steps.do("READ_CONTEXT", "context", Context, partial(_begun, project, config, refs, folder))
        config = project.config_as_begun(config, context)
        briefing = briefing_for(project, config, context)
        plan = plan_with_retry(project, config, steps, briefing, folder)
        tries = run_attempts(project, config, steps, briefing, plan, folder)
        tries, decision = decide_and_review(project, config, steps, briefing, plan, folder, tries)
        if needs_approval(project, config, decision):
            candidate = tries.measured()[1]
            said = partial(apply_approval, project, context, candidate, decision)
            decision = steps.do("APPROVE", "word", Decision, said, is_timed=False)
        verdict = decision.verdict
    except Rejected as rejected:
        verdict = Verdict(rejected.outcome, rejected.reason, rejected.why + _out_of_sight(project, config, rejected))
    assert context
    found = (tries.change, tries.candidate, tries.evidence)
    outcome = IterationResult(context, verdict, plan, *found, decision, tries.attempts, tries.notes)
    record = record_iteration(project, config, steps, outcome, folder)
    update_refs(project)
    remove_approval(project.loaded.logs)
    return record


def _out_of_sight(project: Project, config: Config, rejected: Rejected) -> str:
    """What is likely to have kept a provider from answering, after what it said itself; or ""."""
    if rejected.reason != "provider_failed" or project.standing.incumbent is None:
        return ""
    entries = project.repository.objects.files(project.standing.incumbent.tree)
    share = config.manifest.scope.share
    said = agent_out_of_sight(commands_of(project.provider()), project.folder, config.scope, share, entries)
    return "; " + ": ".join(said) if said[0] else ""


def _begun(project: Project, config: Config, refs: Refs, folder: Path) -> Context:
    """The context; a ruler that is not as it was pinned is found before anybody is paid for a proposal."""
    project.refuse_changed(config)
    return read_context(project, config, refs, folder)


def baseline(project: Project, source: str | None = None, most: int | None = None) -> IterationRecord:
    """A new ruler from HEAD, measured under the incumbent's code; with ``source``, under that revision's.

    Raises GoalseekError where the measurement fails: then nothing is recorded, and nothing has changed.
    """
    make_way(project, partial(_why_not_finish, project))
    config = note_left_out(project, project.fresh_config(), source)
    number = project.standing.last_iteration + 1
    ruler = take_ruler(project, config)
    steps, folder = begin_iteration(project, number, most, f"{ruler.digest} {project.repository.head()} {source or ''}")
    context = steps.do("READ_CONTEXT", "context", Context, partial(_begun_baseline, project, config, folder, source))
    candidate = steps.do("COMMIT", "candidate", Candidate, lambda: baseline_candidate(project, config, context, source))
    if not project.repository.objects.has(candidate.commit):
        steps.forget("candidate")
        raise Missing(candidate.commit)
    owed = partial(next_baseline_measurement, project, config, ruler.digest, candidate, folder)
    evidence = steps.gather("VERIFY", "evidence", Evidence(), owed)
    metric, guards = config.manifest.metric, config.manifest.guard
    verdict = baseline_verdict(metric, guards, evidence, candidate.commit)
    assert verdict is not None  # else VERIFY would not have ended
    decision = steps.do("DECIDE", "verdict", Decision, lambda: Decision(verdict))
    if not decision.verdict:
        steps.forget("evidence")
        entries = project.repository.objects.files(candidate.tree)
        remedy = out_of_sight(config.manifest, evidence.verify, project.folder, project.places.prefix, entries)
        raise failed_baseline(decision.verdict, folder, remedy=remedy)
    broken = guard_warning(guards, "the baseline", evidence.guards, {})
    notes = (broken,) if broken else ()
    outcome = IterationResult(context, decision.verdict, None, None, candidate, evidence, decision, notes=notes)
    record = record_iteration(project, config, steps, outcome, folder, ruler)
    update_refs(project)
    return record


def _begun_baseline(project: Project, config: Config, folder: Path, source: str | None) -> Context:
    """The context; that the checkout holds what is not measured is said before the measurement."""
    code = source or ("the incumbent" if project.standing.incumbent else "HEAD")
    if changed := uncommitted_words(project.repository, config.scope, code):
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
            record = baseline(project, most=1)
        else:
            config = project.config()
            if stop := _why_over(project, config):
                raise GoalseekError(stop.why, stop.next, stop.exit_code, stop.reason)
            with failure_kept(project):
                record = iteration(project, config, most=1)
    except LimitReached as reached:
        stop = reached.stop
        raise GoalseekError(stop.why, stop.next, stop.exit_code, stop.reason) from None
    except Paused as paused:
        return project.last_phase, paused.following
    return f"LOG (iteration {record.iteration}: {record.outcome})", "READ_CONTEXT"


def _why_end(project: Project, config: Config, ends: Ends, count: int, seconds: float) -> Stop | None:
    """What ends the invocation before another iteration begins: a limit of the run, a person's word, its own ends."""
    asked = asked_to_stop(project.repository.own)
    stop = _why_over(project, config, _usual_seconds(project))
    return stop or asked or ends.reached(project.standing, count, seconds) or _played_out(project, ends)


def _played_out(project: Project, ends: Ends) -> Stop | None:
    """The end of a script, where nothing else bounds the iterations: each further one would fail."""
    standing = project.standing
    is_begun = (project.loaded.runs / f"{standing.last_iteration + 1:04d}").exists()
    if ends.count is not None or standing.baseline is None or is_begun:
        return None
    why = project.provider().played_out(standing.tried)
    return Stop("failures", why, "add a [[move]]; or take the best home: goalseek promote") if why else None


def _why_over(project: Project, config: Config, usual: float | None = None) -> Stop | None:
    """The limit of the run that is reached; not asked where the next iteration has its verdict: all of it is spent."""
    if question_of(project.loaded.runs, project.standing, project.run_id):
        return None
    standing, manifest = project.standing.of_run(project.run_id), config.manifest
    if project.standing.baseline is None:  # no phase of a baseline asks for itself
        standing = standing.spending(unrecorded_seconds(project.loaded.runs / "0000", project.run_id, ""), Usage())
    reserved = seconds_to_settle(manifest, project.standing)
    return why_stop(manifest.limits, manifest.metric, standing, project.clock.now(), usual, reserved)


def _why_not_finish(project: Project, config: Config) -> str:
    """Why ``iterate`` would not go on with what is under way; "" where nothing is in its way."""
    assert project.standing.incumbent
    try:
        check_provider(project, files_of(project, project.standing.incumbent.commit))
    except GoalseekError as error:
        return error.message
    stop = _why_over(project, config)
    return stop.why if stop else ""


def _usual_seconds(project: Project) -> float | None:
    """The pace of this run; not asked where the next iteration has its candidate already, which may finish."""
    following = project.loaded.runs / f"{project.standing.last_iteration + 1:04d}"
    if (following / "candidate.json").exists():
        return None
    return pace(record for record in project.recent if record.run_id == project.run_id)


def _warn(project: Project, config: Config) -> None:
    """Says which budgets come near their end, each once a run."""
    told = budget_warnings(config.manifest.limits, project.standing.of_run(project.run_id))
    for text in new_warnings(project.loaded.logs, project.run_id, told):
        project.watch.on_budget(text)
