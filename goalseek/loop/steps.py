"""Runs the phases of one iteration. A phase whose result is checkpointed is not run again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from goalseek.errors import LimitReached, Paused, Rejected
from goalseek.ledger.checkpoints import Checkpoints, PhaseSeconds, rejection_name
from goalseek.manifest.loading import make_log_folders
from goalseek.manifest.tables import Limits
from goalseek.phase_values import Rejection, Verdict
from goalseek.project.limits import limit_before_phase
from goalseek.project.preflight import refuse_foreign_logs
from goalseek.project.project import Project
from goalseek.proposal.usage import UsageLog, add_usages, killed_call_usage, median_call
from goalseek.providers.answer import read_usage
from goalseek.values import Phase, Usage

Value = TypeVar("Value")


@dataclass(frozen=True)
class FinishedPhase:
    """A phase that has a result: its seconds, its usage, and the reason if the result was a rejection."""

    phase: str
    seconds: float
    usage: Usage = Usage()
    rejected: str = ""


class StepRunner:
    """Runs the phases of one iteration, in order, with checkpoints. ``limit`` is how many may run now (None: all).

    ``on_phase`` is called before a phase begins (True) and before each further part of it (False), and may raise.
    ``done`` has the finished phases by checkpoint name, with the usage that each reported; ``calls`` has the usage of
    calls without a result. ``phase_seconds`` counts the time of all phases, killed ones included. ``found`` are the
    checkpoints that an earlier invocation left; empty where ``limit`` is given, as ``step`` always goes on.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        usage_log: UsageLog,
        source: str,
        on_phase: Callable[[str, bool], None],
        limit: int | None,
        phase_seconds: PhaseSeconds,
    ) -> None:
        self.calls = usage_log
        self.done: dict[str, FinishedPhase] = {}
        self._checkpoints = checkpoints
        self._digest = source
        self._on_phase = on_phase
        self._remaining = limit
        self._phase_seconds = phase_seconds
        self.found = tuple(self.chain()) if limit is None else ()

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase, over all attempts, with those that a kill or a signal cut short."""
        by_phase: dict[str, float] = {}
        for done in self.done.values():
            by_phase[done.phase] = by_phase.get(done.phase, 0.0) + done.seconds
        counted = self._phase_seconds.phases  # less than in the checkpoints only if it was removed, or power was cut
        return {phase: max(by_phase.get(phase, 0.0), counted.get(phase, 0.0)) for phase in {**by_phase, **counted}}

    def do(self, phase: str, name: str, kind: type[Value], work: Callable[[], Value], is_timed: bool = True) -> Value:
        """The phase's result: from checkpoint ``name``, or of ``work`` and then checkpointed before this returns.

        A phase that waits for a person is not timed: its seconds count nowhere. Raises Rejected where ``work`` does or
        did so before, and Paused where no more phases may run now.
        """
        checkpoint = self._checkpoints.load(name, kind, self._digest)
        if checkpoint is None:
            self._raise_stored_rejection(phase, name)
            if self._remaining == 0:
                raise Paused(phase)
            self._on_phase(phase, True)
            began = self._phase_seconds.clock()
            self.calls.current_step = name
            try:
                with self._phase_seconds.of(phase) if is_timed else contextlib.nullcontext():
                    value = work()
            except Rejected as rejected:
                seconds = self._phase_seconds.clock() - began
                rejection = Rejection(rejected.outcome, rejected.reason, rejected.why, rejected.usage, rejected.edits)
                self._digest = self._checkpoints.save(rejection_name(name), rejection, self._digest, seconds).digest
                self.done[name] = FinishedPhase(phase, seconds, rejected.usage, rejected.reason)
                if self._remaining is not None:
                    self._remaining -= 1
                raise
            seconds = self._phase_seconds.clock() - began if is_timed else 0.0
            checkpoint = self._checkpoints.save(name, value, self._digest, seconds)
            if self._remaining is not None:
                self._remaining -= 1
        if is_timed:
            self.done[name] = FinishedPhase(phase, checkpoint.seconds, getattr(checkpoint.value, "usage", Usage()))
        self._digest = checkpoint.digest
        answer_value: Value = checkpoint.value
        return answer_value

    def gather(
        self, phase: str, name: str, initial: Value, next_part: Callable[[Value], Callable[[], Value] | Verdict]
    ) -> tuple[Value, Verdict]:
        """A result that grows part by part, each checkpointed before the next: a killed phase goes on there.

        ``next_part`` gives for the result so far the work that extends it by one part, or the verdict on it if it is
        complete; for ``initial`` it must give work. Raises Paused where no more phases may run now.
        """
        checkpoint = self._checkpoints.load(name, type(initial), self._digest)
        value: Value = checkpoint.value if checkpoint else initial
        spent = checkpoint.seconds if checkpoint else 0.0
        has_worked = False
        while not isinstance(work := next_part(value), Verdict):
            if self._remaining == 0:
                raise Paused(phase)
            if checkpoint:
                self.done[name] = FinishedPhase(phase, spent)
            self._on_phase(phase, not has_worked)
            has_worked, began = True, self._phase_seconds.clock()
            with self._phase_seconds.of(phase):
                value = work()
            spent += self._phase_seconds.clock() - began
            checkpoint = self._checkpoints.save(name, value, self._digest, spent)
        assert checkpoint
        if has_worked and self._remaining is not None:
            self._remaining -= 1
        self.done[name], self._digest = FinishedPhase(phase, checkpoint.seconds), checkpoint.digest
        return value, work

    def has(self, *names: str) -> bool:
        """Whether one of these checkpoints follows the last one."""
        return bool(self._checkpoints.names_made_from(self._digest) & set(names))

    def chain(self) -> list[str]:
        """The names of the stored checkpoints that follow the last one, each made from the one before."""
        return self._checkpoints.chain(self._digest)

    def forget(self, name: str) -> None:
        """Removes a checkpoint, and with it all that were made from it: the phase will run again."""
        self._checkpoints.forget(name)

    def _raise_stored_rejection(self, phase: str, name: str) -> None:
        checkpoint = self._checkpoints.load(rejection_name(name), Rejection, self._digest)
        if checkpoint is None:
            return
        self._digest = checkpoint.digest
        rejection: Rejection = checkpoint.value
        self.done[name] = FinishedPhase(phase, checkpoint.seconds, rejection.usage, rejection.reason)
        raise Rejected(rejection.outcome, rejection.reason, rejection.why, usage=rejection.usage, edits=rejection.edits)


_LONG_PHASES = (Phase.PLAN, Phase.APPLY_CHANGE, Phase.VERIFY, Phase.REVIEW)


def begin_iteration(
    project: Project, number: int, limit: int | None, source: str = "", limits: Limits | None = None
) -> tuple[StepRunner, Path]:
    """The step runner of an iteration, and its run folder. Checkpoints with another ``source`` are ignored.

    Where ``limits`` are given, a phase that would spend past one of them raises LimitReached.
    """
    folder = project.loaded.runs / f"{number:04d}"
    refuse_foreign_logs(project.loaded, number)
    make_log_folders(project.loaded)
    folder.mkdir(parents=True, exist_ok=True)
    follows = project.standing.last.seal if project.standing.last else ""
    checkpoints = Checkpoints(folder, project.seal, project.run_id, follows)
    project.took = PhaseSeconds(checkpoints, project.active_seconds)  # of this run: a new one has all its time
    calls = UsageLog(
        Checkpoints(folder, project.seal, "", follows),  # of no run: a new one pays for what the last one began
        lambda: read_usage(project.places.call / "usage.json"),
        cache(lambda calls_each: median_call(project.recent, calls_each)),
    )

    def on_phase(name: str, begins: bool) -> None:
        calls.settle(steps.done)
        if limits:
            spent = project.standing.for_run(project.run_id).spending(
                sum(steps.seconds.values()), iteration_usage(steps)
            )
            if stop := limit_before_phase(name, limits, spent, project.clock.now(), calls.usual()):
                raise LimitReached(stop)
        project.last_phase = name
        if not folder.is_dir():  # somebody's git clean may have removed it
            make_log_folders(project.loaded)
            folder.mkdir(parents=True, exist_ok=True)
        if not begins:
            return
        project.watch.on_phase(number, name)
        if name in _LONG_PHASES:
            project.write_state("running", number, name)

    source = f"iteration {number} {source}".rstrip()
    steps = StepRunner(checkpoints, calls, source, on_phase, limit, project.took)
    return steps, folder


def iteration_usage(steps: StepRunner) -> Usage:
    """The usage of the iteration's calls: as they reported it, with an estimate for those that were killed."""
    usual = steps.calls.usual()
    usages = [
        killed_call_usage(done.usage, usual) if done.rejected == "provider_timeout" else done.usage
        for done in steps.done.values()
    ]
    return add_usages([*usages, steps.calls.charged])
