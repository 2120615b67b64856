"""One invocation of a climb: whether it goes on, and why not."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator

from msgspec import structs

from goalseek.disk import read_object, write_atomic
from goalseek.doctor.checks import ask_checks, check_fit
from goalseek.doctor.project_checks import subject_of
from goalseek.errors import GoalseekError
from goalseek.evaluation.holdout import due_looks, look_at_holdout
from goalseek.evaluation.settle import seconds_to_settle, settle_at_end
from goalseek.git.packing import pack_when_due
from goalseek.ledger.checkpoints import FAILED, Checkpoints, under_way, unrecorded_seconds
from goalseek.loop.ending import reporting_end
from goalseek.loop.phases.read_context import count_proposals, played
from goalseek.manifest.loading import with_manifest_option
from goalseek.manifest.tables import ProviderTable
from goalseek.measurement.verifier import has_stop_code
from goalseek.phase_values import Ahead
from goalseek.project.approval import undecided_verdict
from goalseek.project.config import Config
from goalseek.project.limits import (
    ALONE,
    RUN_STOP_REASONS,
    Spending,
    best_home_hint,
    budget_warnings,
    find_limit,
    has_spending_limit,
    why_stop,
)
from goalseek.project.progress import (
    fruitless_warnings,
    median_iteration_seconds,
    progress_of,
    small_set_warning,
)
from goalseek.project.project import Project
from goalseek.project.stop import Ends, take_stop_request
from goalseek.providers.registry import make_permitted_provider
from goalseek.records import IterationRecord
from goalseek.values import Phase, Stop, StopReason, Usage

_SETTLING_SHARE = 0.1  # of the seconds that the iterations of an invocation took


class Invocation:
    """An invocation of ``iterate``, bounded by ``ends``; ``project.stop`` is why it ends, once it does.

    ``jobs`` proposals and as many measurements are made at once; None for what the manifest says.
    """

    def __init__(self, project: Project, ends: Ends, jobs: int | None = None) -> None:
        self.project = project
        self.jobs = jobs
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
            check_fit(subject_of(self.project, "iterate", self.jobs))
            yield

    @property
    def needs_baseline(self) -> bool:
        return self.project.standing.baseline is None

    def next_config(
        self, get_spending: Callable[[], Spending] = lambda: ALONE, has_candidate: bool = False
    ) -> Config | None:
        """The configuration, read afresh, of the next iteration; None where none begins.

        If the spending has iterations under way, what is to be done alone is a reason to begin none. So is a limit that
        is reached only with them: how they end decides whether the climb does. One that ``has_candidate`` owes no more
        than its measurement, and is held back by no budget.
        """
        project = self.project
        if project.stop:
            return None
        # What an iteration has made that has no record yet may be named by no ref, however long ago it began.
        project.repository.objects.bring_back(is_forgetting=self._count > 0)
        pack_when_due(project.repository, project.standing.seq, project.watch.on_note)
        config = self._config = project.config()
        _warn_of_budgets(project, config)
        spending = get_spending()  # while a program was told of a budget, others may have landed
        self.show_progress(spending)
        if spending.ahead and due_looks(config.manifest, project.standing, is_end=False):
            return None
        look_at_holdout(project, config, is_end=False)
        if has_candidate:
            has_room = self._ends.count is None or self._count + len(spending.ahead) < self._ends.count
            return config if has_room else None
        self.note_stop(spending)
        if project.stop or not spending.ahead:
            return None if project.stop else config
        if self._why_stop(config, spending, spending.ahead):
            return None
        limits = config.manifest.limits
        if has_spending_limit(limits) and spending.is_first_call and not project.standing.tried:
            return None  # beside the first call of a climb: nobody knows yet what one takes
        standing = spending.added_to(project.standing.for_run(project.run_id), is_foreseen=True)
        stop = find_limit(Phase.PLAN, limits, standing, project.activity.clock.now(), spending.call)
        return None if stop else config  # the budgets hold another call, if those under way take what they usually do

    def note_stop(self, spending: Spending) -> None:
        """Notes the end that is reached whatever becomes of those under way ``beside``: they are a reason for none."""
        assert self._config
        asked = take_stop_request(self.project.repository.own)
        stop = self._why_stop(self._config, spending, (), asked)
        self.project.stop = self.project.stop or stop

    def show_progress(self, spending: Spending) -> None:
        project = self.project
        assert self._config
        now = self._ends.spendings(self._count, time.monotonic() - self._began)
        manifest = self._config.manifest
        standing = spending.added_to(project.standing.for_run(project.run_id), len(spending.ahead))
        recent = project.ledger.recent
        project.watch.on_progress(progress_of(manifest, standing, recent, project.provider_table().label, now))

    def count_iteration(self, record: IterationRecord) -> None:
        """Counts an iteration; one whose verifier said stop is the last."""
        self._count += 1
        self._seconds += record.climb_seconds
        assert self._config
        if has_stop_code(self._config.manifest, record.verify):
            self.project.stop = Stop(StopReason.VERIFIER_SAID_STOP, record.why, "see its output: goalseek show")

    def claim(self) -> None:
        """At the end of a run, by a limit or at its target: measures baseline and best afresh, and the holdout.

        After a number of iterations it only settles, and that only where it costs little of what they took.
        """
        project, config = self.project, self._config
        assert project.stop and config
        is_run_over = project.stop.reason in RUN_STOP_REASONS
        for text in fruitless_warnings(project.standing):
            project.watch.on_note(with_manifest_option(text, project.loaded.path))
        cost = seconds_to_settle(config.manifest, project.standing)
        if is_run_over or (project.stop.reason == StopReason.COUNT and cost < _SETTLING_SHARE * self._seconds):
            settle_at_end(project, config)
        if not is_run_over:
            return
        look_at_holdout(project, config, is_end=True)
        if warning := small_set_warning(config.manifest.metric, project.standing):
            project.watch.on_note(warning)

    def _why_stop(
        self, config: Config, spending: Spending, ahead: tuple[Ahead, ...], asked: Stop | None = None
    ) -> Stop | None:
        """A limit of the run, what was ``asked`` of it, the invocation's end or a script's; ``ahead`` count for it."""
        project = self.project
        failures = project.standing.for_run(project.run_id).provider_failures
        self._failures_before = min(self._failures_before, failures)
        # That a new one could not end in time is no reason to end those under way.
        usual = _usual_seconds(project) if ahead or not spending.ahead else None
        stop = limit_stop(project, config, usual, self._failures_before, spending, len(ahead))
        seconds = time.monotonic() - self._began
        ends_stop = self._ends.reached(project.standing, self._count + len(ahead), seconds)
        return stop or asked or ends_stop or self._script_end(ahead)

    def _script_end(self, ahead: tuple[Ahead, ...]) -> Stop | None:
        """The stop where a script or recordings have no more moves and nothing else bounds the iterations."""
        project, standing = self.project, self.project.standing.for_run(self.project.run_id)
        is_begun = not ahead and project.run_folder(standing.next_iteration).exists()
        if self._ends.count is not None or standing.baseline is None or is_begun:
            return None
        turn = standing.rotation.next_turn(project.loaded.manifest.search, project.provider_table().label)
        provider = project.provider().in_turn(turn.names)
        why = provider.played_out(standing.tried + count_proposals(ahead), played(standing, ahead))
        hint = "add a [[move]], or a recording" + best_home_hint(standing)
        return Stop(StopReason.FAILURES, why, hint) if why else None


def limit_stop(
    project: Project,
    config: Config,
    usual: float | None = None,
    failures_before: int | None = None,
    spending: Spending = ALONE,
    iterations: int = 0,
) -> Stop | None:
    """The stop of a limit that is reached. None where the next iteration has its verdict already, so spends no more.

    Of those that are under way, which end by themselves, ``spending`` has the spend, and so many ``iterations`` count.
    ``usual`` are the seconds of an iteration, where one that cannot end in time is not to be begun. ``failures_before``
    are the provider's failures in a row before this invocation; None for those of now.
    """
    begun = under_way(project.loaded.runs, project.standing, project.run_id)
    if not spending.ahead and any(undecided_verdict(project.loaded.runs, one, project.run_id) for one in begun):
        return None
    standing, manifest = spending.added_to(project.standing.for_run(project.run_id), iterations), config.manifest
    standing = structs.replace(standing, stagnation=standing.stagnation + iterations)
    if project.standing.baseline is None:  # no phase of a baseline asks for itself
        standing = standing.spending(unrecorded_seconds(project.run_folder(0), project.run_id, ""), Usage())
    reserved = seconds_to_settle(manifest, project.standing)
    failures = standing.provider_failures if failures_before is None else failures_before
    now = project.activity.clock.now()
    return why_stop(manifest.limits, manifest.metric, standing, now, usual, reserved, failures)


def why_not_finish(project: Project, config: Config, author: str = "") -> str:
    """Why ``iterate`` could not finish the iteration that was begun; "" where it can.

    ``author`` is the provider that it was begun with: where none is named now, it is to be named for that again.
    """
    assert project.standing.incumbent
    for begun in under_way(project.loaded.runs, project.standing, project.run_id):
        checkpoints = Checkpoints(project.run_folder(begun.iteration), project.ledger.seal, "", begun.follows)
        if failure := checkpoints.load(FAILED, str, ""):
            return str(failure.value)
    try:
        findings = ask_checks(subject_of(project, "iterate"), ("globs", "provider")) if project.has_provider() else ()
        if why := next((finding.text for finding in findings if not finding.ok), ""):
            return why
        if author and not project.has_provider():
            make_permitted_provider(project.loaded, ProviderTable(name=author))
    except GoalseekError as error:
        return error.message
    stop = limit_stop(project, config)
    return stop.why if stop else ""


def _usual_seconds(project: Project) -> float | None:
    """Usual seconds of an iteration of this run; None where the next has its candidate already and may finish."""
    standing = project.standing
    folder = project.run_folder(standing.next_iteration)
    stored = Checkpoints(folder, project.ledger.seal, project.run_id, standing.last_seal).stored()
    if any(name.answer == "candidate" and not name.is_rejection for name in stored):
        return None
    return median_iteration_seconds(record for record in project.ledger.recent if record.run_id == project.run_id)


def _warn_of_budgets(project: Project, config: Config) -> None:
    warnings = budget_warnings(config.manifest.limits, project.standing.for_run(project.run_id))
    path = project.loaded.logs / "warned.json"
    stored = read_object(path)
    known = set(stored["budgets"]) if stored.get("run_id") == project.run_id else set()
    if known != set(warnings) and path.parent.is_dir():
        write_atomic(path, json.dumps({"run_id": project.run_id, "budgets": sorted(warnings)}) + "\n")
    for budget, text in warnings.items():
        if budget not in known:
            project.watch.on_budget(text)
