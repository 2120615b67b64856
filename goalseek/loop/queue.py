"""The queue: agents propose in slots, benches measure their candidates, and one at a time lands.

With one agent and one bench, iterations follow each other in the queue's thread. Otherwise each has a thread, and the
baton lets one thread at a time run goalseek's own code; a thread releases it while it waits.
"""

import contextlib
import contextvars
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from goalseek.disk import machine_error
from goalseek.errors import Ended, GitFailed, LimitReached
from goalseek.git.objects import ObjectsFailed
from goalseek.ledger.checkpoints import Begun
from goalseek.loop.invocation import Invocation
from goalseek.loop.iteration import Iteration
from goalseek.loop.lanes import LanePool
from goalseek.loop.phases.decide import find_answer
from goalseek.phase_values import Ahead
from goalseek.project.approval import Approval, approval_error, save_approval
from goalseek.project.config import Config
from goalseek.project.landing import in_flight
from goalseek.project.limits import Spending
from goalseek.project.progress import median_seconds
from goalseek.project.stop import take_stop_request
from goalseek.records import IterationRecord
from goalseek.values import Phase, Usage

_BEAT_SECONDS = 0.5
_GLANCE_SECONDS = 0.01  # so that a try does not wait for a beat
RunIteration = Callable[[Iteration], IterationRecord]


def _sizes(invocation: Invocation, config: Config) -> tuple[int, int]:
    """Numbers of agents and benches: one each until the candidate of a killed queue of one has ended."""
    project = invocation.project
    if project.repository.flight() and not in_flight(project):
        return 1, 1
    medians = median_seconds(project.ledger.recent)
    proposal = sum(medians.get(phase, 0.0) for phase in (Phase.PLAN, Phase.APPLY_CHANGE))
    workers = project.cluster.count if project.cluster else 0
    return config.manifest.agents_and_benches(invocation.jobs, proposal, medians.get(Phase.VERIFY), workers)


def _recovers(iteration: Iteration, error: BaseException) -> bool:
    """Whether the iteration can begin again, after a cache was emptied for example; removes its workspaces."""
    is_of_cache = isinstance(error, FileNotFoundError | GitFailed | ObjectsFailed) and not machine_error(error)
    if not is_of_cache or iteration.project.ledger.history.iteration(iteration.number) is not None:
        return False
    iteration.lanes.remove_trees()
    return True


class Queue:
    def __init__(self, invocation: Invocation, config: Config, run_iteration: RunIteration) -> None:
        self._invocation = invocation
        self._project = invocation.project
        self._run_iteration = run_iteration
        self._agents, benches = _sizes(invocation, config)
        self._pool = LanePool(self._project, self._agents, benches)
        self._baton = self._pool.baton
        self._first_config = config if self._pool.is_serial else None  # of several it depends on ``_owed``
        self._threads: dict[int, threading.Thread] = {}
        self._iterations: dict[int, Iteration] = {}
        self._owed: list[tuple[Begun, Usage]] = []  # with the usage so far
        self._again: set[int] = set()
        self._landed: deque[IterationRecord] = deque()
        self._error: BaseException | None = None

    def run(self) -> Iterator[IterationRecord]:
        """Climb until no iteration may begin and all have ended; yield each record once it counts.

        An error of one iteration ends the others, as a signal does. A later invocation resumes their checkpoints.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self._pool.close)
            stack.enter_context(self._baton)
            if not self._pool.is_serial:
                stack.callback(self._end_threads)
                self._project.baton, self._project.pulse = self._baton, self._raise_error
                # What an earlier invocation left under way, candidates first.
                candidates, config = self._project.repository.flight(), self._project.config()
                left = sorted(in_flight(self._project), key=lambda begun: begun.iteration not in candidates)
                self._owed = [(begun, self._make_iteration(begun, config).steps.usage_before()) for begun in left]
            while True:
                while self._landed:
                    record = self._landed.popleft()
                    if not self._pool.is_serial:
                        self._invocation.show_progress(self._spending())
                    if self._iterations:  # else ``next_config`` asks, after work that is due alone
                        self._invocation.note_stop(self._spending())
                    with self._baton.let_go():
                        yield record
                if self._begin_next():
                    continue
                if not self._threads and not self._landed:
                    break
                if not self._landed:
                    self._answer_questions()
                    self._await_news()
                    self._look()
            self._raise_error()  # the last may have ended by one while its caller had a record

    def _begin_next(self) -> bool:
        """False if there is no room, or a stop."""
        if any(iteration.briefing is None for iteration in self._open):
            return False  # who is begun next knows its plan, if it has one, and which slot it has taken
        owed = self._owed[0][0] if self._owed else None
        waiting = self._invocation.next_try([one.trial for one in self._open])
        trial = owed.trial if owed else waiting
        if self._project.cluster and not self._pool.is_serial:
            self._pool.set_benches(self._project.cluster.count)  # workers join and leave
        capacity = self._agents + self._pool.bench.count
        # With one agent and one bench, iterations left by several end in lanes of their own.
        is_over = capacity == 2 and not self._pool.is_serial and not owed
        if len(self._iterations) >= capacity + bool(trial) or is_over or self._error:
            return False
        slots = self._pool.slots[: self._agents]
        slot = next((number for number, resource in enumerate(slots) if resource.is_free), None)
        has_candidate = bool(owed and owed.iteration in self._project.repository.flight())
        slot = self._agents if trial else slot  # one more, as the agents keep theirs
        if slot is None and not has_candidate:
            return False
        if not self._iterations and not self._pool.is_serial:
            self._project.enter(self._project.lane)  # others were there, and something may be measured alone now
        config = self._first_config or self._invocation.next_config(self._spending, has_candidate, trial or waiting)
        self._first_config = None
        self._count_seconds()  # a measurement alone has seconds of its own
        if config is None:
            return False
        self._agents, benches = _sizes(self._invocation, config)
        if benches != self._pool.bench.count or (self._pool.is_serial and self._agents > 1):
            return False  # another queue begins once this one is empty
        self._pool.add_slots(self._agents + bool(trial))
        if owed:
            del self._owed[0]
        number = max([self._project.standing.last_iteration, *self._iterations]) + 1
        begun = owed or self._pool.begin(number, slot or 0, trial)
        self._iterations[begun.iteration] = iteration = self._make_iteration(begun, config)
        if self._pool.is_serial:
            self._work(iteration)
            self._raise_error()
            return True
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._work_beside, iteration), name=str(iteration.number))
        self._threads[iteration.number] = thread
        thread.start()
        return True

    def _make_iteration(self, begun: Begun, config: Config) -> Iteration:
        if self._pool.is_serial:
            return Iteration(self._project, config, self._pool, begun)
        project = self._project.beside(functools.partial(self._check, begun.iteration), begun.iteration)
        iteration = Iteration(project, config, self._pool, begun)
        iteration.ahead = self._ahead
        iteration.steps.get_spending = functools.partial(self._spending, begun.iteration)
        return iteration

    def _work_beside(self, iteration: Iteration) -> None:
        with self._baton:
            self._work(iteration)
            del self._threads[iteration.number]
            self._baton.notice()

    def _work(self, iteration: Iteration) -> None:
        def leave() -> None:
            iteration.lanes.release()
            self._iterations.pop(iteration.number, None)

        try:
            record = self._run_iteration(iteration)
            self._invocation.count_iteration(record)
            self._landed.append(record)
            leave()
            if not self._pool.is_serial:
                iteration.project.watch.on_record(record)  # last: while a program is told, the others go on
        except LimitReached as reached:
            self._project.stop = self._project.stop or reached.stop
            self._owed.append((iteration.begun, iteration.steps.usage_log.spending().usage))
        except BaseException as error:
            if iteration.number not in self._again and _recovers(iteration, error):
                self._again.add(iteration.number)
                self._owed.insert(0, (iteration.begun, iteration.steps.usage_log.spending().usage))
            else:
                self._error = self._error or error
        finally:
            leave()

    def _check(self, number: int) -> None:
        """Raises if a waiting iteration must end in this invocation."""
        self._count_seconds()
        stop, iteration = self._project.stop, self._iterations.get(number)
        if self._error:
            raise Ended
        if stop and iteration and iteration.lanes.is_proposing:
            raise LimitReached(stop)

    def _count_seconds(self) -> None:
        if self._pool.clock:
            self._pool.clock.count(iteration.lanes.is_idle for iteration in self._iterations.values())

    def _await_news(self) -> None:
        self._baton.news.clear()
        requested, until = self._project.repository.last_try_request, time.monotonic() + _BEAT_SECONDS
        with self._baton.let_go():
            while not self._baton.news.wait(_GLANCE_SECONDS) and time.monotonic() < until:
                if self._project.repository.last_try_request != requested:
                    return

    def _look(self) -> None:
        self._show()
        self._raise_error()
        self._project.stop = self._project.stop or take_stop_request(self._project.repository.own)

    def _raise_error(self) -> None:
        if self._error:
            raise self._error

    def _show(self) -> None:
        balance = self._pool.balance
        balance.count()
        under_way = tuple(iteration.lanes.look(iteration.as_ahead.title) for iteration in self._open)
        is_waiting = bool(under_way) and all(one.waits for one in under_way)
        why = "; ".join(dict.fromkeys(one.waits for one in under_way)) if is_waiting else ""
        silences = filter(None, (one.project.activity.picture.silent_since for one in self._open))
        fields = {"silent_since": min(silences, default=""), "under_way": under_way, "balance": str(balance)}
        self._project.show("waiting" if is_waiting else "running", None, None, next=why, **fields)
        self._project.activity.beat()

    def _end_threads(self) -> None:
        self._error = self._error or Ended()
        while self._threads:
            self._baton.notice()
            self._await_news()
        self._project.baton, self._project.pulse = None, lambda: None

    def _answer_questions(self) -> None:
        """Ask a person at the terminal; raises GoalseekError if nobody is there and nothing else goes on."""
        asking = [
            (iteration, question)
            for iteration in self._open
            if (question := iteration.lanes.question) and find_answer(iteration, question) is None
        ]
        if not asking:
            return
        (iteration, question), watch = asking[0], self._project.watch
        if not watch.is_attended():
            if len(asking) == len(self._iterations):
                raise approval_error(question)
            return

        def poll_answer() -> Approval | None:
            with self._baton:
                self._look()
                while self._begin_next():
                    pass
                self._show()
                return find_answer(iteration, question)

        with self._baton.let_go():
            answer = watch.ask(question, poll_answer)
        if answer is None:
            raise approval_error(question)
        if iteration.lanes.question is question:  # else it has taken effect already
            save_approval(self._project.loaded.logs, question, answer)

    @property
    def _open(self) -> list[Iteration]:
        """Those under way, oldest first."""
        return [self._iterations[number] for number in sorted(self._iterations)]

    @property
    def _ahead(self) -> tuple[Ahead, ...]:
        return tuple(iteration.as_ahead for iteration in self._open)

    def _spending(self, number: int | None = None) -> Spending:
        """The spending of all iterations; iteration ``number`` foresees the running calls of the others."""
        open_iterations = self._open[::-1]  # an earlier one may not know the usual call yet, while a later one does
        logs = [iteration.steps.usage_log for iteration in open_iterations]
        usual = (*(log.usual() for log in logs), *(answer for log in logs for answer in log.answers.values()))
        calling = (
            one.lanes.is_proposing
            if number is None
            else one.number != number and one.steps.is_asking and not one.lanes.is_idle
            for one in open_iterations
        )
        own = [log.spending() for log in logs]
        return Spending(
            self._pool.clock.seconds if self._pool.clock else 0.0,
            Usage.total([*(used for _, used in self._owed), *(spending.usage for spending in own)]),
            Usage.total(spending.before_run for spending in own if spending.before_run),
            self._ahead,
            sum(calling),
            next((call for call in usual if call != Usage()), Usage()),
        )
