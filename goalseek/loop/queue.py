"""Many iterations at once: agents propose in slots, benches measure what they hand on, and one at a time lands.

Each iteration under way has a thread. One baton lets one of them at a time run goalseek's own code: whoever waits, for
a program say, lets go of it. What is stored of each is bound to the record that it began after, so that a landing
elsewhere makes nothing of it stale, and a killed climb goes on with all of them.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator

from goalseek.errors import Ended, LimitReached
from goalseek.ledger.checkpoints import Begun
from goalseek.locks import Baton
from goalseek.loop.invocation import Invocation
from goalseek.loop.iteration import Iteration
from goalseek.loop.lanes import Lanes
from goalseek.loop.queued_iteration import QueuedIteration
from goalseek.manifest.parallel import agents_of, benches_of
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
RunIteration = Callable[[Iteration], IterationRecord]


def open_queue(invocation: Invocation, config: Config, run_iteration: RunIteration) -> Queue | None:
    """A queue where several are to be under way at once, or an earlier invocation left some; None otherwise."""
    project, (agents, benches) = invocation.project, _sizes(invocation, config)
    if (agents == benches == 1 and not in_flight(project)) or invocation.is_candidate_on_tip():
        return None
    return Queue(invocation, run_iteration, agents, benches)


def _sizes(invocation: Invocation, config: Config) -> tuple[int, int]:
    """How many propose and how many measure at once."""
    manifest, jobs = config.manifest, invocation.jobs
    medians = median_seconds(invocation.project.ledger.recent)
    proposal = sum(medians.get(phase, 0.0) for phase in (Phase.PLAN, Phase.APPLY_CHANGE))
    return agents_of(manifest, jobs, proposal, medians.get(Phase.VERIFY)), benches_of(manifest, jobs)


class Queue:
    """The iterations of a climb that are under way at once, and the threads that work on them."""

    def __init__(self, invocation: Invocation, run_iteration: RunIteration, agents: int, benches: int) -> None:
        self._invocation = invocation
        self._project = invocation.project
        self._run_iteration = run_iteration
        self._agents = agents
        self._baton = self._project.baton = Baton()
        self._lanes = Lanes(self._project, self._baton, agents, benches)
        self._project.pulse = self._raise_error
        self._threads: dict[int, threading.Thread] = {}
        self._iterations: dict[int, QueuedIteration] = {}
        self._owed: list[tuple[Begun, Usage]] = []  # with what has been used for each by now
        self._again: set[int] = set()
        self._landed: deque[IterationRecord] = deque()
        self._error: BaseException | None = None

    def run(self) -> Iterator[IterationRecord]:
        """Climbs until nothing more may begin and all that was begun is over; yields each record once it counts.

        An error of one iteration ends the others, as a signal does: a later invocation goes on with what they have
        stored.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self._close)
            stack.enter_context(self._baton)
            stack.callback(self._end_threads)
            self._resume()
            while True:
                while self._landed:
                    record = self._landed.popleft()
                    self._invocation.show_progress(self._spending())
                    if self._iterations:  # else it is asked before the next begins, after what is due then
                        self._invocation.note_stop(self._spending())
                    with self._baton.let_go():
                        yield record
                if self._begin_next():
                    continue
                if not self._threads and not self._landed:
                    break
                if not self._landed:
                    self._answer_questions()
                    self._wait()
            self._look()  # the last may have ended by an error while its caller had a record

    def _begin_next(self) -> bool:
        """Begins an iteration, or goes on with one, where there is room and nothing is against it; gives whether so."""
        capacity = self._agents + self._lanes.benches
        is_over = capacity == 2 and not self._owed  # it only ends what was left under way
        if len(self._iterations) >= capacity or is_over or self._error:
            return False
        slots = self._lanes.slots[: self._agents]
        slot = next((number for number, resource in enumerate(slots) if resource.is_free), None)
        has_candidate = bool(self._owed) and self._owed[0][0].iteration in self._project.repository.flight()
        if slot is None and not has_candidate:
            return False
        if not self._iterations:
            self._project.enter(self._project.lane)  # others were there, and something may be measured alone now
        config = self._invocation.next_config(self._spending, has_candidate)
        self._count_seconds()  # what was measured alone has seconds of its own
        if config is None:
            return False
        self._agents, benches = _sizes(self._invocation, config)
        self._lanes.add_slots(self._agents)
        if benches != self._lanes.benches:  # another queue begins once this one is empty
            return False
        if self._owed:
            begun, _ = self._owed.pop(0)
        else:
            standing = self._project.standing
            number = max([standing.last_iteration, *self._iterations]) + 1
            begun = Begun(number, standing.seq, standing.last_seal, slot or 0)
            self._lanes.flight.add(begun)
        iteration = self._make_iteration(begun, config)
        self._start(iteration)
        while iteration.briefing is None and iteration.number in self._threads:
            self._wait()  # who is begun next knows its plan, if it has one, and which slot it has taken
        return True

    def _resume(self) -> None:
        """Notes what an earlier invocation left under way, candidates first."""
        candidates, config = self._project.repository.flight(), self._project.config()
        left = sorted(in_flight(self._project), key=lambda begun: begun.iteration not in candidates)
        self._owed = [(begun, self._make_iteration(begun, config).steps.usage_before()) for begun in left]

    def _make_iteration(self, begun: Begun, config: Config) -> QueuedIteration:
        project = self._project.beside(functools.partial(self._check, begun.iteration), begun.iteration)
        iteration = QueuedIteration(project, config, self._lanes, begun)
        iteration.ahead = self._ahead
        iteration.steps.get_spending = functools.partial(self._spending, begun.iteration)
        return iteration

    def _start(self, iteration: QueuedIteration) -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._work, iteration), name=str(iteration.number))
        self._iterations[iteration.number], self._threads[iteration.number] = iteration, thread
        thread.start()

    def _work(self, iteration: QueuedIteration) -> None:
        """What the thread of an iteration does."""
        with self._baton:
            try:
                record = self._run_iteration(iteration)
                self._invocation.count_iteration(record)
                self._landed.append(record)
                self._leave(iteration)
                iteration.project.watch.on_record(record)  # last: while a program is told, the others go on
            except LimitReached as reached:
                self._project.stop = self._project.stop or reached.stop
                self._owed.append((iteration.begun, iteration.steps.usage_log.usage))
            except BaseException as error:
                if iteration.number not in self._again and iteration.recover_from(error):
                    self._again.add(iteration.number)
                    self._owed.insert(0, (iteration.begun, iteration.steps.usage_log.usage))
                else:
                    self._error = self._error or error
            finally:
                del self._threads[iteration.number]
                self._leave(iteration)
                self._baton.notice()

    def _leave(self, iteration: QueuedIteration) -> None:
        iteration.leave_all()
        self._iterations.pop(iteration.number, None)

    def _check(self, number: int) -> None:
        """What an iteration is asked while it waits: raises where it is to go no further in this invocation."""
        self._count_seconds()
        stop, iteration = self._project.stop, self._iterations.get(number)
        if self._error:
            raise Ended
        if stop and iteration and iteration.is_proposing:
            raise LimitReached(stop)

    def _count_seconds(self) -> None:
        self._lanes.clock.count(iteration.is_idle for iteration in self._iterations.values())

    def _wait(self) -> None:
        """Lets the others work until one of them has news, for half a second at most."""
        self._baton.news.clear()
        with self._baton.let_go():
            self._baton.news.wait(_BEAT_SECONDS)
        self._look()

    def _look(self) -> None:
        """Raises the error of an iteration, and notes a request to stop."""
        project = self._project
        self._show()
        self._raise_error()
        project.stop = project.stop or take_stop_request(project.repository.own)

    def _raise_error(self) -> None:
        if self._error:
            raise self._error

    def _show(self) -> None:
        """Shows what is under way, in ``state.json`` and in the view."""
        balance = self._lanes.balance
        balance.count()
        under_way = tuple(iteration.look() for _, iteration in sorted(self._iterations.items()))
        is_waiting = bool(under_way) and all(one.waits for one in under_way)
        why = "; ".join(dict.fromkeys(one.waits for one in under_way)) if is_waiting else ""
        silences = filter(None, (one.project.activity.picture.silent_since for one in self._iterations.values()))
        self._project.show(
            "waiting" if is_waiting else "running",
            None,
            None,
            next=why,
            silent_since=min(silences, default=""),
            under_way=under_way,
            balance=str(balance),
        )
        self._project.activity.beat()

    def _end_threads(self) -> None:
        self._error = self._error or Ended()
        while self._threads:
            self._baton.notice()
            self._baton.news.clear()
            with self._baton.let_go():
                self._baton.news.wait(_BEAT_SECONDS)

    def _answer_questions(self) -> None:
        """Asks a person at the terminal; raises GoalseekError where there is nobody, and nothing else goes on."""
        asking = [
            (iteration, question)
            for _, iteration in sorted(self._iterations.items())
            if (question := iteration.question) and iteration.read_answer(question) is None
        ]
        if not asking:
            return
        (iteration, question), watch = asking[0], self._project.watch
        if not watch.is_attended():
            if len(asking) == len(self._iterations):
                raise approval_error(question)
            return

        def read_answer() -> Approval | None:
            with self._baton:
                self._look()
                while self._begin_next():
                    pass
                self._show()
                return iteration.read_answer(question)

        with self._baton.let_go():
            answer = watch.ask(question, read_answer)
        if answer is None:
            raise approval_error(question)
        if iteration.question is question:  # else it has taken effect already
            save_approval(self._project.loaded.logs, question, answer)

    @property
    def _ahead(self) -> tuple[Ahead, ...]:
        return tuple(iteration.as_ahead for _, iteration in sorted(self._iterations.items()))

    def _spending(self, number: int | None = None) -> Spending:
        """The spending of all; of the calls under way, iteration ``number`` foresees those of the others."""
        open_iterations = [iteration for _, iteration in sorted(self._iterations.items(), reverse=True)]
        logs = [iteration.steps.usage_log for iteration in open_iterations]
        # An earlier one may not know yet what a call usually takes, while a later one does, or has an answer.
        usual = (*(log.usual() for log in logs), *(answer for log in logs for answer in log.answers.values()))
        calling = (
            one.is_proposing if number is None else one.number != number and one.steps.is_asking and not one.is_idle
            for one in open_iterations
        )
        return Spending(
            self._lanes.clock.seconds,
            Usage.total([*(used for _, used in self._owed), *(log.usage for log in logs)]),
            Usage.total(filter(None, (log.charged_before_run for log in logs))),
            self._ahead,
            sum(calling),
            next((call for call in usual if call != Usage()), Usage()),
        )

    def _close(self) -> None:
        self._lanes.close()
        self._project.baton, self._project.pulse = None, lambda: None
