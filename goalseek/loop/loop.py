"""The loop of a climb, and one iteration of it: the phases in the order in which they run.

The result of a phase is a checkpoint, stored before the next phase begins. After a kill the same phases are gone
through again: one with a checkpoint gives what it gave, so nothing is asked or measured twice, and the first without
one goes on. Nothing that git or a person sees of a climb moves before LOG has written the record.
"""

from __future__ import annotations

from collections.abc import Iterator

from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.baseline import is_abandoned, measure_baseline, record_abandoned
from goalseek.loop.invocation import Invocation
from goalseek.loop.iteration import Iteration
from goalseek.loop.phases.apply_change import apply_change
from goalseek.loop.phases.commit import commit
from goalseek.loop.phases.decide import apply_approval, asks_reviewer, decide, needs_approval, review_candidate
from goalseek.loop.phases.log import log
from goalseek.loop.phases.plan import make_plan
from goalseek.loop.phases.read_context import read_context
from goalseek.loop.phases.verify import verify
from goalseek.loop.queue import Queue
from goalseek.phase_values import Candidate, Context, Decision, Review
from goalseek.records import IterationRecord
from goalseek.values import Phase


def iterate(invocation: Invocation) -> Iterator[IterationRecord]:
    """Climbs until something ends the invocation, yielding each record once it is in the ledger."""
    with invocation.reporting_end():
        while (config := invocation.next_config()) is not None:
            if invocation.needs_baseline:
                yield measure_baseline(invocation.project)
                continue
            yield from Queue(invocation, config, run_iteration).run()  # one iteration, or several at once
        invocation.claim()


def run_iteration(iteration: Iteration) -> IterationRecord:
    """The phases of one iteration, or what is still owed of them, and its record.

    Raises LimitReached before a phase that would spend past a limit, and Paused where no more phases may run now.
    """
    step = iteration.steps.do  # gives a stored checkpoint, or works and stores it
    with iteration.steps.saving_failure():
        if is_abandoned(iteration):  # a kill left its candidate, and somebody removed the checkpoints
            return record_abandoned(iteration)
        iteration.project.provider()  # raises GoalseekError where none can start
        with iteration.ending_at_rejection():  # no plan, no change within the scope, no merge: LOG records why
            context = step(Phase.READ_CONTEXT, CheckpointName("context"), Context, read_context, iteration)
            iteration.take_context(context)
            attempts = iteration.begin_attempts(make_plan(iteration))
            # The first attempt is the plan's change. Another follows one that crashed or edited out of scope (a
            # repair), one that the reviewer sends back, and one whose tip has moved: git merges that onto the new tip.
            for attempt in attempts:
                with attempts.trying(attempt):  # at its end it is known whether another attempt follows
                    change = attempt.change = apply_change(iteration, attempt)
                    iteration.seat.take_bench()
                    name = CheckpointName("candidate", attempt.number)
                    candidate = step(Phase.COMMIT, name, Candidate, commit, iteration, attempt, change)
                    attempt.candidate = candidate
                    iteration.refuse_moved_tip(attempt)
                    attempt.evidence, attempt.verdict = verify(iteration, attempt, change, candidate)
                if measured := attempts.attempt_to_decide():
                    name = CheckpointName("verdict", measured.cycle)
                    decision = step(Phase.DECIDE, name, Decision, decide, iteration, measured)
                    if asks_reviewer(iteration, measured, decision):
                        name = CheckpointName("review", measured.cycle)
                        review = step(Phase.REVIEW, name, Review, review_candidate, iteration, measured, decision)
                        attempts.take_review(review)
                        decision = review.decision
                if attempts.are_over:  # after a review that led nowhere the decision is the review's
                    if needs_approval(iteration, attempts.top, decision):
                        decision = apply_approval(iteration, attempts.top, decision)  # a declined one is reverted
                    if not iteration.may_land(decision):  # another has landed since: measured again on the tip of now
                        attempts.move(attempts.top, iteration.incumbent)
            iteration.decision = decision
        return log(iteration, iteration.result)
