"""The tries of an iteration: a change, its commit, its measurement; and what goes back to its author once more.

A candidate whose own command crashed goes back with the last lines of it, one that edited outside its scope with the
rule. Each try begins with what the one before left and is a commit on that one's. Every answer of every try is stored
under a name of its own, so a killed iteration goes on in the try that it had reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from goalseek.errors import LimitReached, Rejected
from goalseek.ledger.artifacts import clear_attempts, place_of, publish, put_by, snapshot_of
from goalseek.ledger.checkpoints import named, rejected_as
from goalseek.loop.phases.apply_change import PriorAttempt, apply_change
from goalseek.loop.phases.commit import commit
from goalseek.loop.phases.decide import judge
from goalseek.loop.phases.plan import make_plan
from goalseek.loop.phases.review import notes_of, reviewed
from goalseek.loop.phases.verify import next_measurement
from goalseek.loop.steps import StepRunner
from goalseek.manifest.tables import VerifyCommand
from goalseek.own_folders import make_anew
from goalseek.phase_values import Candidate, Change, Decision, Evidence, Failure, Plan, Review
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.proposal.call import Briefing, build_call
from goalseek.proposal.prompt import Problem
from goalseek.values import Attempt

CHANGES_REQUESTED = "changes_requested"


@dataclass(frozen=True)
class AttemptCounts:
    """How many tries there were, how many of these were repairs, and how many measurements they took.

    ``shown`` is the last that became a commit; ``cycle`` counts the verdicts, with the one that is to come.
    """

    tries: int = 0
    repairs: int = 0
    runs: int = 0
    shown: int = 0
    cycle: int = 1


@dataclass(frozen=True)
class Attempts:
    """The try that the record is about, the others as ``attempts``, oldest first, and notes for people.

    It is the last that became a commit; where none did, the last, with the rejection that ended it. ``review`` is the
    one that asks for changes of it.
    """

    change: Change | None = None
    candidate: Candidate | None = None
    evidence: Evidence | None = None
    rejected: Rejected | None = None
    attempts: tuple[Attempt, ...] = ()
    notes: tuple[str, ...] = ()
    so_far: AttemptCounts = AttemptCounts()
    review: Review | None = None

    def measured(self) -> tuple[Change, Candidate, Evidence]:
        """What there is to decide about. Raises Rejected where no try became a commit."""
        if self.rejected:
            raise self.rejected
        assert self.change and self.candidate and self.evidence
        return self.change, self.candidate, self.evidence


def plan_with_retry(project: Project, config: Config, steps: StepRunner, briefing: Briefing, folder: Path) -> Plan:
    """The plan. An answer that is none is asked for once more, with what was wrong. Raises Rejected."""
    provider = project.provider()

    def asked(number: int, problem: Problem | None = None) -> Plan:
        if number == 1:
            clear_attempts(folder)
        call = build_call(project, config, briefing, "plan", None, steps.calls, folder, number, problem)
        return make_plan(provider, call, folder)

    try:
        return steps.do("PLAN", "plan", Plan, lambda: asked(1))
    except Rejected as rejected:
        if rejected.reason != "no_plan":
            raise
        problem = Problem(rejected.why)
    return steps.do("PLAN", named("plan", 2), Plan, lambda: asked(2, problem))


def run_attempts(
    project: Project, config: Config, steps: StepRunner, briefing: Briefing, plan: Plan, folder: Path
) -> Attempts:
    """Tries until a try need not, or may not, go back to its author."""
    return _attempt_loop(project, config, steps, briefing, plan, folder, Attempts(), PriorAttempt(), None)


def continue_attempts(
    project: Project,
    config: Config,
    steps: StepRunner,
    briefing: Briefing,
    plan: Plan,
    folder: Path,
    before: Attempts,
    review: Review,
) -> Attempts:
    """The same once more, after a review that asks for changes: its words go back to the author.

    Where that comes to no commit, the candidate is the one from before. Raises LimitReached where a limit forbids it.
    """
    change, candidate, _ = before.measured()
    plan = replace(plan, title=change.title, text=change.text)
    found = replace(before, review=review, so_far=replace(before.so_far, cycle=before.so_far.cycle + 1))
    problem = Problem(_REVIEWED, "\n".join(review.reasons))
    return _attempt_loop(
        project, config, steps, briefing, plan, folder, found, PriorAttempt(change.edits, candidate.tree), problem
    )


def _attempt_loop(
    project: Project,
    config: Config,
    steps: StepRunner,
    briefing: Briefing,
    plan: Plan,
    folder: Path,
    found: Attempts,
    begun: PriorAttempt,
    problem: Problem | None,
) -> Attempts:
    most = project.provider_table().repair if project.provider().repairs else 0
    before = found.so_far
    number, runs, shown, repairs = before.tries + 1, before.runs, before.shown, before.repairs
    first, verdict = number, named("verdict", before.cycle)
    while True:
        found = replace(found, so_far=AttemptCounts(number, repairs, runs, shown, before.cycle))
        earlier = found.candidate.commits if found.candidate else ()
        place = place_of(folder, number, shown)
        change = None
        try:
            work = partial(_applied, project, config, steps, briefing, plan, folder, number, begun, problem, shown)
            change = steps.do("APPLY_CHANGE", named("change", number), Change, work)
            committed = partial(_committed, project, config, briefing, change, folder, place, shown, earlier)
            candidate = steps.do("COMMIT", named("candidate", number), Candidate, committed)
        except LimitReached:
            if number == first:
                raise
            return found  # what is there can be decided about without another try
        except Rejected as rejected:
            found = _with_rejected(found, change, rejected)
            if rejected.edits is None or not _goes_on(steps, number, repairs < most, verdict):
                return found
            begun, problem = PriorAttempt(rejected.edits), Problem(_OUT_OF_SCOPE, rejected.why)
        else:
            owed = partial(next_measurement, project, config, change, candidate, folder, runs)
            evidence = steps.gather("VERIFY", named("evidence", number), Evidence(), owed)
            found = _with_candidate(found, change, candidate, evidence)
            shown = number
            runs += len(evidence.runs)
            found = replace(found, so_far=AttemptCounts(number, repairs, runs, shown, before.cycle))
            crash = crash_of(evidence, config.manifest.verify)
            if crash is None or not _goes_on(steps, number, repairs < most, verdict):
                return found
            begun, problem = (
                PriorAttempt(change.edits, candidate.tree),
                Problem(_CRASHED, f"{crash.why}\n\n{crash.printed}"),
            )
            plan = replace(plan, title=change.title, text=change.text)
        number, repairs = number + 1, repairs + 1


def crash_of(evidence: Evidence, verify: Sequence[VerifyCommand]) -> Failure | None:
    """How a command ended badly that sees nothing hidden, and which the candidate's author may hear; else None."""
    failure = evidence.failure
    if failure is None or failure.reason not in ("verify_failed", "verify_timeout") or not evidence.verify:
        return None
    sees = {command.name: command.sees for command in verify}
    return failure if sees.get(evidence.verify[-1].name) == "candidate" else None


def _goes_on(steps: StepRunner, number: int, may: bool, verdict: str) -> bool:
    """Whether there is another try: one that was begun is gone on with, and after a verdict none begins."""
    following = named("change", number + 1)
    if steps.has(following, rejected_as(following)):
        return True
    return may and not steps.has(verdict, "record")


def _applied(
    project: Project,
    config: Config,
    steps: StepRunner,
    briefing: Briefing,
    plan: Plan,
    folder: Path,
    number: int,
    begun: PriorAttempt,
    problem: Problem | None,
    shown: int,
) -> Change:
    phase, count = ("apply", 1) if number == 1 else ("repair", number - 1)
    place = place_of(folder, number, shown)
    if number > 1:
        if shown:
            make_anew(place)
        else:
            put_by(folder, number - 1)
        begun = replace(begun, snapshot=snapshot_of(folder, number - 1))
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
        place,
        begun,
    )


def _committed(
    project: Project,
    config: Config,
    briefing: Briefing,
    change: Change,
    folder: Path,
    place: Path,
    shown: int,
    earlier: tuple[str, ...],
) -> Candidate:
    candidate = commit(project, config, briefing.context, change, place / "snapshot", earlier)
    if place != folder:
        publish(folder, place, shown)
    return candidate


def _with_candidate(found: Attempts, change: Change, candidate: Candidate, evidence: Evidence) -> Attempts:
    return replace(
        found,
        change=change,
        candidate=candidate,
        evidence=evidence,
        rejected=None,
        review=None,
        attempts=(*found.attempts, *_as_attempt(found)),
    )


def _with_rejected(found: Attempts, change: Change | None, rejected: Rejected) -> Attempts:
    """With a try that came to no commit: one that did before it stays what the record is about."""
    if found.candidate:
        attempt = Attempt(None, rejected.reason, rejected.usage)
        note = f"sent back to its author, it came to nothing: {rejected.reason}, {rejected.why}"
        return replace(found, attempts=(*found.attempts, attempt), notes=(*found.notes, note))
    return replace(found, change=change, rejected=rejected, attempts=(*found.attempts, *_as_attempt(found)))


def _as_attempt(found: Attempts) -> tuple[Attempt, ...]:
    """The try that the record was about until now."""
    if found.rejected:
        return (Attempt(None, found.rejected.reason, found.rejected.usage),)
    if found.candidate and found.change and found.evidence:
        if found.review:
            usage = found.change.usage.plus(found.review.usage)
            return (Attempt(found.candidate.commit, CHANGES_REQUESTED, usage),)
        reason = found.evidence.failure.reason if found.evidence.failure else ""
        return (Attempt(found.candidate.commit, reason, found.change.usage),)
    return ()


_REVIEWED = (
    "It was measured and would be kept. But somebody else who reviewed it by the project's criteria asks for changes "
    "first. Put right what the review names, and nothing else. Its reasons:"
)
_CRASHED = "A command that runs your change failed when it was measured. How it ended, and the last lines it printed:"
_OUT_OF_SCOPE = (
    "It edited what is not its to edit. Only the files that you may change are taken from this folder, and a change "
    "that touches others is refused as a whole. Those edits were put back; what was refused, and why:"
)


def decide_and_review(
    project: Project, config: Config, steps: StepRunner, briefing: Briefing, plan: Plan, folder: Path, tries: Attempts
) -> tuple[Attempts, Decision]:
    """The decision, and the tries that it is about. Raises Rejected where there is nothing to decide about.

    Raises LimitReached where a limit forbids to ask the reviewer, or the author again.
    """
    while True:
        change, candidate, evidence = tries.measured()
        cycle = tries.so_far.cycle
        about = (change, candidate, evidence)
        work = partial(judge, project.repository, config.manifest, project.standing, briefing.context, *about)
        decision = steps.do("DECIDE", named("verdict", cycle), Decision, work)
        stored_as = named("review", cycle)
        if not decision.verdict:
            return tries, decision
        if config.manifest.review is None and not steps.has(stored_as):  # one that is there counts all the same
            return tries, decision
        asked = partial(
            reviewed, project, config, briefing, plan, change, candidate, decision, steps.calls, folder, cycle
        )
        review = steps.do("REVIEW", stored_as, Review, asked)
        tries = replace(tries, notes=(*tries.notes, *notes_of(review)))
        if not review.goes_on:
            return tries, review.decision
        again = continue_attempts(project, config, steps, briefing, plan, folder, tries, review)
        if again.candidate == tries.candidate:
            return again, review.decision
        tries = again
