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


def iterate(run: Project, ends: Ends) -> Iterator[IterationRecord]:
    """Climbs until something ends it, yielding each record once it counts. ``run.stop`` says then what it was."""
    notified = NotifyWatch(run.watch, lambda: run.loaded, run.programs)
    run.watch = OutputLog(notified, run.loaded.logs / OUTPUT)
    with reporting_end(run):
        yield from _climb(run, ends)


def _climb(run: Project, ends: Ends) -> Iterator[IterationRecord]:
    began, count = time.monotonic(), 0
    run.ends_at = None if ends.seconds is None else began + ends.seconds
    entries = check_fit(run)
    check_refs(run)
    check_provider(run, entries)
    while True:
        run.repository.objects.bring_back()
        pack_when_due(run.repository, run.standing.seq, run.watch.on_note)
        setting = run.config()
        _warn(run, setting)
        now = ends.spendings(count, time.monotonic() - began)
        manifest, standing = setting.manifest, run.standing.of_run(run.run_id)
        run.watch.on_progress(scene_of(manifest.project.name, manifest.limits, standing, run.recent, now))
        look(run, setting, is_end=False)
        run.stop = _why_end(run, setting, ends, count, time.monotonic() - began)
        if run.stop:
            _claim(run, setting, run.stop)
            return
        if run.standing.baseline is None:
            yield baseline(run)
            continue
        try:
            with failure_kept(run):
                record = iteration(run, setting)
        except LimitReached as reached:
            run.stop = reached.stop
            _claim(run, setting, run.stop)
            return
        count += 1
        yield record
        if said_stop(setting.manifest, record.verify):
            run.stop = Stop("verifier_said_stop", record.why, "see its output: goalseek show")
            return


def _claim(run: Project, setting: Config, stop: Stop) -> None:
    """What is claimed is measured afresh where the run ends by a limit or at its target, and the holdout looked at."""
    if stop.reason not in ENDS_THE_RUN:
        return
    settle_at_end(run, setting)
    look(run, setting, is_end=True)
    if worn := small_set(setting.manifest.metric, run.standing):
        run.watch.on_note(worn)


def iteration(run: Project, setting: Config, most: int | None = None) -> IterationRecord:
    """One iteration, or what is still owed of it. Raises Paused where ``most`` phases were done before its end.

    Raises LimitReached where a phase that spends would begin past a limit.
    """
    standing = run.standing
    number = standing.last_iteration + 1
    desk, folder = begin_iteration(run, number, most, limits=setting.manifest.limits)
    refs = run.repository.refs()
    if lost := left_behind(run, desk, refs):
        return record_left_behind(run, setting, refs, lost, most)
    run.provider()
    context = plan = decision = None
    tries = Attempts()
    try:
        context = desk.do("READ_CONTEXT", "context", Context, partial(_begun, run, setting, refs, folder))
        setting = run.config_as_begun(setting, context)
        briefing = briefing_for(run, setting, context)
        plan = plan_with_retry(run, setting, desk, briefing, folder)
        tries = run_attempts(run, setting, desk, briefing, plan, folder)
        tries, decision = decide_and_review(run, setting, desk, briefing, plan, folder, tries)
        if needs_approval(run, setting, decision):
            candidate = tries.measured()[1]
            said = partial(apply_approval, run, context, candidate, decision)
            decision = desk.do("APPROVE", "word", Decision, said, is_timed=False)
        verdict = decision.verdict
    except Rejected as rejected:
        verdict = Verdict(rejected.outcome, rejected.reason, rejected.why + _out_of_sight(run, setting, rejected))
    assert context
    found = (tries.change, tries.candidate, tries.evidence)
    outcome = IterationResult(context, verdict, plan, *found, decision, tries.attempts, tries.notes)
    record = record_iteration(run, setting, desk, outcome, folder)
    update_refs(run)
    remove_approval(run.loaded.logs)
    return record


def _out_of_sight(run: Project, setting: Config, rejected: Rejected) -> str:
    """What is likely to have kept a provider from answering, after what it said itself; or ""."""
    if rejected.reason != "provider_failed" or run.standing.incumbent is None:
        return ""
    entries = run.repository.objects.files(run.standing.incumbent.tree)
    share = setting.manifest.scope.share
    said = agent_out_of_sight(commands_of(run.provider()), run.folder, setting.scope, share, entries)
    return "; " + ": ".join(said) if said[0] else ""


def _begun(run: Project, setting: Config, refs: Refs, folder: Path) -> Context:
    """The context; a ruler that is not as it was pinned is found before anybody is paid for a proposal."""
    run.refuse_changed(setting)
    return read_context(run, setting, refs, folder)


def baseline(run: Project, source: str | None = None, most: int | None = None) -> IterationRecord:
    """A new ruler from HEAD, measured under the incumbent's code; with ``source``, under that revision's.

    Raises GoalseekError where the measurement fails: then nothing is recorded, and nothing has changed.
    """
    make_way(run, partial(_why_not_finish, run))
    setting = note_left_out(run, run.fresh_config(), source)
    number = run.standing.last_iteration + 1
    ruler = take_ruler(run, setting)
    desk, folder = begin_iteration(run, number, most, f"{ruler.digest} {run.repository.head()} {source or ''}")
    context = desk.do("READ_CONTEXT", "context", Context, partial(_begun_baseline, run, setting, folder, source))
    candidate = desk.do("COMMIT", "candidate", Candidate, lambda: baseline_candidate(run, setting, context, source))
    if not run.repository.objects.has(candidate.commit):
        desk.forget("candidate")
        raise Missing(candidate.commit)
    owed = partial(next_baseline_measurement, run, setting, ruler.digest, candidate, folder)
    evidence = desk.gather("VERIFY", "evidence", Evidence(), owed)
    metric, guards = setting.manifest.metric, setting.manifest.guard
    verdict = baseline_verdict(metric, guards, evidence, candidate.commit)
    assert verdict is not None  # else VERIFY would not have ended
    decision = desk.do("DECIDE", "verdict", Decision, lambda: Decision(verdict))
    if not decision.verdict:
        desk.forget("evidence")
        entries = run.repository.objects.files(candidate.tree)
        remedy = out_of_sight(setting.manifest, evidence.verify, run.folder, run.places.prefix, entries)
        raise failed_baseline(decision.verdict, folder, remedy=remedy)
    broken = guard_warning(guards, "the baseline", evidence.guards, {})
    notes = (broken,) if broken else ()
    outcome = IterationResult(context, decision.verdict, None, None, candidate, evidence, decision, notes=notes)
    record = record_iteration(run, setting, desk, outcome, folder, ruler)
    update_refs(run)
    return record


def _begun_baseline(run: Project, setting: Config, folder: Path, source: str | None) -> Context:
    """The context; that the checkout holds what is not measured is said before the measurement."""
    code = source or ("the incumbent" if run.standing.incumbent else "HEAD")
    if changed := uncommitted_words(run.repository, setting.scope, code):
        run.watch.on_note(changed)
    return read_baseline_context(run, setting, folder)


def step(run: Project) -> tuple[str, str]:
    """Does exactly one phase; gives its name and that of the next one."""
    entries = check_fit(run)
    check_refs(run)
    check_provider(run, entries)
    pack_when_due(run.repository, run.standing.seq, run.watch.on_note)
    try:
        if run.standing.baseline is None:
            record = baseline(run, most=1)
        else:
            setting = run.config()
            if stop := _why_over(run, setting):
                raise GoalseekError(stop.why, stop.next, stop.exit_code, stop.reason)
            with failure_kept(run):
                record = iteration(run, setting, most=1)
    except LimitReached as reached:
        stop = reached.stop
        raise GoalseekError(stop.why, stop.next, stop.exit_code, stop.reason) from None
    except Paused as paused:
        return run.last_phase, paused.following
    return f"LOG (iteration {record.iteration}: {record.outcome})", "READ_CONTEXT"


def _why_end(run: Project, setting: Config, ends: Ends, count: int, seconds: float) -> Stop | None:
    """What ends the invocation before another iteration begins: a limit of the run, a person's word, its own ends."""
    asked = asked_to_stop(run.repository.own)
    stop = _why_over(run, setting, _usual_seconds(run))
    return stop or asked or ends.reached(run.standing, count, seconds) or _played_out(run, ends)


def _played_out(run: Project, ends: Ends) -> Stop | None:
    """The end of a script, where nothing else bounds the iterations: each further one would fail."""
    standing = run.standing
    is_begun = (run.loaded.runs / f"{standing.last_iteration + 1:04d}").exists()
    if ends.count is not None or standing.baseline is None or is_begun:
        return None
    why = run.provider().played_out(standing.tried)
    return Stop("failures", why, "add a [[move]]; or take the best home: goalseek promote") if why else None


def _why_over(run: Project, setting: Config, usual: float | None = None) -> Stop | None:
    """The limit of the run that is reached; not asked where the next iteration has its verdict: all of it is spent."""
    if question_of(run.loaded.runs, run.standing, run.run_id):
        return None
    standing, manifest = run.standing.of_run(run.run_id), setting.manifest
    if run.standing.baseline is None:  # no phase of a baseline asks for itself
        standing = standing.spending(unrecorded_seconds(run.loaded.runs / "0000", run.run_id, ""), Usage())
    reserved = seconds_to_settle(manifest, run.standing)
    return why_stop(manifest.limits, manifest.metric, standing, run.clock.now(), usual, reserved)


def _why_not_finish(run: Project, setting: Config) -> str:
    """Why ``iterate`` would not go on with what is under way; "" where nothing is in its way."""
    assert run.standing.incumbent
    try:
        check_provider(run, files_of(run, run.standing.incumbent.commit))
    except GoalseekError as error:
        return error.message
    stop = _why_over(run, setting)
    return stop.why if stop else ""


def _usual_seconds(run: Project) -> float | None:
    """The pace of this run; not asked where the next iteration has its candidate already, which may finish."""
    following = run.loaded.runs / f"{run.standing.last_iteration + 1:04d}"
    if (following / "candidate.json").exists():
        return None
    return pace(record for record in run.recent if record.run_id == run.run_id)


def _warn(run: Project, setting: Config) -> None:
    """Says which budgets come near their end, each once a run."""
    told = budget_warnings(setting.manifest.limits, run.standing.of_run(run.run_id))
    for text in new_warnings(run.loaded.logs, run.run_id, told):
        run.watch.on_budget(text)
