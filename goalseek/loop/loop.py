"""The loop of a climb, and one iteration of it: the phases in the order in which they run.

Each phase stores its result as a checkpoint before the next phase begins: ``make_plan`` the plan, ``apply_change`` the
change of each attempt, with the standing that it was made at, ``verify`` its evidence after each run of the verifier,
``apply_approval`` a person's answer; each ``step`` line below stores the checkpoint that it names. After a kill the
same phases run again; one with a checkpoint gives that, so only the call or the run that was cut off is made again.

Branch and ledger move in LOG alone; until then a candidate has only a hidden ref of its own. The ledger's records make
the standing: its incumbent is the kept commit that candidates are compared with, its tip the commit that the branch is
to be at. In a queue of one a rejected candidate and its revert are put on the branch too: the tip moves, the incumbent
does not. A kill between the record and the refs is made good at the next start.
"""

from collections.abc import Iterator

from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.baseline import find_abandoned, measure_baseline, record_abandoned
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
        while (config := invocation.next_config(trial=invocation.next_try())) is not None:
            if invocation.project.standing.baseline is None:
                yield measure_baseline(invocation.project)
                continue
            # One iteration after the other, or several at once; first those that an earlier invocation left.
            yield from Queue(invocation, config, run_iteration).run()
        invocation.confirm_best()  # at the end of a run baseline and best are measured once more


def run_iteration(iteration: Iteration) -> IterationRecord:
    """The phases of one iteration, or what is still owed of them, and its record.

    Raises LimitReached before a phase that would exceed a limit, and Paused once ``goalseek step`` has had its phase.
    """
    step = iteration.steps.do  # loads the checkpoint of that name, or calls the function and stores its result
    with iteration.steps.saving_failure():  # the text of an error, for status and the next start
        if candidate := find_abandoned(iteration):  # a kill left it, and somebody removed its checkpoints
            return record_abandoned(iteration, candidate)
        if not iteration.trial:
            iteration.project.provider()  # raises GoalseekError if no provider can start
        with iteration.ending_at_rejection():  # no plan, no change within the scope, no merge: LOG records why
            context = step(Phase.READ_CONTEXT, CheckpointName("context"), Context, read_context, iteration)
            iteration.begin_proposals(context)
            attempts = iteration.begin_attempts(make_plan(iteration))
            # The first attempt is the plan's change. Another one follows an attempt that crashed or edited out of
            # scope (its author repairs it), one that the reviewer sends back, and one whose tip has moved (git merges
            # its change onto the new tip; its author is asked only about conflicts). A crash is evidence like any
            # other: without a repair the decision is about it. A cycle is the attempts up to one decision. Their
            # subject is the last one with a candidate; after a move only the attempts since then count.
            for attempt in attempts:
                # At its end this block adds the next attempt, if there is one: after TipMoved, a rejected edit out of
                # scope, or evidence of a crash. A rejection is raised if there is no candidate to decide about: so is
                # each one after a move.
                with attempts.trying(attempt):
                    change = attempt.change = apply_change(iteration, attempt)  # the author's work, or git's merge
                    iteration.lanes.acquire_bench()
                    name = CheckpointName("candidate", attempt.number)
                    candidate = step(Phase.COMMIT, name, Candidate, commit, iteration, attempt, change)
                    if iteration.steps.resumed_from and not iteration.project.repository.objects.has(candidate.commit):
                        commit(iteration, attempt, change)  # a power cut took it
                    attempt.candidate = candidate
                    iteration.refuse_moved_tip(attempt)
                    attempt.evidence, attempt.verdict = verify(iteration, attempt, change, candidate)
                if attempts.are_over and not (subject := attempts.subject).decision:
                    name = CheckpointName("verdict", subject.cycle)
                    subject.decision = step(Phase.DECIDE, name, Decision, decide, iteration, subject)
                    if asks_reviewer(iteration, subject):
                        name = CheckpointName("review", subject.cycle)
                        # Its decision stands if its author is asked for changes and gives no candidate.
                        attempts.add_review(step(Phase.REVIEW, name, Review, review_candidate, iteration, subject))
                if attempts.are_over:
                    if needs_approval(iteration, subject):
                        # Waits, its lanes released. A declined keep becomes REVERTED, DECLINED; a patch that was
                        # approved is not asked about again after a move.
                        apply_approval(iteration, subject)
                    if subject.is_kept and not iteration.acquire_landing():
                        # Another iteration has landed. Adds an attempt, in a new cycle: this change, merged from its
                        # base onto the tip that is found then. After parallel.landings such moves it is rejected.
                        attempts.move(subject, base=iteration.incumbent)
        return log(iteration, iteration.result)  # the record first, then tip and branch, then the hidden ref goes
