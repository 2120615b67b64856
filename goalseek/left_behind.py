"""A candidate on the tip that nobody can go on from.

A killed iteration left it there, and its stored answers are gone (a ``git clean``, say), or what it would be measured
with is. There is nothing to resume then, and nothing is lost either: the iteration is recorded as interrupted, the
candidate stays in the history, and the commit that takes it back follows it.
"""

from __future__ import annotations

from goalseek.desk import Desk
from goalseek.errors import USAGE, GoalseekError
from goalseek.landing import candidate_commits, desk_for, land, record_iteration
from goalseek.phases.decide import roll_back
from goalseek.phases.log import Outcome
from goalseek.phases.read_context import read_context
from goalseek.records import Attempt, IterationRecord
from goalseek.repository import Refs
from goalseek.run import Run
from goalseek.setting import Setting
from goalseek.values import Candidate, Change, Context, Decision, Edit, Verdict

WHY = "the stored answers that its candidate was made from are gone, so there was nothing to go on from"
CHANGED = "what it was to be measured with has changed, and a new baseline was asked for before it was measured"


def make_way(run: Run) -> None:
    """Makes way for a new baseline where an iteration has its candidate on the tip, and no record yet.

    Raises GoalseekError where ``goalseek iterate`` can finish it. Where it cannot, as ``scope.hidden_from`` is not as
    it was pinned, it is recorded as interrupted.
    """
    refs = run.repository.refs()
    candidate = _under_way(run, refs)
    if candidate is None:
        return
    setting = run.setting()
    try:
        run.refuse_changed(setting)
    except GoalseekError:
        record_left_behind(run, setting, refs, candidate, None, CHANGED)
        return
    message = f"iteration {run.standing.last_iteration + 1} is under way: its candidate has no verdict on record yet"
    raise GoalseekError(message, "goalseek iterate finishes it; then goalseek baseline", USAGE)


def left_behind(run: Run, desk: Desk, refs: Refs) -> Candidate | None:
    """The candidate on the tip whose stored answers are gone; None where there is none."""
    candidate = _under_way(run, refs)
    if candidate is None:
        return None
    chain = desk.chain()
    changes = sum(name.startswith("change") for name in chain)
    refused = sum(name.startswith("rejected-candidate") for name in chain)
    return candidate if changes - refused < len(candidate.commits) else None


def _under_way(run: Run, refs: Refs) -> Candidate | None:
    standing, repository, tip = run.standing, run.repository, refs.tip
    if not tip or not standing.tip or tip == standing.tip:
        return None
    commits = candidate_commits(repository, standing, tip)
    return Candidate(tip, repository.tree_of(tip), standing.tip, commits[:-1]) if commits else None


def record_left_behind(
    run: Run, setting: Setting, refs: Refs, candidate: Candidate, most: int | None, why: str = WHY
) -> IterationRecord:
    """Records such a candidate, taken back. Raises Paused where no more may be done now."""
    repository, number = run.repository, run.standing.last_iteration + 1
    desk, folder = desk_for(run, number, most, f"left behind {candidate.commit}")
    context = desk.do("READ_CONTEXT", "context", Context, lambda: read_context(run, setting, refs, folder))
    verdict = Verdict("skipped", "interrupted", why)
    rollback = roll_back(repository, candidate, repository.moment_of(candidate.commit))
    found = repository.objects.differences(repository.tree_of(candidate.parent), candidate.tree)
    edits = tuple(
        Edit(difference.path, difference.after.mode, difference.after.blob)
        if difference.after
        else Edit(difference.path, "", "")
        for difference in found
    )
    change = Change(_title(run, candidate), "", edits, (), 0, 0)
    attempts = tuple(Attempt(commit, verdict.reason) for commit in candidate.earlier)
    decision = Decision(verdict, rollback)
    outcome = Outcome(context, verdict, None, change, candidate, None, decision, attempts)
    record = record_iteration(run, setting, desk, outcome, folder)
    land(run)
    return record


def _title(run: Run, candidate: Candidate) -> str:
    message = run.repository.objects.read(candidate.commits[0]).partition(b"\n\n")[2]
    return message.split(b"\n", 1)[0].decode("utf-8", "surrogateescape")
