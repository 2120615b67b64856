"""The steps of one iteration: a phase whose result is checkpointed is not run again."""

import contextlib
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import ParamSpec, TypeVar

from msgspec import structs

from goalseek.disk import machine_error
from goalseek.errors import GoalseekError, LimitReached, Paused, Rejected
from goalseek.ledger.checkpoints import FAILED, Begun, Checkpoint, CheckpointName, Checkpoints, chain
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import make_log_folders
from goalseek.manifest.tables import Limits
from goalseek.phase_values import Evidence, Rejection, Verdict
from goalseek.project.activity import PhaseSeconds, Timing
from goalseek.project.limits import LIMITS_BY_PHASE, RUN_STOP_REASONS, Spending, find_limit
from goalseek.project.opening import refuse_foreign_logs
from goalseek.project.project import Project
from goalseek.proposal.launch import usage_left
from goalseek.proposal.usage import UsageLog, median_call
from goalseek.values import Phase, Stop, StopReason, Usage, from_plain
from goalseek.workspace.places import CachePaths

Value = TypeVar("Value")
Inputs = ParamSpec("Inputs")


class StepRunner:
    """Runs the steps of one iteration in order: asks the limits, works, checkpoints the result, charges the usage.

    Checkpoints hold for this run, the record that the iteration began after, and the same ``source``. ``places_of``
    gives the places of the calls of a phase.
    """

    def __init__(
        self,
        project: Project,
        begun: Begun,
        source: str,
        limits: Limits | None,
        phase_limit: int | None,
        places_of: Callable[[str], CachePaths],
    ) -> None:
        self.number = number = begun.iteration
        self.folder = project.run_folder(number)
        refuse_foreign_logs(project.loaded, number)
        self.get_spending: Callable[[], Spending] = self._own_spending  # not recorded yet, with running calls
        self.is_asking = False
        self._project = project
        self._limits = limits
        self._remaining = math.inf if phase_limit is None else phase_limit  # phases that may run now
        self._make_folder()
        self._checkpoints = Checkpoints(self.folder, project.ledger.seal, project.run_id, begun.follows)
        self._answers = self._checkpoints.stored()
        self.phase_seconds = project.activity.phase_seconds = PhaseSeconds(self._checkpoints, project.activity.seconds)
        self.usage_log = UsageLog(
            self._checkpoints,
            lambda call, session: usage_left(project, places_of(call.phase), call, session),
            cache(lambda calls_each: median_call(project.ledger.recent, calls_each)),
            self._standing,
        )
        self._finished: dict[CheckpointName, tuple[Phase, float]] = {}
        self._digest = f"iteration {number} {source}".rstrip()
        self.resumed_from = tuple(self.chain()) if phase_limit is None else ()

    def do(
        self,
        phase: Phase,
        name: CheckpointName,
        kind: type[Value],
        work: Callable[Inputs, Value],
        *inputs: Inputs.args,
        **options: Inputs.kwargs,
    ) -> Value:
        """The phase's result: from checkpoint ``name``, or from ``work``, checkpointed before this returns.

        Raises Rejected if ``work`` does or did so before, Paused if no more phases may run now, and LimitReached.
        """
        is_timed = phase is not Phase.APPROVE  # its wait for a person counts nowhere
        checkpoint = self._stored(name, kind) or self._stored(name.rejection, Rejection)
        rejected: Rejected | None = None
        if checkpoint is None:
            self._begin_part(phase, is_first=True)
            self.usage_log.current_step = str(name)
            timing = self.phase_seconds.of(phase) if is_timed else contextlib.nullcontext(Timing())
            try:
                with timing as taken:
                    value = work(*inputs, **options)
                checkpoint = self._save(name, value, taken.seconds)
            except Rejected as error:
                rejected, answer = error, (error.usage, error.edits, error.plan)
                rejection = Rejection(error.outcome, error.reason, error.why, *answer)
                checkpoint = self._save(name.rejection, rejection, taken.seconds)
            finally:
                self.is_asking = False
            self._remaining -= 1
        result: Value | Rejection = checkpoint.value
        if is_timed:
            self._finished[name] = (phase, checkpoint.seconds)
            self.usage_log.answers[name] = getattr(result, "usage", Usage())
        self._digest = checkpoint.seal
        if isinstance(result, Rejection):
            answer = (result.usage, result.edits, result.plan)
            raise rejected or Rejected(result.outcome, result.reason, result.why, "", *answer)
        return result

    def gather(
        self, name: CheckpointName, next_run: Callable[[Evidence], Callable[[], Evidence] | Verdict]
    ) -> tuple[Evidence, Verdict]:
        """VERIFY's evidence, run by run: each run is checkpointed before the next, so a killed phase resumes there.

        ``next_run`` returns the run that adds to the evidence so far, or the verdict once it suffices. It must return a
        run for no evidence.
        """
        checkpoint = self._stored(name, Evidence)
        evidence: Evidence = checkpoint.value if checkpoint else Evidence()
        spent = checkpoint.seconds if checkpoint else 0.0
        has_worked = False
        while callable(run := next_run(evidence)):
            if checkpoint:
                self._finished[name] = (Phase.VERIFY, spent)
            self._begin_part(Phase.VERIFY, is_first=not has_worked)
            has_worked = True
            with self.phase_seconds.of(Phase.VERIFY) as taken:
                evidence = run()
            spent += taken.seconds
            checkpoint = self._save(name, evidence, spent)
        assert checkpoint
        self._remaining -= has_worked
        self._finished[name], self._digest = (Phase.VERIFY, checkpoint.seconds), checkpoint.seal
        return evidence, run

    def has(self, *names: CheckpointName) -> bool:
        """Whether one of these checkpoints follows the last one."""
        stored = (self._answers.get(name) for name in names)
        return any(checkpoint is not None and checkpoint.made_from == self._digest for checkpoint in stored)

    def chain(self) -> list[CheckpointName]:
        return chain(self._answers, self._digest)

    def forget(self, answer: str) -> None:
        """The phase will run again, and so will all that followed from it."""
        self._checkpoints.forget(CheckpointName(answer))
        self._answers.pop(CheckpointName(answer), None)

    @contextlib.contextmanager
    def saving_failure(self) -> Iterator[None]:
        """Save the error that ends the iteration without a record, unless it passes by itself, as a signal does."""
        checkpoints = self._checkpoints.of_run("")
        checkpoints.forget(FAILED)
        try:
            yield
        except Exception as error:
            if isinstance(error, LimitReached):
                why = error.stop.why if error.stop.reason in RUN_STOP_REASONS else ""
            elif isinstance(error, GoalseekError):
                passing = (StopReason.DISK, StopReason.CLUSTER, StopReason.NEEDS_HUMAN)
                why = "" if error.stop_reason in passing else error.message
            else:
                is_passing = isinstance(error, Paused) or machine_error(error)
                why = "" if is_passing else f"{type(error).__name__}: {error}"
            if why:
                checkpoints.save(FAILED, why, "", 0.0)
            raise

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase over all attempts, with those of killed phases."""
        by_phase: dict[str, float] = {}
        for phase, spent in self._finished.values():
            by_phase[phase] = by_phase.get(phase, 0.0) + spent
        counted = self.phase_seconds.phases  # less than in the checkpoints only if it was removed, or power was cut
        return {phase: max(by_phase.get(phase, 0.0), counted.get(phase, 0.0)) for phase in {**by_phase, **counted}}

    def usage_before(self) -> Usage:
        for name in self.resumed_from:
            usage = from_plain(Usage, self._answers[name].value.get("usage") or {})
            self.usage_log.answers[structs.replace(name, is_rejection=False)] = usage
        self.usage_log.settle()
        return self.usage_log.spending().usage

    def _stored(self, name: CheckpointName, kind: type) -> Checkpoint | None:
        stored = self._answers.get(name)
        return stored.decoded(kind, self._digest) if stored else None

    def _save(self, name: CheckpointName, value: object, seconds: float) -> Checkpoint:
        checkpoint = self._answers[name] = self._checkpoints.save(name, value, self._digest, seconds)
        return checkpoint

    def _standing(self, is_foreseen: bool = False) -> Standing:
        standing = self._project.standing.for_run(self._project.run_id)
        return self.get_spending().added_to(standing, is_foreseen=is_foreseen)

    def _own_spending(self) -> Spending:
        seconds = sum(self.seconds.values()) + self.phase_seconds.uncounted
        return self.usage_log.spending(seconds)

    def _begin_part(self, phase: Phase, is_first: bool) -> None:
        if self._remaining == 0:
            raise Paused(phase)
        project = self._project
        if not self.usage_log.is_settled:  # a kill or another iteration may have broken a call off
            self.usage_log.settle()
        stop = self._find_stop(phase)
        if stop and self._is_up_to_others(stop):
            with project.activity.waiting("the running calls may reach a limit; the next call waits for them"):
                while stop and self._is_up_to_others(stop):
                    project.pause()
                    project.beat()  # raises if another ended the climb meanwhile
                    stop = self._find_stop(phase)
        if stop:
            raise LimitReached(stop)
        self.is_asking = phase in LIMITS_BY_PHASE and phase != Phase.VERIFY
        project.activity.last_phase = phase
        if not self.folder.is_dir():  # somebody's git clean may have removed it
            self._make_folder()
        if is_first:
            project.watch.on_phase(self.number, phase)
            if phase in LIMITS_BY_PHASE:  # the others are over at once
                project.show("running", self.number, phase)

    def _find_stop(self, phase: Phase) -> Stop | None:
        if self._limits is None or phase not in LIMITS_BY_PHASE:
            return None
        standing, now = self._standing(is_foreseen=True), self._project.activity.clock.now()
        call = None if phase == Phase.VERIFY else self.usage_log.usual()
        return find_limit(phase, self._limits, standing, now, call)

    def _is_up_to_others(self, stop: Stop) -> bool:
        """A step that exceeds a budget only together with running calls waits for them."""
        return stop.reason in (StopReason.TOKENS, StopReason.COST) and self.get_spending().foreseen != Usage()

    def _make_folder(self) -> None:
        make_log_folders(self._project.loaded)
        self.folder.mkdir(parents=True, exist_ok=True)
