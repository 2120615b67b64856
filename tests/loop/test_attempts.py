"""Which attempt of an iteration comes next, and which one its record is about."""

from types import SimpleNamespace
from typing import cast

import pytest
from msgspec import structs

from goalseek.errors import LimitReached, Rejected
from goalseek.ledger.standing import MeasuredCommit
from goalseek.loop.attempts import Attempts, OpenAttempt
from goalseek.loop.iteration import Iteration
from goalseek.loop.steps import StepRunner
from goalseek.manifest.tables import Manifest, Parallel, VerifyCommand
from goalseek.phase_values import Candidate, Change, Decision, Edit, Evidence, Failure, Plan, Review, Verdict
from goalseek.values import Attempt, CommandRun, Stop, StopReason, Usage

EDIT = Edit("answer.json", "100644", "b" * 40)
CHANGE = Change("a title", "", (EDIT,), (), 1, 0)
CRASHED = Evidence(
    verify=(CommandRun("train", 1, 0.1),), failure=Failure("verify_failed", "train ended with 1", "Traceback")
)


def attempts() -> Attempts:
    """The attempts of an iteration that has no checkpoints; two repairs are allowed."""
    steps = SimpleNamespace(has=lambda *names: False)
    commands = (VerifyCommand(name="train", run="train", sees="candidate"),)
    manifest = SimpleNamespace(commands=commands, parallel=Parallel())
    return Attempts(cast(StepRunner, steps), Plan("a title", ""), 2, cast(Manifest, manifest))


def measure(every: Attempts, evidence: Evidence) -> OpenAttempt:
    """The next attempt, with its commit and this evidence."""
    attempt = next(iter(every))
    with every.trying(attempt):
        attempt.change, attempt.candidate = CHANGE, Candidate(f"commit {attempt.number}", "tree 1", "tip")
        attempt.evidence = evidence
    return attempt


@pytest.mark.parametrize("reason", [StopReason.TIME, StopReason.ASKED, StopReason.UNTIL])
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_limit_leaves_a_committed_repair_and_an_end_leaves_any(reason: StopReason, is_committed: bool) -> None:
    every = attempts()
    first = measure(every, CRASHED)
    repair = next(iter(every))
    limit = LimitReached(Stop(reason, "no more"))

    def reach() -> None:
        with every.trying(repair):
            if is_committed:
                repair.change, repair.candidate = CHANGE, Candidate("commit 2", "tree 2", "tip", ("commit 1",))
            raise limit

    if is_committed or reason != StopReason.TIME:
        with pytest.raises(LimitReached):
            reach()
    else:
        reach()
        assert every.are_over and every.subject is first, "the candidate so far can be decided about"


def test_a_repair_after_a_refusal_must_give_more_than_the_candidate_before_it() -> None:
    every = attempts()
    measure(every, CRASHED)
    second = next(iter(every))
    assert second.prior and second.prior.tree == "tree 1"
    with every.trying(second):
        raise Rejected("skipped", "out_of_scope", "not its to edit", edits=(EDIT,))
    third = next(iter(every))
    assert (third.number, third.last_committed, third.commits) == (3, 1, ("commit 1",))
    assert third.prior and third.prior.tree == "tree 1"
    measure(every, CRASHED)
    assert [attempt.reason for attempt in every.entries] == ["verify_failed", "out_of_scope"], "in their order"


def test_during_a_repair_others_know_the_iteration_by_its_plan_until_the_repair_has_a_change() -> None:
    every = attempts()
    project = SimpleNamespace(places=SimpleNamespace(prefix=""))
    iteration = cast(Iteration, SimpleNamespace(number=1, attempts=every, project=project))

    def files() -> tuple[str, ...]:
        return tuple(Iteration.as_ahead.__get__(iteration).files)

    assert files() == (), "its first attempt has not begun"
    measure(every, CRASHED)
    assert files() == ("answer.json",)
    with every.trying(repair := next(iter(every))):
        assert files() == ()
        edits = (EDIT, structs.replace(EDIT, path="more.json"))
        repair.change = structs.replace(CHANGE, edits=edits, usage=Usage(70))
        assert files() == ("answer.json", "more.json")
        raise Rejected("skipped", "duplicate", "the same tree was measured in iteration 1")
    assert every.entries == (Attempt(None, "duplicate", Usage(70)),), "it became no commit, and was paid for"


def test_verdicts_that_came_too_late_are_none_of_a_reviewers_and_count_also_after_one() -> None:
    every, incumbent = attempts(), cast(MeasuredCommit, SimpleNamespace(commit="incumbent"))
    asks = Review("CHANGES_REQUESTED", (), Decision(Verdict("kept", "better", "")), goes_on=True)
    first = measure(every, Evidence())
    every.move(first, incumbent)
    second = measure(every, Evidence())
    every.add_review(asks)
    third = measure(every, Evidence())
    assert [attempt.cycle - attempt.moves for attempt in (first, second, third)] == [1, 1, 2]
    every.move(third, incumbent)
    with pytest.raises(Rejected, match="the tip moved while it was measured, 3 times"):
        every.move(measure(every, Evidence()), incumbent)
