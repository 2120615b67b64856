"""Where one iteration is worked on: each phase is done once, and what it answered is taken from memory after that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from goalseek.errors import LimitReached, Paused, Rejected
from goalseek.ledger.checkpoints import Checkpoints, PhaseSeconds, rejected_as
from goalseek.manifest.loading import ignore_home
from goalseek.manifest.tables import Limits
from goalseek.phase_values import Rejection
from goalseek.project.limits import limit_before_phase
from goalseek.project.preflight import refuse_foreign_logs
from goalseek.project.project import Project, write_state
from goalseek.proposal.usage import UsageLog, killed_call, sum_of, usual_call
from goalseek.providers.answer import usage_of
from goalseek.values import Usage

Value = TypeVar("Value")


@dataclass(frozen=True)
class Done:
    """One answer: its phase, how long that took, what it cost, and the reason where it was a rejection."""

    phase: str
    seconds: float
    usage: Usage = Usage()
    rejected: str = ""


class StepRunner:
    """The phases of one iteration, in order. ``most`` is how many may be done now (None: all).

    ``on_phase`` is told of a phase that is about to begin (True) or to go on with its next part (False), and may raise.
    ``done`` are the answers by the names under which they are stored, with what each said that it cost; ``calls`` knows
    the rest. ``took`` counts what the phases took, killed ones included. ``found`` are the answers that an earlier
    invocation had left, but where only so many are done at a time anyway.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        usage_log: UsageLog,
        made_from: str,
        on_phase: Callable[[str, bool], None],
        most: int | None,
        took: PhaseSeconds,
    ) -> None:
        self.calls = usage_log
        self.done: dict[str, Done] = {}
        self._memory = checkpoints
        self._digest = made_from
        self._on_phase = on_phase
        self._left = most
        self._took = took
        self.found = tuple(self.chain()) if most is None else ()

    @property
    def seconds(self) -> dict[str, float]:
        """What each phase took, all its tries together, and those that a kill or a signal cut short."""
        answered: dict[str, float] = {}
        for done in self.done.values():
            answered[done.phase] = answered.get(done.phase, 0.0) + done.seconds
        took = self._took.phases  # less than what was answered only where somebody removed it, or a power cut did
        return {phase: max(answered.get(phase, 0.0), took.get(phase, 0.0)) for phase in {**answered, **took}}

    def do(
        self, phase: str, stored_as: str, kind: type[Value], work: Callable[[], Value], is_timed: bool = True
    ) -> Value:
        """The phase's answer: the stored one, or what ``work`` gives, stored before this returns.

        The seconds of a phase that is not timed, as it waits for a person, count nowhere. Raises Rejected as ``work``
        did, also when it did so before; Paused where no more may be done now.
        """
        stored = self._memory.load(stored_as, kind, self._digest)
        if stored is None:
            self._raise_remembered(phase, stored_as)
            if self._left == 0:
                raise Paused(phase)
            self._on_phase(phase, True)
            began = self._took.clock()
            self.calls.current_step = stored_as
            try:
                with self._took.of(phase) if is_timed else contextlib.nullcontext():
                    value = work()
            except Rejected as rejected:
                spent = self._took.clock() - began
                answer = Rejection(rejected.outcome, rejected.reason, rejected.why, rejected.usage, rejected.edits)
                self._digest = self._memory.save(rejected_as(stored_as), answer, self._digest, spent).digest
                self.done[stored_as] = Done(phase, spent, rejected.usage, rejected.reason)
                if self._left is not None:
                    self._left -= 1
                raise
            spent = self._took.clock() - began if is_timed else 0.0
            stored = self._memory.save(stored_as, value, self._digest, spent)
            if self._left is not None:
                self._left -= 1
        if is_timed:
            self.done[stored_as] = Done(phase, stored.seconds, getattr(stored.value, "usage", Usage()))
        self._digest = stored.digest
        answer_value: Value = stored.value
        return answer_value

    def gather(
        self, phase: str, stored_as: str, begin: Value, owed: Callable[[Value], Callable[[], Value] | None]
    ) -> Value:
        """An answer that grows by one part at a time, each stored before the next begins: a killed phase goes on there.

        ``owed`` is asked what the answer so far still lacks: work that gives it with one part more, or None. It is
        asked for a part of ``begin`` at least. Raises Paused where no more may be done now.
        """
        stored = self._memory.load(stored_as, type(begin), self._digest)
        value: Value = stored.value if stored else begin
        spent = stored.seconds if stored else 0.0
        worked = False
        while work := owed(value):
            if self._left == 0:
                raise Paused(phase)
            if stored:
                self.done[stored_as] = Done(phase, spent)
            self._on_phase(phase, not worked)
            worked, began = True, self._took.clock()
            with self._took.of(phase):
                value = work()
            spent += self._took.clock() - began
            stored = self._memory.save(stored_as, value, self._digest, spent)
        assert stored
        if worked and self._left is not None:
            self._left -= 1
        self.done[stored_as], self._digest = Done(phase, stored.seconds), stored.digest
        return value

    def has(self, *names: str) -> bool:
        """Whether one of these answers is stored that was made from the last one."""
        return bool(self._memory.made_from(self._digest) & set(names))

    def chain(self) -> list[str]:
        """The names of the stored answers, each made from the one before, as far as they go."""
        return self._memory.chain(self._digest)

    def forget(self, stored_as: str) -> None:
        """Drops a stored answer, and so all that were made from it: the next time it is asked for anew."""
        self._memory.forget(stored_as)

    def _raise_remembered(self, phase: str, stored_as: str) -> None:
        stored = self._memory.load(rejected_as(stored_as), Rejection, self._digest)
        if stored is None:
            return
        self._digest = stored.digest
        held: Rejection = stored.value
        self.done[stored_as] = Done(phase, stored.seconds, held.usage, held.reason)
        raise Rejected(held.outcome, held.reason, held.why, usage=held.usage, edits=held.edits)


_LONG_PHASES = ("PLAN", "APPLY_CHANGE", "VERIFY", "REVIEW")


def begin_iteration(
    project: Project, number: int, most: int | None, made_from: str = "", limits: Limits | None = None
) -> tuple[StepRunner, Path]:
    """The desk of an iteration, and its run folder. Answers that were made from something else are not taken up.

    Where ``limits`` are given, a phase that spends raises LimitReached in place of beginning past one of them.
    """
    folder = project.loaded.runs / f"{number:04d}"
    refuse_foreign_logs(project.loaded, number)
    ignore_home(project.loaded)
    folder.mkdir(parents=True, exist_ok=True)
    follows = project.standing.last.seal if project.standing.last else ""
    checkpoints = Checkpoints(folder, project.seal, project.run_id, follows)
    project.took = PhaseSeconds(checkpoints, project.active_seconds)  # of this run: a new one has all its time
    calls = UsageLog(
        Checkpoints(folder, project.seal, "", follows),  # of no run: a new one pays for what the last one began
        lambda: usage_of(project.places.call / "usage.json"),
        cache(lambda calls_each: usual_call(project.recent, calls_each)),
    )

    def on_phase(name: str, begins: bool) -> None:
        calls.settle(desk.done)
        if limits:
            spent = project.standing.of_run(project.run_id).spending(sum(desk.seconds.values()), usage_so_far(desk))
            if stop := limit_before_phase(name, limits, spent, project.clock.now(), calls.usual()):
                raise LimitReached(stop)
        project.last_phase = name
        if not folder.is_dir():  # somebody's git clean may have removed it
            ignore_home(project.loaded)
            folder.mkdir(parents=True, exist_ok=True)
        if not begins:
            return
        project.watch.on_phase(number, name)
        if name in _LONG_PHASES:
            write_state(project, "running", number, name)

    made_from = f"iteration {number} {made_from}".rstrip()
    desk = StepRunner(checkpoints, calls, made_from, on_phase, most, project.took)
    return desk, folder


def usage_so_far(steps: StepRunner) -> Usage:
    """What the iteration's calls cost: as they reported it, and as those are charged that were killed."""
    usual = steps.calls.usual()
    usages = [
        killed_call(done.usage, usual) if done.rejected == "provider_timeout" else done.usage
        for done in steps.done.values()
    ]
    return sum_of([*usages, steps.calls.charged])
