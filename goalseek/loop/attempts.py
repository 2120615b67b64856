"""The attempts of one iteration: a change, its commit and its measurement, and its repair or review.

A candidate whose command crashed goes back to its author with the last lines printed, one with edits outside its scope
with the refusal, and one whose reviewer asks for changes with the reasons. Each attempt starts from the edits of the
one before, and its commit is on top of that one's. Where another iteration has landed meanwhile, the change is merged
onto the tip of then, which is an attempt too, for which nobody is asked. Every phase of every attempt has a checkpoint
of its own, so a killed iteration goes on in the attempt that it had reached.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from goalseek.errors import LimitReached, Rejected
from goalseek.humanize import pluralize
from goalseek.ledger.artifacts import ATTEMPTS
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.ledger.standing import MeasuredCommit
from goalseek.loop.steps import StepRunner
from goalseek.manifest.tables import Manifest, VerifyCommand
from goalseek.phase_values import Candidate, Change, Edit, Evidence, Failure, Plan, Review, Verdict
from goalseek.project.limits import RUN_STOP_REASONS
from goalseek.proposal.prompt import Problem
from goalseek.providers.answer import CHANGES_REQUESTED
from goalseek.values import Attempt, Outcome, Reason, Usage

_REVIEW_PROBLEM = (
    "It was measured and would be kept, but a reviewer who judged it by the project's criteria asks for changes first. "
    "Fix what the reviewer names, and nothing else:"
)
_CRASH_PROBLEM = (
    "A command of the measurement that runs your change failed. How it ended, and the last lines that it printed:"
)
_SCOPE_PROBLEM = (
    "It edited files that you may not change, and such a change is rejected as a whole. Those edits were undone. What "
    "was rejected, and why:"
)
_CONFLICT_PROBLEM = (
    "While it was made, another change was kept, and the two do not merge. The files that you see have that other one, "
    "and not yours. Make your change once more, so that it fits them. The files with conflicts:"
)


class TipMoved(Exception):
    """Another iteration has landed since this change of ``base`` was made."""

    def __init__(self, base: MeasuredCommit) -> None:
        super().__init__(base)
        self.base = base


class PriorAttempt(Struct, frozen=True):
    """What an attempt starts from: the edits of the attempt before it.

    ``tree`` is that of the iteration's last candidate, which it must not give again; "" before the first.
    """

    edits: tuple[Edit, ...] = ()
    tree: str = ""


class OpenAttempt(Struct):
    """One attempt: what it is made from, and below that what its phases have given so far.

    ``last_committed`` is the number of the last attempt before it that became a commit (0: none), ``commits`` are the
    commits of those, ``runs`` counts their measurements. ``cycle`` counts the verdicts, this one's included: after one
    a reviewer may send the change back, or the tip may have moved. ``moving`` is a candidate, with the incumbent that
    it is a change of, which is merged onto the tip; where there was a ``problem`` with that, its author makes it anew.
    ``moves`` counts the verdicts that came too late. ``moved_from`` is the incumbent's commit that it was a change of,
    where another attempt took it along.
    """

    number: int
    cycle: int
    plan: Plan
    prior: PriorAttempt | None = None
    problem: Problem | None = None
    last_committed: int = 0
    commits: tuple[str, ...] = ()
    runs: int = 0
    moving: tuple[Candidate, MeasuredCommit] | None = None
    moves: int = 0
    moved_from: str = ""
    change: Change | None = None
    candidate: Candidate | None = None
    evidence: Evidence | None = None
    verdict: Verdict | None = None
    rejected: Rejected | None = None
    review: Review | None = None

    def folder_in(self, run_folder: Path) -> Path:
        """The run folder, or one below it once another attempt has a candidate."""
        return run_folder / ATTEMPTS / str(self.number) if self.last_committed else run_folder

    @property
    def ended(self) -> tuple[Attempt, ...]:
        """Its entry in the record of a later attempt; empty if it was never made."""
        if self.moved_from:
            assert self.candidate and self.change
            return (Attempt(self.candidate.commit, Reason.MOVED, self.change.usage, self.moved_from),)
        if self.rejected:
            usage = self.change.usage if self.change else self.rejected.usage  # a duplicate was paid for
            return (Attempt(None, self.rejected.reason, usage),)
        if not (self.candidate and self.change and self.evidence):
            return ()
        if self.review:
            usage = self.change.usage.plus(self.review.usage)
            return (Attempt(self.candidate.commit, CHANGES_REQUESTED.lower(), usage),)
        reason = self.evidence.failure.reason if self.evidence.failure else ""
        return (Attempt(self.candidate.commit, reason, self.change.usage),)


class Attempts:
    """The attempts of an iteration, in order: each one given has to be tried, by ``trying``, before the next.

    ``latest`` is the one that is made now, or was last. ``notes`` go into the record. ``repair_limit`` is None where no
    author can be asked again.
    """

    def __init__(self, steps: StepRunner, plan: Plan, repair_limit: int | None, manifest: Manifest) -> None:
        self.latest = OpenAttempt(1, 1, plan)
        self.notes: tuple[str, ...] = ()
        self._made: list[OpenAttempt] = []
        self._next: OpenAttempt | None = self.latest
        self._steps = steps
        self._verify = manifest.commands
        self._most_moves = manifest.parallel.landings
        self._repairs_left = repair_limit or 0
        self._may_ask_again = repair_limit is not None

    def __iter__(self) -> Iterator[OpenAttempt]:
        while attempt := self._next:
            yield attempt

    @property
    def top(self) -> OpenAttempt:
        """The one that the record is about: the last that became a commit, or the last one.

        Where that commit was to be taken along to another tip, it is the last one, whatever became of it.
        """
        committed = next((attempt for attempt in reversed(self._made) if attempt.candidate), None)
        return committed if committed and not committed.moved_from else self._made[-1]

    @property
    def are_over(self) -> bool:
        return self._next is None

    @contextlib.contextmanager
    def trying(self, attempt: OpenAttempt) -> Iterator[None]:
        """The phases of an attempt run in this block; after it, it is known whether there is another one.

        A rejection ends the block, and leaves it only where neither another attempt nor an earlier candidate is there.
        So does a limit of the run before a repair has its commit: the candidate so far can be decided about.
        """
        is_repair = any(earlier.cycle == attempt.cycle for earlier in self._made)
        self._next, self.latest = None, attempt
        self._made.append(attempt)
        try:
            yield
        except LimitReached as reached:
            if attempt.candidate or not is_repair or reached.stop.reason not in RUN_STOP_REASONS:
                raise  # a later invocation goes on with it
            self._made.pop()
        except Rejected as rejected:
            self._add_rejected(attempt, rejected)
        except TipMoved as moved:
            self.move(attempt, moved.base)
        else:
            assert attempt.evidence
            crash = repairable_failure(attempt.evidence, self._verify)
            if crash and self._take_repair(attempt):
                problem = Problem(_CRASH_PROBLEM, f"{crash.why}\n\n{crash.printed}")
                self._next = _continue(attempt, problem, attempt.cycle)
        if self._next is None and self.top.rejected:
            raise self.top.rejected

    @property
    def earlier(self) -> tuple[Attempt, ...]:
        """The attempts beside the ``top`` one, as they ended, in their order."""
        return tuple(ended for attempt in self._made if attempt is not self.top for ended in attempt.ended)

    def attempt_to_decide(self) -> OpenAttempt | None:
        """The attempt that a verdict is due on; None while another one follows, and where it has one."""
        return self.top if self.are_over and self.top.cycle == self.latest.cycle else None

    def take_review(self, review: Review) -> None:
        """Notes a review of the candidate; one that asks for changes gives its reasons back to the author."""
        word = review.word or "no verdict that could be read"
        self.notes += (f"review by {review.provider}: {word}", *(f"review: {reason}" for reason in review.reasons))
        if not review.goes_on:
            return
        reviewed, problem = self.top, Problem(_REVIEW_PROBLEM, "\n".join(review.reasons))
        reviewed.review = review
        self._next = _continue(reviewed, problem, reviewed.cycle + 1)

    def move(self, attempt: OpenAttempt, base: MeasuredCommit) -> None:
        """Takes a change of the incumbent ``base`` to the tip of now, as the next attempt.

        Raises Rejected if it was measured in vain too often.
        """
        change, candidate = attempt.change, attempt.candidate
        assert change and candidate
        was_measured = attempt.evidence is not None
        if was_measured and attempt.moves + 1 == self._most_moves:
            why = f"others landed while it was measured, {pluralize(self._most_moves, 'time')} (parallel.landings)"
            raise Rejected(Outcome.REVERTED, Reason.OUTRUN, why)
        attempt.moved_from = base.commit
        self._next = OpenAttempt(
            attempt.number + 1,
            attempt.cycle + was_measured,
            structs.replace(
                attempt.plan,
                title=change.title,
                text=change.text,
                usage=Usage(),
                provider=change.provider,
                model=change.model,
                tried=change.tried,
            ),
            last_committed=attempt.number,
            runs=attempt.runs + len(attempt.evidence.runs if attempt.evidence else ()),
            moving=(candidate, base),
            moves=attempt.moves + was_measured,
        )

    def _add_rejected(self, attempt: OpenAttempt, rejected: Rejected) -> None:
        attempt.rejected = rejected
        if called := rejected.plan:
            attempt.plan = structs.replace(attempt.plan, title=called.title, text=called.text, tried=called.tried)
        if self.top is not attempt:
            note = f"the change went back to its author, without success: {rejected.why} ({rejected.reason})"
            self.notes = (*self.notes, note)
        if rejected.reason == Reason.CONFLICT and self._may_ask_again:
            self._may_ask_again = False
            self._next = structs.replace(
                attempt,
                number=attempt.number + 1,
                problem=Problem(_CONFLICT_PROBLEM, rejected.why),
                change=None,
                rejected=None,
            )
        elif rejected.edits is not None and self._take_repair(attempt):
            self._next = structs.replace(
                attempt,
                number=attempt.number + 1,
                prior=PriorAttempt(rejected.edits, self.top.candidate.tree if self.top.candidate else ""),
                problem=Problem(_SCOPE_PROBLEM, rejected.why),
                change=None,
                rejected=None,
            )

    def _take_repair(self, attempt: OpenAttempt) -> bool:
        """Takes one of the repairs that are left; gives whether there was one.

        A repair with a checkpoint is continued; after a verdict no new one begins.
        """
        change = CheckpointName("change", attempt.number + 1)
        is_begun = self._steps.has(change, change.rejection)
        verdict = CheckpointName("verdict", attempt.cycle)
        has_repair = is_begun or (self._repairs_left > 0 and not self._steps.has(verdict, CheckpointName("record")))
        self._repairs_left -= has_repair
        return has_repair


def _continue(attempt: OpenAttempt, problem: Problem, cycle: int) -> OpenAttempt:
    """The attempt that goes on from a candidate, under the name that its idea has by now."""
    change, candidate, evidence = attempt.change, attempt.candidate, attempt.evidence
    assert change and candidate and evidence
    return OpenAttempt(
        attempt.number + 1,
        cycle,
        structs.replace(attempt.plan, title=change.title, text=change.text, tried=change.tried),
        PriorAttempt(change.edits, candidate.tree),
        problem,
        last_committed=attempt.number,
        commits=candidate.commits,
        runs=attempt.runs + len(evidence.runs),
        moves=attempt.moves,
    )


def repairable_failure(evidence: Evidence, verify: Sequence[VerifyCommand]) -> Failure | None:
    """The failure of a command that sees nothing hidden: its author may see the output. Otherwise None."""
    failure = evidence.failure
    if failure is None or failure.reason not in (Reason.VERIFY_FAILED, Reason.VERIFY_TIMEOUT) or not evidence.verify:
        return None
    sees = {command.name: command.sees for command in verify}
    return failure if sees.get(evidence.verify[-1].name) == "candidate" else None
