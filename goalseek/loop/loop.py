"""The loop of a climb, and one iteration of it: the phases in the order in which they run.

The result of each phase is checkpointed before the next begins, so calling it again after a kill gives what it gave.
"""

from __future__ import annotations

from collections.abc import Iterator

from goalseek.loop.baseline import is_abandoned, measure_baseline, record_abandoned
from goalseek.loop.invocation import Invocation
from goalseek.loop.iteration import Iteration
from goalseek.loop.phases.apply_change import apply_change
from goalseek.loop.phases.approve import apply_approval, needs_approval
from goalseek.loop.phases.commit import commit
from goalseek.loop.phases.decide import decide
from goalseek.loop.phases.log import log
from goalseek.loop.phases.plan import make_plan
from goalseek.loop.phases.read_context import read_context
from goalseek.loop.phases.review import asks_reviewer, review_candidate
from goalseek.loop.phases.verify import verify
from goalseek.loop.queue import Queue
from goalseek.records import IterationRecord


def iterate(invocation: Invocation) -> Iterator[IterationRecord]:
    """Climbs until something ends the invocation, yielding each record once it is in the ledger."""
    with invocation.reporting_end():
        while (config := invocation.next_config()) is not None:
            if invocation.needs_baseline:
                yield measure_baseline(invocation.project)
                continue
            yield from Queue(invocation, config, run_iteration).run()
        invocation.claim()


def run_iteration(iteration: Iteration) -> IterationRecord:
    """The phases of one iteration, or what is still owed of them, and its record.

    Raises LimitReached before a phase that would spend past a limit, and Paused where no more phases may run now.
    """
    with iteration.steps.saving_failure():
        if is_abandoned(iteration):
            return record_abandoned(iteration)
        iteration.project.provider()  # raises GoalseekError where none can start
        with iteration.ending_at_rejection():
            iteration.take_context(read_context(iteration))
            attempts = iteration.begin_attempts(make_plan(iteration))
            for attempt in attempts:  # the first one, repairs, and changes that a reviewer asks for or the tip outran
                with attempts.trying(attempt):
                    change = attempt.change = iteration.stand_on(apply_change(iteration, attempt))
                    iteration.seat.take_bench()
                    candidate = attempt.candidate = commit(iteration, attempt, change)
                    iteration.refuse_moved_tip(attempt)
                    attempt.evidence, attempt.verdict = verify(iteration, attempt, change, candidate)
                if measured := attempts.attempt_to_decide():
                    decision = decide(iteration, measured)
                    if asks_reviewer(iteration, measured, decision):
                        review = review_candidate(iteration, measured, decision)
                        attempts.take_review(review)
                        decision = review.decision
                if attempts.are_over:  # after a review that led nowhere the decision is the review's
                    if needs_approval(iteration, attempts.top, decision):
                        decision = apply_approval(iteration, attempts.top, decision)
                    if not iteration.may_land(decision):
                        attempts.move(attempts.top, iteration.incumbent)
            iteration.decision = decision
        return log(iteration, iteration.result)
