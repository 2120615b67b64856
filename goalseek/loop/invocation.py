"""One invocation of a climb: whether it goes on, why it stops, and its report at the end."""

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Collection, Iterator

from msgspec import structs

from goalseek import humanize, process
from goalseek.disk import read_object, remove_if_exists, write_atomic
from goalseek.doctor.checks import ask_checks, check_fit, subject_of
from goalseek.errors import USAGE, GoalseekError, Interrupted
from goalseek.evaluation.holdout import due_looks, look_at_holdout
from goalseek.evaluation.settle import seconds_to_settle, settle_at_end
from goalseek.git.packing import pack_when_due
from goalseek.ledger.checkpoints import FAILED, Checkpoints, under_way, unrecorded_seconds
from goalseek.ledger.standing import Standing
from goalseek.loop.notify import Notifier
from goalseek.loop.phases.read_context import played
from goalseek.manifest.exposure import EXPOSED, exposing_commands
from goalseek.manifest.loading import with_manifest_option
from goalseek.manifest.tables import Manifest, ProviderTable
from goalseek.measurement.verifier import has_stop_code
from goalseek.phase_values import Ahead
from goalseek.project import limits, progress
from goalseek.project.activity import OUTPUT, Observers, OutputLog
from goalseek.project.approval import undecided_verdict
from goalseek.project.config import Config
from goalseek.project.opening import fault_of
from goalseek.project.project import Project
from goalseek.project.stop import GO_ON, Ends, take_stop_request
from goalseek.providers.registry import make_permitted_provider
from goalseek.records import IterationRecord, SettleRecord
from goalseek.values import DRIVER, EXIT_CODES, Outcome, Phase, Stop, StopReason, Usage

_STATUS = {0: "completed", 1: "failed", 3: "blocked", 5: "blocked", 70: "failed"}
_SETTLING_SHARE = 0.1  # of the seconds that the iterations of an invocation took


class Invocation:
    """An invocation of ``iterate``, bounded by ``ends``; ``project.stop`` is set once it ends."""

    def __init__(self, project: Project, ends: Ends, jobs: int | None = None) -> None:
        self.project = project
        self.jobs = jobs  # proposals and measurements at once; None for the manifest's
        self._ends = ends
        self._began = time.monotonic()
        self._count = 0
        self._seconds = 0.0
        self._config: Config  # of the next iteration, since ``next_config``
        self._failures_before = sys.maxsize  # the least seen in this invocation: an answer begins the count anew
        project.stop = None
        project.ends_at = None if ends.seconds is None else self._began + ends.seconds

    @contextlib.contextmanager
    def reporting_end(self) -> Iterator[None]:
        """Run the fitness checks; notify of events in the block, and of its end.

        An early end has the last line only if the block recorded something. A fault of the machine leaves the block as
        a GoalseekError with a stop reason, such as ``disk``.
        """
        project = self.project
        watch = Observers(OutputLog(project.loaded.logs / OUTPUT), project.watch, Notifier(project))
        project.watch = project.activity.observer = watch
        first_seq = project.standing.seq

        def report_failure(stop: Stop) -> None:
            line = last_line(project.standing, project.loaded.manifest) if project.standing.seq > first_seq else ""
            project.watch.on_failed(_with_manifest_named(project, structs.replace(stop, line=line)))

        with _writing_early_end(project, report_failure):
            # Where only tries are measured, no provider is asked.
            check_fit(subject_of(project, "revert" if self._ends.count == 0 else "iterate", self.jobs))
            with process.deferring_signals():
                project.programs.start()  # it starts beside the preparations
            yield
        line = last_line(project.standing, project.loaded.manifest)
        if line and (finding := project.differences_from_head().finding):
            line += f" · {finding}"
        stop = structs.replace(project.stop or Stop(StopReason.COUNT, "done"), line=line)
        project.watch.on_stopped(_write_final_state(project, stop))

    def next_config(
        self,
        get_spending: Callable[[], limits.Spending] = lambda: limits.ALONE,
        has_candidate: bool = False,
        trial: str = "",
    ) -> Config | None:
        """The configuration, read afresh, of the next iteration; None if none may begin.

        Beside iterations under way none begins if something is due that is done alone, or if a limit would be reached
        with them: their results decide then. If a candidate only needs its measurement, budgets do not apply. A try
        (``trial``) is none of the ``count`` iterations, and costs no call. What was begun before it ends first.
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
            return config if has_room or trial else None
        self.note_stop(spending, trial)
        stop = project.stop
        if not stop and spending.ahead and not trial:
            stop, budgets = self._why_stop(spending, spending.ahead), config.manifest.limits
            if limits.has_spending_limit(budgets) and spending.is_first_call and not project.standing.tried:
                return None  # beside the first call of a climb: the spend of one is unknown yet
            # The budgets must hold another call, if running ones are usual.
            standing = spending.added_to(project.standing.for_run(project.run_id), is_foreseen=True)
            now = project.activity.clock.now()
            stop = stop or limits.find_limit(Phase.PLAN, budgets, standing, now, spending.call)
        return None if stop else config

    def next_try(self, under_way: Collection[str] = ()) -> str:
        """The oldest try that waits; "" if there is none."""
        tries = self.project.repository.tries().values()
        return next((commit for commit in tries if commit not in under_way), "")

    def note_stop(self, spending: limits.Spending, trial: str = "") -> None:
        asked = take_stop_request(self.project.repository.own)
        self.project.stop = self.project.stop or self._why_stop(spending, (), asked, trial)

    def show_progress(self, spending: limits.Spending) -> None:
        project = self.project
        now = self._ends.spendings(self._count, time.monotonic() - self._began)
        standing = spending.added_to(project.standing.for_run(project.run_id), len(spending.ahead))
        own, recent = project.provider_table().label if project.has_provider() else "", project.ledger.recent
        project.watch.on_progress(progress.progress_of(self._config.manifest, standing, recent, own, now))

    def count_iteration(self, record: IterationRecord) -> None:
        self._count += record.provider != DRIVER
        self._seconds += record.climb_seconds
        if has_stop_code(self._config.manifest, record.verify):
            self.project.stop = Stop(StopReason.VERIFIER_SAID_STOP, record.why, "see its output: goalseek show")

    def confirm_best(self) -> None:
        """At the end of a run, settle and look at the holdout; after ``count`` iterations only settle, if cheap."""
        project, config = self.project, self._config
        assert project.stop
        is_run_over = project.stop.reason in limits.RUN_STOP_REASONS
        for text in progress.fruitless_warnings(project.standing):
            project.watch.on_note(with_manifest_option(text, project.loaded.path))
        cost = seconds_to_settle(config.manifest, project.standing)
        if is_run_over or (project.stop.reason == StopReason.COUNT and cost < _SETTLING_SHARE * self._seconds):
            settle_at_end(project, config)
        if not is_run_over:
            return
        look_at_holdout(project, config, is_end=True)
        if warning := progress.small_set_warning(config.manifest.metric, project.standing):
            project.watch.on_note(warning)

    def _why_stop(
        self, spending: limits.Spending, ahead: tuple[Ahead, ...], asked: Stop | None = None, trial: str = ""
    ) -> Stop | None:
        """A limit of the run, the request ``asked``, the invocation's end or a script's; ``ahead`` count for it."""
        project, config = self.project, self._config
        failures = project.standing.for_run(project.run_id).provider_failures
        self._failures_before = min(self._failures_before, failures)
        # That a new one could not end in time is no reason to end those under way.
        usual = _usual_seconds(project) if ahead or not spending.ahead else None
        stop = limit_stop(project, config, usual, self._failures_before, spending, len(ahead))
        seconds = time.monotonic() - self._began
        ends = structs.replace(self._ends, count=None) if trial else self._ends
        ends_stop = ends.reached(project.standing, self._count + len(ahead), seconds)
        return stop or asked or ends_stop or (None if trial else self._script_end(ahead))

    def _script_end(self, ahead: tuple[Ahead, ...]) -> Stop | None:
        """The stop if a script or recordings have no more moves and nothing else bounds the iterations."""
        project, standing = self.project, self.project.standing.for_run(self.project.run_id)
        is_begun = not ahead and project.run_folder(standing.next_iteration).exists()
        if self._ends.count is not None or standing.baseline is None or is_begun:
            return None
        turn = standing.rotation.next_turn(project.loaded.manifest.search, project.provider_table().label)
        provider = project.provider().in_turn(turn.names)
        why = provider.played_out(standing.tried + sum(one.is_asked for one in ahead), played(standing, ahead))
        hint = "add a [[move]], or a recording" + limits.best_home_hint(standing)
        return Stop(StopReason.FAILURES, why, hint) if why else None


def limit_stop(
    project: Project,
    config: Config,
    usual: float | None = None,
    failures_before: int | None = None,
    spending: limits.Spending = limits.ALONE,
    iterations: int = 0,
) -> Stop | None:
    """The stop of a limit that is reached; None if the next iteration has its verdict, so spends no more.

    ``spending`` and ``iterations`` are of those under way. ``usual``: seconds of an iteration, if one that cannot end
    in time is not to begin. ``failures_before``: see ``why_stop``; None for the present ones.
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
    return limits.why_stop(manifest.limits, manifest.metric, standing, now, usual, reserved, failures)


def why_not_finish(project: Project, config: Config, author: str = "") -> str:
    """Why ``iterate`` could not finish the iteration that was begun; "" if it can. ``author`` is its provider."""
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
    """Usual seconds of an iteration of this run; None if the next has a candidate, which may finish."""
    standing = project.standing
    folder = project.run_folder(standing.next_iteration)
    stored = Checkpoints(folder, project.ledger.seal, project.run_id, standing.last_seal).stored()
    if any(name.answer == "candidate" and not name.is_rejection for name in stored):
        return None
    return progress.median_iteration_seconds(
        record for record in project.ledger.recent if record.run_id == project.run_id
    )


def _warn_of_budgets(project: Project, config: Config) -> None:
    warnings = limits.budget_warnings(config.manifest.limits, project.standing.for_run(project.run_id))
    path = project.loaded.logs / "warned.json"
    stored = read_object(path)
    known = set(stored["budgets"]) if stored.get("run_id") == project.run_id else set()
    if known != set(warnings) and path.parent.is_dir():
        write_atomic(path, json.dumps({"run_id": project.run_id, "budgets": sorted(warnings)}) + "\n")
    for budget, text in warnings.items():
        if budget not in known:
            project.watch.on_budget(text)


@contextlib.contextmanager
def recording_end(project: Project) -> Iterator[None]:
    """Write the end of a requested baseline or a step to ``state.json`` only."""
    with _writing_early_end(project, lambda stop: None):
        yield
    _write_final_state(project, Stop(StopReason.COUNT, "done", "goalseek iterate goes on"))


@contextlib.contextmanager
def _writing_early_end(project: Project, report: Callable[[Stop], None]) -> Iterator[None]:
    """Write an early end of the block to ``state.json``, and report it unless the caller wants no more records."""
    try:
        yield
    except GeneratorExit:
        _write_final_state(project, Stop(StopReason.ASKED, "the caller ended the loop", GO_ON))
        raise
    except (KeyboardInterrupt, Interrupted):
        stop = Stop(StopReason.INTERRUPTED, "interrupted by a signal", GO_ON)
        report(_write_final_state(project, stop, "interrupted"))
        raise
    except Exception as error:
        if (fault := fault_of(project, error)) is None:
            stop = Stop(StopReason.BUG, f"a bug: {type(error).__name__}: {error}", "please report it")
            report(_write_final_state(project, stop))
            raise
        stop = Stop(fault.stop_reason, fault.message, fault.hint)
        is_written = fault.exit_code != USAGE or project.activity.is_shown  # else the file is of an earlier one
        report(_write_final_state(project, stop, _STATUS.get(fault.exit_code, "failed")) if is_written else stop)
        if fault is error:
            raise
        raise fault from error


def _with_manifest_named(project: Project, stop: Stop) -> Stop:
    path = project.loaded.path
    return structs.replace(stop, next=with_manifest_option(stop.next, path), line=with_manifest_option(stop.line, path))


def _write_final_state(project: Project, stop: Stop, status: str = "") -> Stop:
    stop = _with_manifest_named(project, stop)
    if project.standing.seq < 0 and not project.activity.is_shown:
        return stop
    last, status = project.standing.last_iteration, status or _STATUS[EXIT_CODES[stop.reason]]
    try:
        project.show(status, last if last >= 0 else None, None, stop_reason=stop.reason, next=stop.next)
    except OSError:
        with contextlib.suppress(OSError):
            remove_if_exists(project.loaded.state)  # a full disk has room for the new one then
            project.activity.write()
    return stop


def last_line(standing: Standing, manifest: Manifest) -> str:
    """``val_loss 3.412 → 3.371, settled 1.1% ± 0.3% better · 2 kept of 31 · … · goalseek promote``, about this ruler.

    "" before the first measurement. The dollars are the run's.
    """
    if standing.origin is None or standing.best is None:
        return ""
    unit, settled, best = standing.unit, standing.settled, standing.best
    if not standing.keeps:
        why = ", nothing beat it" if standing.tries else ""
        why = ", every kept change was taken back" if standing.taken_back else why
        result = f"{humanize.format_number(standing.origin.value, unit)}{why}"
    elif settled:
        gain = " → ".join(humanize.format_distinct(settled.baseline, settled.best, unit=unit))
        result = f"{gain}, {_format_settled(settled)}"
    else:
        is_noisy = standing.noise.differed or manifest.metric.noise == "always"
        gain = " → ".join(humanize.format_distinct(standing.origin.value, best.value, unit=unit))
        result = gain + (", not settled: goalseek settle" if is_noisy else "")
    parts = [f"{standing.metric} {result}"]
    looks = {look.of: look for look in standing.holdout if look.value is not None}
    before, after = looks.get("baseline"), looks.get("best")
    if manifest.holdout is not None and before and after and after.commit_hash == best.commit:
        assert before.value is not None and after.value is not None
        parts.append(f"holdout {' → '.join(humanize.format_distinct(before.value, after.value))}")
    if exposing_commands(manifest):
        parts.append(EXPOSED)
    if warning := progress.open_warning(standing):
        parts.append(warning)
    if standing.tries:
        parts.append(f"{standing.keeps} kept of {standing.tries}")
    usage, kept = standing.spend.usage, standing.outcomes.get(Outcome.KEPT, 0)
    if dollars := (usage.cost_usd or 0.0) + (usage.about_usd or 0.0):
        is_subscribed = manifest.provider is not None and manifest.provider.billing == "subscription"
        about = "about " if usage.estimated or usage.about_usd or is_subscribed else ""
        of_run = " in this run" if standing.spend.iterations < standing.tries else ""
        each = f", {humanize.format_dollars(dollars / kept)} a kept change" if kept > 1 else ""
        parts.append(f"{humanize.at_least(usage)}{about}{humanize.format_dollars(dollars)}{of_run}{each}")
    following = "goalseek promote" if standing.keeps else "goalseek log"
    following = "goalseek status" if standing.worse_than_baseline else following  # which names the way back
    return " · ".join([*parts, "your checkout is untouched", following])


def _format_settled(record: SettleRecord) -> str:
    """``settled 1.1% ± 0.3% better``, or that no gain was shown."""
    if record.result.no_gain:
        return record.result.no_gain

    def amount(size: float) -> str:
        return humanize.format_percent(size) if record.in_percent else humanize.format_number(size, record.unit)

    text, better = f"settled {amount(abs(record.difference))}", humanize.better_or_worse(record.difference)
    if record.interval is None:
        return f"{text} {better}, one pair"
    low, high = record.interval
    if math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-12):
        return f"{text} {better}, exactly"
    return f"{text} ± {amount((high - low) / 2)} {better}"
