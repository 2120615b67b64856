"""One invocation of a climb: whether it goes on, and why not."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from goalseek.doctor.provider_checks import refuse_unseen_scripts
from goalseek.errors import LimitReached
from goalseek.evaluation.holdout import look_at_holdout
from goalseek.evaluation.measurements import Evaluation
from goalseek.evaluation.settle import seconds_to_settle, settle_at_end
from goalseek.git.packing import pack_when_due
from goalseek.ledger.checkpoints import Checkpoints, unrecorded_seconds
from goalseek.ledger.records import IterationRecord
from goalseek.loop.ending import reporting_end
from goalseek.manifest.exposure import exposure_note
from goalseek.manifest.loading import with_manifest_option
from goalseek.measurement.verifier import has_stop_code
from goalseek.phase_values import Played
from goalseek.project.approval import undecided_verdict
from goalseek.project.config import Config
from goalseek.project.fitness import answer_notes, check_fit, check_provider
from goalseek.project.landing import check_refs
from goalseek.project.limits import (
    RUN_STOP_REASONS,
    best_home_hint,
    budget_warnings,
    median_iteration_seconds,
    why_stop,
)
from goalseek.project.progress import new_warnings, progress_of, small_set_warning, unmoved_warning
from goalseek.project.project import Project
from goalseek.project.stop import Ends, take_stop_request
from goalseek.values import Stop, StopReason, Usage

_SETTLING_SHARE = 0.1  # of the seconds that the iterations of an invocation took


def check_before_climb(project: Project) -> None:
    """The preflight of a climb. Raises GoalseekError where repository, manifest, refs or provider do not fit."""
    if note := exposure_note(project.config().manifest if project.standing.incumbent else project.loaded.manifest):
        project.watch.on_note(with_manifest_option(note, project.loaded.path))
    entries = check_fit(project)
    for note in answer_notes(project, entries):
        project.watch.on_note(note)
    check_refs(project)
    check_provider(project, entries)
    refuse_unseen_scripts(project, entries)


class Invocation:
    """An invocation of ``iterate``, bounded by ``ends``; ``project.stop`` is why it ends, once it does."""

    def __init__(self, project: Project, ends: Ends) -> None:
        self.project = project
        self._ends = ends
        self._began = time.monotonic()
        self._count = 0
        self._seconds = 0.0
        self._config: Config | None = None
        self._failures_before = sys.maxsize  # the least seen in this invocation: an answer begins the count anew
        project.stop = None
        project.ends_at = None if ends.seconds is None else self._began + ends.seconds

    @contextlib.contextmanager
    def reporting_end(self) -> Iterator[None]:
        """Checks what can be checked before a climb, and reports how the block ends."""
        with reporting_end(self.project):
            check_before_climb(self.project)
            yield

    @property
    def needs_baseline(self) -> bool:
        """Whether nothing was measured yet that a candidate could be compared with."""
        return self.project.standing.baseline is None

    def next_config(self) -> Config | None:
        """The configuration, read afresh, of the next iteration; None where none begins."""
        project = self.project
        if project.stop:
            return None
        project.repository.objects.bring_back()
        pack_when_due(project.repository, project.standing.seq, project.watch.on_note)
        config = self._config = project.config()
        _warn_of_budgets(project, config)
        now = self._ends.spendings(self._count, time.monotonic() - self._began)
        manifest, standing = config.manifest, project.standing.for_run(project.run_id)
        recent = project.ledger.recent
        project.watch.on_progress(progress_of(manifest, standing, recent, project.provider_table().label, now))
        look_at_holdout(Evaluation(project, config), is_end=False)
        project.stop = self._why_stop(config)
        return None if project.stop else config

    def count_iteration(self, record: IterationRecord) -> None:
        """Counts an iteration; one whose verifier said stop is the last."""
        self._count += 1
        self._seconds += sum(record.seconds.values())
        assert self._config
        if has_stop_code(self._config.manifest, record.verify):
            self.project.stop = Stop(StopReason.VERIFIER_SAID_STOP, record.why, "see its output: goalseek show")

    @contextlib.contextmanager
    def ending_at_limit(self) -> Iterator[None]:
        """A limit that is reached in this block ends the invocation, and leaves the iteration to a later one."""
        try:
            yield
        except LimitReached as reached:
            self.project.stop = reached.stop

    def claim(self) -> None:
        """At the end of a run, by a limit or at its target: measures baseline and best afresh, and the holdout.

        After a number of iterations it only settles, and that only where it costs little of what they took.
        """
        project, config = self.project, self._config
        assert project.stop and config
        is_run_over = project.stop.reason in RUN_STOP_REASONS
        if text := unmoved_warning(project.standing):
            project.watch.on_note(with_manifest_option(text, project.loaded.path))
        cost = seconds_to_settle(config.manifest, project.standing)
        if is_run_over or (project.stop.reason == StopReason.COUNT and cost < _SETTLING_SHARE * self._seconds):
            settle_at_end(Evaluation(project, config))
        if not is_run_over:
            return
        look_at_holdout(Evaluation(project, config), is_end=True)
        if warning := small_set_warning(config.manifest.metric, project.standing):
            project.watch.on_note(warning)

    def _why_stop(self, config: Config) -> Stop | None:
        """A limit of the run, a request to stop, the invocation's end or a script's."""
        project = self.project
        asked = take_stop_request(project.repository.own)
        failures = project.standing.for_run(project.run_id).provider_failures
        self._failures_before = min(self._failures_before, failures)
        stop = limit_stop(project, config, _usual_seconds(project), self._failures_before)
        seconds = time.monotonic() - self._began
        return stop or asked or self._ends.reached(project.standing, self._count, seconds) or self._script_end()

    def _script_end(self) -> Stop | None:
        """The stop where a script or recordings have no more moves and nothing else bounds the iterations."""
        project, standing = self.project, self.project.standing.for_run(self.project.run_id)
        is_begun = project.run_folder(standing.next_iteration).exists()
        if self._ends.count is not None or standing.baseline is None or is_begun:
            return None
        played = Played(standing.script_digest, standing.script_count)
        turn = standing.next_turn(project.loaded.manifest.search, project.provider_table().label)
        why = project.provider().in_turn(turn.names).played_out(standing.tried, played)
        hint = "add a [[move]], or a recording" + best_home_hint(standing)
        return Stop(StopReason.FAILURES, why, hint) if why else None


def limit_stop(
    project: Project, config: Config, usual: float | None = None, failures_before: int | None = None
) -> Stop | None:
    """The stop of a limit that is reached. None where the next iteration has its verdict already, so spends no more.

    ``usual`` are the seconds of an iteration, where one that cannot end in time is not to be begun. ``failures_before``
    are the provider's failures in a row before this invocation; None for those of now.
    """
    if undecided_verdict(project.loaded.runs, project.standing, project.run_id):
        return None
    standing, manifest = project.standing.for_run(project.run_id), config.manifest
    if project.standing.baseline is None:  # no phase of a baseline asks for itself
        standing = standing.spending(unrecorded_seconds(project.run_folder(0), project.run_id, ""), Usage())
    reserved = seconds_to_settle(manifest, project.standing)
    failures = standing.provider_failures if failures_before is None else failures_before
    now = project.activity.clock.now()
    return why_stop(manifest.limits, manifest.metric, standing, now, usual, reserved, failures)


def _usual_seconds(project: Project) -> float | None:
    """Usual seconds of an iteration of this run; None where the next has its candidate already and may finish."""
    standing = project.standing
    folder = project.run_folder(standing.next_iteration)
    stored = Checkpoints(folder, project.ledger.seal, project.run_id, standing.last_seal).stored()
    if any(name.answer == "candidate" and not name.is_rejection for name in stored):
        return None
    return median_iteration_seconds(record for record in project.ledger.recent if record.run_id == project.run_id)


def _warn_of_budgets(project: Project, config: Config) -> None:
    """Warns of budgets that are nearly spent, of each once a run."""
    warnings = budget_warnings(config.manifest.limits, project.standing.for_run(project.run_id))
    for text in new_warnings(project.loaded.logs, project.run_id, warnings):
        project.watch.on_budget(text)
