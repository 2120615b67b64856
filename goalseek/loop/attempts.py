"""The attempts of one iteration: a change, its commit and measurement, then its repair, review or move to a new tip.

Every phase of every attempt has a checkpoint, so a killed iteration resumes in the attempt that it had reached.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from goalseek.errors import LimitReached, Rejected
from goalseek.humanize import pluralize
from goalseek.ledger.artifacts import ATTEMPTS
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.ledger.standing import MeasuredCommit
from goalseek.loop.steps import StepRunner
from goalseek.manifest.tables import Manifest, VerifyCommand
from goalseek.phase_values import Candidate, Change, Decision, Edit, Evidence, Failure, Plan, Review, Verdict
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
    "While it was made, another change was kept, and the two do not merge. The folder has that change, none of your "
    "edits. Make your change again, so that it fits the files that you see. The files with conflicts:"
)


class TipMoved(Exception):
    def __init__(self, base: MeasuredCommit) -> None:
        super().__init__(base)
        self.base = base


class PriorAttempt(Struct, frozen=True):
    edits: tuple[Edit, ...] = ()
    tree: str = ""  # of the last candidate, which the attempt must not give again; "" before the first


class OpenAttempt(Struct):
    """An attempt under way: its inputs, then the results of its phases so far."""

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
    change: Change | None = None
    candidate: Candidate | None = None
    evidence: Evidence | None = None
    verdict: Verdict | None = None
    decision: Decision | None = None  # the final one, once a reviewer and a person have been asked
    review: Review | None = None  # that of a reviewer who sent it back
    rejected: Rejected | None = None
    moved_from: str | None = None  # the commit of its incumbent; set once a later attempt rebased it

    @property
    def is_kept(self) -> bool:
        return self.decision is not None and bool(self.decision.verdict)

    def folder_in(self, run_folder: Path) -> Path:
        return run_folder / ATTEMPTS / str(self.number) if self.last_committed else run_folder

    def following(self, problem: Problem | None, **changed: Any) -> OpenAttempt:
        """The next attempt. Its inputs are those of this one but for ``changed``; after a commit it has its title."""
        inputs = {name: getattr(self, name) for name in _INPUTS}
        if change := self.change if self.candidate else None:
            inputs["plan"] = structs.replace(self.plan, title=change.title, text=change.text, tried=change.tried)
            inputs["last_committed"] = self.number
            inputs["runs"] += len(self.evidence.runs) if self.evidence else 0
        return OpenAttempt(**{**inputs, "number": self.number + 1, "problem": problem, **changed})

    @property
    def entry(self) -> Attempt | None:
        """Its entry in the record of a later attempt; None if there was no change."""
        change, candidate = self.change, self.candidate
        if self.rejected:  # a duplicate was paid for
            return Attempt(None, self.rejected.reason, change.usage if change else self.rejected.usage)
        if not (change and candidate):
            return None
        if self.moved_from:
            return Attempt(candidate.commit, Reason.MOVED, change.usage, self.moved_from)
        if self.review:
            return Attempt(candidate.commit, CHANGES_REQUESTED.lower(), change.usage.plus(self.review.usage))
        failure = self.evidence.failure if self.evidence else None
        return Attempt(candidate.commit, failure.reason if failure else "", change.usage)


_INPUTS = ("cycle", "plan", "prior", "last_committed", "commits", "runs", "moving", "moves")


class Attempts:
    """The attempts of an iteration, in order; each has to pass through ``trying`` before the next."""

    def __init__(self, steps: StepRunner, plan: Plan, repair_limit: int | None, manifest: Manifest) -> None:
        self.plan = plan
        self.latest = OpenAttempt(1, 1, plan)  # the present one, or the last
        self.notes: tuple[str, ...] = ()  # for the record
        self._made: list[OpenAttempt] = []
        self._next: OpenAttempt | None = self.latest
        self._steps = steps
        self._manifest = manifest
        self._repairs_left = repair_limit or 0
        self._may_ask_again = repair_limit is not None  # else no author can be asked

    def __iter__(self) -> Iterator[OpenAttempt]:
        while attempt := self._next:
            yield attempt

    @property
    def are_over(self) -> bool:
        return self._next is None

    @property
    def subject(self) -> OpenAttempt:
        """The attempt of verdict and record: the last with a commit, unless that moves to another tip; else the last.

        If a repair or an answer to a review gives no candidate, the one before it stands.
        """
        committed = next((attempt for attempt in reversed(self._made) if attempt.candidate), None)
        return committed if committed and not committed.moved_from else self._made[-1]

    @property
    def entries(self) -> tuple[Attempt, ...]:
        """The record's entries of the attempts besides ``subject``, in order."""
        others = (attempt for attempt in self._made if attempt is not self.subject)
        return tuple(entry for attempt in others if (entry := attempt.entry))

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
            crash = repairable_failure(attempt.evidence, self._manifest.commands)
            if crash and self._use_repair(attempt):
                self._return(attempt, Problem(_CRASH_PROBLEM, f"{crash.why}\n\n{crash.printed}"))
        if self._next is None and self.subject.rejected:
            raise self.subject.rejected

    def add_review(self, review: Review) -> None:
        attempt, word = self.subject, review.word or "no readable verdict"
        attempt.decision = review.decision
        self.notes += (f"review by {review.provider}: {word}", *(f"review: {reason}" for reason in review.reasons))
        if review.goes_on:
            attempt.review = review
            self._return(attempt, Problem(_REVIEW_PROBLEM, "\n".join(review.reasons)), cycle=attempt.cycle + 1)

    def move(self, attempt: OpenAttempt, base: MeasuredCommit) -> None:
        """Rebase a change of the incumbent ``base`` onto the present tip as the next attempt.

        Raises Rejected after ``parallel.landings`` measurements in vain.
        """
        change, was_measured, most = attempt.change, attempt.evidence is not None, self._manifest.parallel.landings
        assert change
        if was_measured and attempt.moves + 1 == most:
            why = f"the tip moved while it was measured, {pluralize(most, 'time')} (parallel.landings)"
            raise Rejected(Outcome.REVERTED, Reason.OUTRUN, why)
        self._next = attempt.following(
            None,
            cycle=attempt.cycle + was_measured,
            prior=None,
            commits=(),
            moving=(attempt.candidate, base),
            moves=attempt.moves + was_measured,
        )
        self._next.plan = structs.replace(self._next.plan, usage=Usage(), provider=change.provider, model=change.model)
        attempt.moved_from = base.commit

    def _return(self, attempt: OpenAttempt, problem: Problem, **changed: Any) -> None:
        """Return a candidate to its author, whose next one is on top of it."""
        assert attempt.change and attempt.candidate
        prior, commits = PriorAttempt(attempt.change.edits, attempt.candidate.tree), attempt.candidate.commits
        self._next = attempt.following(problem, prior=prior, commits=commits, moving=None, **changed)

    def _add_rejected(self, attempt: OpenAttempt, rejected: Rejected) -> None:
        attempt.rejected = rejected
        if called := rejected.plan:
            attempt.plan = structs.replace(attempt.plan, title=called.title, text=called.text, tried=called.tried)
        candidate = self.subject.candidate
        if self.subject is not attempt:
            self.notes += (f"a later attempt of its author failed: {rejected.why} ({rejected.reason})",)
        if rejected.reason == Reason.CONFLICT and self._may_ask_again:
            self._may_ask_again = False
            self._next = attempt.following(Problem(_CONFLICT_PROBLEM, rejected.why))
        elif rejected.edits is not None and self._use_repair(attempt):
            prior = PriorAttempt(rejected.edits, candidate.tree if candidate else "")
            self._next = attempt.following(Problem(_SCOPE_PROBLEM, rejected.why), prior=prior)

    def _use_repair(self, attempt: OpenAttempt) -> bool:
        """Use up a repair if one is left. One with a checkpoint goes on; after a verdict no new one begins."""
        change = CheckpointName("change", attempt.number + 1)
        is_begun = self._steps.has(change, change.rejection)
        verdict = CheckpointName("verdict", attempt.cycle)
        has_repair = is_begun or (self._repairs_left > 0 and not self._steps.has(verdict, CheckpointName("record")))
        self._repairs_left -= has_repair
        return has_repair


def repairable_failure(evidence: Evidence, verify: Sequence[VerifyCommand]) -> Failure | None:
    """The failure of a command that sees nothing hidden, so that its author may see the output; else None."""
    failure = evidence.failure
    if failure is None or failure.reason not in (Reason.VERIFY_FAILED, Reason.VERIFY_TIMEOUT) or not evidence.verify:
        return None
    sees = {command.name: command.sees for command in verify}
    return failure if sees.get(evidence.verify[-1].name) == "candidate" else None
