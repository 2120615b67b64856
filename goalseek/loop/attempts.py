"""The attempts of one iteration: a change, its commit and measurement, then its repair, review or move to a new tip.

Every phase of every attempt has a checkpoint, so a killed iteration resumes in the attempt that it had reached.
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
    def __init__(self, base: MeasuredCommit) -> None:
        super().__init__(base)
        self.base = base


class PriorAttempt(Struct, frozen=True):
    edits: tuple[Edit, ...] = ()
    tree: str = ""  # of the last candidate, which the attempt must not give again; "" before the first


class OpenAttempt(Struct):
    """One attempt: its inputs, then the results of its phases so far."""

    number: int
    cycle: int  # counts verdicts, this one's included: a review or a moved tip may need another
    plan: Plan
    prior: PriorAttempt | None = None
    problem: Problem | None = None
    last_committed: int = 0  # the number of the last earlier attempt with a commit; 0: none
    commits: tuple[str, ...] = ()  # of earlier attempts, which its own is on top of
    runs: int = 0  # measurements of earlier attempts
    moving: tuple[Candidate, MeasuredCommit] | None = None  # merged onto the tip, with the incumbent that it changes
    moves: int = 0  # verdicts that came too late, as the tip had moved
    moved_from: str = ""  # the commit of its incumbent; set once a later attempt rebased it
    change: Change | None = None
    candidate: Candidate | None = None
    evidence: Evidence | None = None
    verdict: Verdict | None = None
    rejected: Rejected | None = None
    review: Review | None = None

    def folder_in(self, run_folder: Path) -> Path:
        return run_folder / ATTEMPTS / str(self.number) if self.last_committed else run_folder

    @property
    def ended(self) -> tuple[Attempt, ...]:
        """Its entry in the record of a later attempt; empty if there was no change."""
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
    """The attempts of an iteration, in order; each has to pass through ``trying`` before the next."""

    def __init__(self, steps: StepRunner, plan: Plan, repair_limit: int | None, manifest: Manifest) -> None:
        self.latest = OpenAttempt(1, 1, plan)  # the present one, or the last
        self.notes: tuple[str, ...] = ()  # for the record
        self._made: list[OpenAttempt] = []
        self._next: OpenAttempt | None = self.latest
        self._steps = steps
        self._verify = manifest.commands
        self._most_moves = manifest.parallel.landings
        self._repairs_left = repair_limit or 0
        self._may_ask_again = repair_limit is not None  # else no author can be asked

    def __iter__(self) -> Iterator[OpenAttempt]:
        while attempt := self._next:
            yield attempt

    @property
    def top(self) -> OpenAttempt:
        """The attempt of the record: the last with a commit that was not to move to another tip; else the last one."""
        committed = next((attempt for attempt in reversed(self._made) if attempt.candidate), None)
        return committed if committed and not committed.moved_from else self._made[-1]

    @property
    def are_over(self) -> bool:
        return self._next is None

    @contextlib.contextmanager
    def trying(self, attempt: OpenAttempt) -> Iterator[None]:
        """The block runs the phases of an attempt; afterwards it is decided whether another follows.

        A rejection leaves the block only if neither another attempt nor an earlier candidate exists.
        """
        is_repair = any(earlier.cycle == attempt.cycle for earlier in self._made)
        self._next, self.latest = None, attempt
        self._made.append(attempt)
        try:
            yield
        except LimitReached as reached:
            if attempt.candidate or not is_repair or reached.stop.reason not in RUN_STOP_REASONS:
                raise  # a later invocation goes on with it
            self._made.pop()  # the candidate before the repair can still be decided
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
        """The attempts besides ``top``, in order."""
        return tuple(ended for attempt in self._made if attempt is not self.top for ended in attempt.ended)

    def attempt_to_decide(self) -> OpenAttempt | None:
        """The attempt that needs a verdict; None while another one follows, or once it has one."""
        return self.top if self.are_over and self.top.cycle == self.latest.cycle else None

    def take_review(self, review: Review) -> None:
        word = review.word or "no verdict that could be read"
        self.notes += (f"review by {review.provider}: {word}", *(f"review: {reason}" for reason in review.reasons))
        if not review.goes_on:
            return
        reviewed, problem = self.top, Problem(_REVIEW_PROBLEM, "\n".join(review.reasons))
        reviewed.review = review
        self._next = _continue(reviewed, problem, reviewed.cycle + 1)

    def move(self, attempt: OpenAttempt, base: MeasuredCommit) -> None:
        """Rebase a change of the incumbent ``base`` onto the present tip as the next attempt.

        Raises Rejected after ``parallel.landings`` measurements in vain.
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
        """Take a repair if one is left. A repair with a checkpoint is continued; after a verdict no new one begins."""
        change = CheckpointName("change", attempt.number + 1)
        is_begun = self._steps.has(change, change.rejection)
        verdict = CheckpointName("verdict", attempt.cycle)
        has_repair = is_begun or (self._repairs_left > 0 and not self._steps.has(verdict, CheckpointName("record")))
        self._repairs_left -= has_repair
        return has_repair


def _continue(attempt: OpenAttempt, problem: Problem, cycle: int) -> OpenAttempt:
    """The next attempt on top of a candidate, with its present title."""
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
    """The failure of a command that sees nothing hidden, so that its author may see the output; else None."""
    failure = evidence.failure
    if failure is None or failure.reason not in (Reason.VERIFY_FAILED, Reason.VERIFY_TIMEOUT) or not evidence.verify:
        return None
    sees = {command.name: command.sees for command in verify}
    return failure if sees.get(evidence.verify[-1].name) == "candidate" else None
