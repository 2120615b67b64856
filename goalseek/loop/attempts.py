"""The attempts of one iteration: a change, its commit and its measurement, and its repair or review.

A candidate whose command crashed goes back to its author with the last lines printed, one with edits outside its scope
with the refusal, and one whose reviewer asks for changes with the reasons. Each attempt starts from the edits of the
one before, and its commit is on top of that one's. Every phase of every attempt has a checkpoint of its own, so a
killed iteration goes on in the attempt that it had reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from goalseek.errors import LimitReached, Rejected
from goalseek.ledger.artifacts import (
    archive_attempt,
    attempt_snapshot,
    clear_attempts,
    folder_of_attempt,
    publish_candidate,
)
from goalseek.ledger.checkpoints import checkpoint_name, rejection_name
from goalseek.loop.phases.apply_change import PriorAttempt, apply_change
from goalseek.loop.phases.commit import commit
from goalseek.loop.phases.decide import decide
from goalseek.loop.phases.plan import make_plan
from goalseek.loop.phases.review import review_candidate, review_notes
from goalseek.loop.phases.verify import next_measurement
from goalseek.loop.steps import StepRunner
from goalseek.manifest.tables import VerifyCommand
from goalseek.own_folders import recreate_folder
from goalseek.phase_values import Candidate, Change, Decision, Evidence, Failure, Plan, Review, Verdict
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.proposal.call import Briefing, build_call
from goalseek.proposal.prompt import Problem
from goalseek.values import Attempt

CHANGES_REQUESTED = "changes_requested"


@dataclass(frozen=True)
class AttemptCounts:
    """How many attempts there were, how many of them were repairs, and how many measurements they took together.

    ``shown`` is the number of the last attempt that became a commit (0: none); ``cycle`` that of the next verdict.
    """

    tries: int = 0
    repairs: int = 0
    runs: int = 0
    shown: int = 0
    cycle: int = 1


@dataclass(frozen=True)
class Attempts:
    """The attempt that the record is about; the others are in ``attempts``, oldest first. ``notes`` go into the record.

    It is the last attempt that became a commit, or if none did the last one, with the rejection that ended it.
    ``review`` is the review that asks for changes of it.
    """

    change: Change | None = None
    candidate: Candidate | None = None
    evidence: Evidence | None = None
    verdict: Verdict | None = None
    rejected: Rejected | None = None
    attempts: tuple[Attempt, ...] = ()
    notes: tuple[str, ...] = ()
    counts: AttemptCounts = AttemptCounts()
    review: Review | None = None

    def measured(self) -> tuple[Change, Candidate, Verdict]:
        """The change, the candidate and the rule's verdict on it. Raises Rejected where no attempt became a commit."""
        if self.rejected:
            raise self.rejected
        assert self.change and self.candidate and self.verdict is not None
        return self.change, self.candidate, self.verdict


def plan_with_retry(project: Project, config: Config, steps: StepRunner, briefing: Briefing, folder: Path) -> Plan:
    """The plan. After an answer without a plan the provider is asked once more, with the problem. Raises Rejected."""
    provider = project.provider()

    def ask(number: int, problem: Problem | None = None) -> Plan:
        if number == 1:
            clear_attempts(folder)
        call = build_call(project, config, briefing, "plan", None, steps.calls, folder, number, problem)
        return make_plan(provider, call, folder)

    try:
        return steps.do("PLAN", "plan", Plan, lambda: ask(1))
    except Rejected as rejected:
        if rejected.reason != "no_plan":
            raise
        problem = Problem(rejected.why)
    return steps.do("PLAN", checkpoint_name("plan", 2), Plan, lambda: ask(2, problem))


def run_attempts(
    project: Project, config: Config, steps: StepRunner, briefing: Briefing, plan: Plan, folder: Path
) -> Attempts:
    """Makes attempts until one has evidence, or is rejected, and needs no repair or may not be repaired."""
    return _attempt_loop(project, config, steps, briefing, plan, folder, Attempts(), PriorAttempt(), None)


def continue_attempts(
    project: Project,
    config: Config,
    steps: StepRunner,
    briefing: Briefing,
    plan: Plan,
    folder: Path,
    attempts: Attempts,
    review: Review,
) -> Attempts:
    """Makes further attempts after a review that asks for changes; its reasons go back to the author.

    Where none becomes a commit, the candidate stays the one from before. Raises LimitReached where a limit forbids it.
    """
    change, candidate, _ = attempts.measured()
    plan = replace(plan, title=change.title, text=change.text)
    attempts = replace(attempts, review=review, counts=replace(attempts.counts, cycle=attempts.counts.cycle + 1))
    problem = Problem(_REVIEW_PROBLEM, "\n".join(review.reasons))
    return _attempt_loop(
        project, config, steps, briefing, plan, folder, attempts, PriorAttempt(change.edits, candidate.tree), problem
    )


def _attempt_loop(
    project: Project,
    config: Config,
    steps: StepRunner,
    briefing: Briefing,
    plan: Plan,
    folder: Path,
    attempts: Attempts,
    prior: PriorAttempt,
    problem: Problem | None,
) -> Attempts:
    repair_limit = project.provider_table().repair if project.provider().repairs else 0
    counts = attempts.counts
    number, runs, last_committed, repairs = counts.tries + 1, counts.runs, counts.shown, counts.repairs
    first, verdict_name = number, checkpoint_name("verdict", counts.cycle)
    while True:
        attempts = replace(attempts, counts=AttemptCounts(number, repairs, runs, last_committed, counts.cycle))
        earlier = attempts.candidate.commits if attempts.candidate else ()
        attempt_folder = folder_of_attempt(folder, number, last_committed)
        change = None
        try:
            edit = partial(
                _apply, project, config, steps, briefing, plan, folder, number, prior, problem, last_committed
            )
            change = steps.do("APPLY_CHANGE", checkpoint_name("change", number), Change, edit)
            make_commit = partial(
                _commit, project, config, briefing, change, folder, attempt_folder, last_committed, earlier
            )
            candidate = steps.do("COMMIT", checkpoint_name("candidate", number), Candidate, make_commit)
        except LimitReached:
            if number == first:
                raise
            return attempts  # the candidate so far can be decided about
        except Rejected as rejected:
            attempts = _with_rejection(attempts, change, rejected)
            if rejected.edits is None or not _has_next_attempt(steps, number, repairs < repair_limit, verdict_name):
                return attempts
            prior, problem = PriorAttempt(rejected.edits), Problem(_SCOPE_PROBLEM, rejected.why)
        else:
            next_part = partial(next_measurement, project, config, change, candidate, folder, runs)
            evidence, verdict = steps.gather("VERIFY", checkpoint_name("evidence", number), Evidence(), next_part)
            attempts = replace(_with_candidate(attempts, change, candidate, evidence), verdict=verdict)
            last_committed = number
            runs += len(evidence.runs)
            attempts = replace(attempts, counts=AttemptCounts(number, repairs, runs, last_committed, counts.cycle))
            crash = repairable_failure(evidence, config.manifest.verify)
            if crash is None or not _has_next_attempt(steps, number, repairs < repair_limit, verdict_name):
                return attempts
            prior, problem = (
                PriorAttempt(change.edits, candidate.tree),
                Problem(_CRASH_PROBLEM, f"{crash.why}\n\n{crash.printed}"),
            )
            plan = replace(plan, title=change.title, text=change.text)
        number, repairs = number + 1, repairs + 1


def repairable_failure(evidence: Evidence, verify: Sequence[VerifyCommand]) -> Failure | None:
    """The failure of a command that sees nothing hidden, so that its output may be shown to the author; else None."""
    failure = evidence.failure
    if failure is None or failure.reason not in ("verify_failed", "verify_timeout") or not evidence.verify:
        return None
    sees = {command.name: command.sees for command in verify}
    return failure if sees.get(evidence.verify[-1].name) == "candidate" else None


def _has_next_attempt(steps: StepRunner, number: int, is_allowed: bool, verdict_name: str) -> bool:
    """Whether there is another attempt: one with a checkpoint is continued; after a verdict no new one begins."""
    next_change = checkpoint_name("change", number + 1)
    if steps.has(next_change, rejection_name(next_change)):
        return True
    return is_allowed and not steps.has(verdict_name, "record")


def _apply(
    project: Project,
    config: Config,
    steps: StepRunner,
    briefing: Briefing,
    plan: Plan,
    folder: Path,
    number: int,
    prior: PriorAttempt,
    problem: Problem | None,
    last_committed: int,
) -> Change:
    phase, count = ("apply", 1) if number == 1 else ("repair", number - 1)
    attempt_folder = folder_of_attempt(folder, number, last_committed)
    if number > 1:
        if last_committed:
            recreate_folder(attempt_folder)
        else:
            archive_attempt(folder, number - 1)
        prior = replace(prior, snapshot=attempt_snapshot(folder, number - 1))
    assert project.standing.incumbent
    return apply_change(
        project.provider(),
        build_call(project, config, briefing, phase, plan, steps.calls, folder, count, problem),
        plan,
        project.workspace(config),
        project.repository.objects,
        config.scope,
        config.manifest.scope.strays,
        project.standing.incumbent.tree,
        attempt_folder,
        prior,
    )


def _commit(
    project: Project,
    config: Config,
    briefing: Briefing,
    change: Change,
    folder: Path,
    attempt_folder: Path,
    last_committed: int,
    earlier: tuple[str, ...],
) -> Candidate:
    candidate = commit(project, config, briefing.context, change, attempt_folder / "snapshot", earlier)
    if attempt_folder != folder:
        publish_candidate(folder, attempt_folder, last_committed)
    return candidate


def _with_candidate(attempts: Attempts, change: Change, candidate: Candidate, evidence: Evidence) -> Attempts:
    return replace(
        attempts,
        change=change,
        candidate=candidate,
        evidence=evidence,
        rejected=None,
        review=None,
        attempts=(*attempts.attempts, *_as_attempt(attempts)),
    )


def _with_rejection(attempts: Attempts, change: Change | None, rejected: Rejected) -> Attempts:
    """Adds an attempt that became no commit. An earlier one that did stays the one that the record is about."""
    if attempts.candidate:
        attempt = Attempt(None, rejected.reason, rejected.usage)
        note = f"sent back to its author, it came to nothing: {rejected.reason}, {rejected.why}"
        return replace(attempts, attempts=(*attempts.attempts, attempt), notes=(*attempts.notes, note))
    return replace(attempts, change=change, rejected=rejected, attempts=(*attempts.attempts, *_as_attempt(attempts)))


def _as_attempt(attempts: Attempts) -> tuple[Attempt, ...]:
    """The attempt that the record was about until now, as the record lists it."""
    if attempts.rejected:
        return (Attempt(None, attempts.rejected.reason, attempts.rejected.usage),)
    if attempts.candidate and attempts.change and attempts.evidence:
        if attempts.review:
            usage = attempts.change.usage.plus(attempts.review.usage)
            return (Attempt(attempts.candidate.commit, CHANGES_REQUESTED, usage),)
        reason = attempts.evidence.failure.reason if attempts.evidence.failure else ""
        return (Attempt(attempts.candidate.commit, reason, attempts.change.usage),)
    return ()


_REVIEW_PROBLEM = (
    "It was measured and would be kept. But somebody else who reviewed it by the project's criteria asks for changes "
    "first. Put right what the review names, and nothing else. Its reasons:"
)
_CRASH_PROBLEM = (
    "A command that runs your change failed when it was measured. How it ended, and the last lines it printed:"
)
_SCOPE_PROBLEM = (
    "It edited what is not its to edit. Only the files that you may change are taken from this folder, and a change "
    "that touches others is refused as a whole. Those edits were put back; what was refused, and why:"
)


def decide_and_review(
    project: Project,
    config: Config,
    steps: StepRunner,
    briefing: Briefing,
    plan: Plan,
    folder: Path,
    attempts: Attempts,
) -> tuple[Attempts, Decision]:
    """Decides, and has a keep reviewed, again after each change that the reviewer asks for.

    Raises Rejected where no attempt became a commit, and LimitReached where a limit forbids another call.
    """
    while True:
        change, candidate, verdict = attempts.measured()
        cycle = attempts.counts.cycle
        work = partial(decide, project.repository, briefing.context, candidate, verdict)
        decision = steps.do("DECIDE", checkpoint_name("verdict", cycle), Decision, work)
        review_name = checkpoint_name("review", cycle)
        if not decision.verdict:
            return attempts, decision
        if config.manifest.review is None and not steps.has(review_name):  # a stored review counts all the same
            return attempts, decision
        ask_reviewer = partial(
            review_candidate, project, config, briefing, plan, change, candidate, decision, steps.calls, folder, cycle
        )
        review = steps.do("REVIEW", review_name, Review, ask_reviewer)
        attempts = replace(attempts, notes=(*attempts.notes, *review_notes(review)))
        if not review.goes_on:
            return attempts, review.decision
        next_attempts = continue_attempts(project, config, steps, briefing, plan, folder, attempts, review)
        if next_attempts.candidate == attempts.candidate:
            return next_attempts, review.decision
        attempts = next_attempts
