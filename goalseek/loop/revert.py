"""Reverting a kept change on a person's word: the tip without it is screened, measured and recorded as kept.

git merges later keeps onto it. Nothing moves before the record exists, so a kill leaves the climb as it was, and the
same command resumes from the stored measurements.
"""

from msgspec import structs

from goalseek.errors import BAD_FINDING, USAGE, GoalseekError, Rejected
from goalseek.evaluation.measurements import printed_in, with_last_lines
from goalseek.git.merge import Conflicts, merge_trees
from goalseek.git.repository import candidate_message, revert_message
from goalseek.ledger.artifacts import clear_attempts
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.baseline import end_unfinished, refuse_paid_proposal
from goalseek.loop.iteration import Iteration
from goalseek.loop.lanes import open_pool
from goalseek.loop.phases.apply_change import change_to
from goalseek.loop.phases.commit import refuse_fixed
from goalseek.loop.phases.log import log
from goalseek.loop.phases.read_context import gather_context
from goalseek.loop.phases.verify import verify
from goalseek.phase_values import Candidate, Change, Context, Decision, IterationResult, Plan
from goalseek.project.project import Project
from goalseek.records import IterationRecord
from goalseek.statistics.guards import guard_warning
from goalseek.values import Outcome, Phase, Reason
from goalseek.workspace import hidden_files

PERSON = "person"


def revert_change(project: Project, number: int, why: str = "") -> IterationRecord:
    """Take the kept change of iteration ``number`` out of the tip; the result stands whatever its number.

    Raises GoalseekError, and changes nothing, if the tip lacks the change, later keeps conflict with it, the screening
    refuses the result, or the result has no number.
    """
    config = project.config()
    # The result stands, so its number is of all cases.
    metric = structs.replace(config.manifest.metric, race="off")
    config = structs.replace(config, manifest=structs.replace(config.manifest, metric=metric))
    kept = _find_kept(project, number)
    hidden_files.refuse_changed(config.trees)
    refuse_paid_proposal(project, f"goalseek revert {number}")
    end_unfinished(project, f"goalseek revert {number}")
    commit = project.repository.load_commit(str(kept.commit_hash))
    tree = _merge_without(project, kept)
    with open_pool(project) as pool:
        iteration = Iteration(project, config, pool, None, f"revert {number} {tree}")
        repository, standing, text = project.repository, iteration.standing, " ".join(why.split())
        step = iteration.steps.do
        context = step(Phase.READ_CONTEXT, CheckpointName("context"), Context, gather_context, iteration)
        title = revert_message(commit).rstrip("\n")
        plan = Plan(title.partition("\n")[0], text, provider=PERSON)
        change = step(Phase.APPLY_CHANGE, CheckpointName("change"), Change, _apply_revert, iteration, tree, plan)
        message = candidate_message(title, repository.name, project.run_id, iteration.number, PERSON)
        candidate = Candidate(
            repository.objects.write_commit(tree, (standing.tip,), message, context.moment), tree, standing.tip
        )
        attempt = OpenAttempt(1, 1, Plan(change.title, change.text))
        evidence, measured = verify(iteration, attempt, change, candidate)
        if evidence.failure or measured.value is None or measured.reason == Reason.NOT_VALID:
            iteration.steps.forget("evidence")  # the same command measures it again
            message = f"iteration {number} stays: without it the code has no number: {measured.why}"
            hint = "nothing has changed; a later kept change may need it: take that one back first"
            raise GoalseekError(with_last_lines(message, printed_in(iteration.folder)), hint, BAD_FINDING)
        reason = text or change.text or f"a person took iteration {number} back"
        verdict = structs.replace(
            measured, outcome=Outcome.KEPT, reason=Reason.TAKEN_BACK, why=reason, odds=None, needed=None
        )
        assert standing.baseline
        # Neither the rule nor a guard decides about a person's revert.
        guards = iteration.config.manifest.guard
        warning = guard_warning(guards, "the code without it", evidence.guards, standing.baseline.guards)
        notes = (f"against the code with it: {measured.why}", *((warning,) if warning else ()))
        parts = (None, change, candidate, evidence)
        return log(iteration, IterationResult(context, Decision(verdict), *parts, notes=notes, taken_back=number))


def _find_kept(project: Project, number: int) -> IterationRecord:
    standing, hint = project.standing, "goalseek log --outcome kept lists the kept changes"
    record = project.ledger.history.iteration(number) if 0 <= number <= standing.last_iteration else None
    if record is None:
        message = f"there is no iteration {number}"
    elif record.outcome == Outcome.BASELINE:
        message = f"iteration {number} is a baseline, not a change"
        hint = "goalseek baseline --from REV climbs on from other code"
    elif record.outcome != Outcome.KEPT:
        message = f"iteration {number} was not kept, so the tip does not have it: {record.outcome}, {record.reason}"
    elif record.epoch != standing.epoch:
        baseline = standing.baseline.iteration if standing.baseline else 0
        message = f"iteration {number} was kept before the baseline of iteration {baseline}, and is part of it"
        hint = (
            f"goalseek promote --without {number} leaves it out of what goes home; to climb on without it, revert it "
            "on a branch of your own: goalseek baseline --from REV"
        )
    elif record.taken_back is not None and number not in standing.taken_back.values():
        message = f"iteration {number} took iteration {record.taken_back} back, and is no longer in effect"
    elif by := standing.taken_back.get(number):
        message = f"iteration {number} was taken back already, by iteration {by}"
        hint = f"goalseek revert {by} brings it back"
    else:
        return record
    raise GoalseekError(message, hint, USAGE)


def _merge_without(project: Project, kept: IterationRecord) -> str:
    """The tip's tree without a kept change. Raises GoalseekError if later keeps conflict."""
    repository, incumbent, number = project.repository, project.standing.incumbent, kept.iteration
    assert incumbent and kept.tree_hash and kept.parent_commit_hash
    before = repository.tree_of(kept.parent_commit_hash)
    try:
        tree = merge_trees(repository.objects, kept.tree_hash, incumbent.tree, before)
    except Conflicts as conflicts:
        message = f"iteration {number} stays: later kept changes depend on it in {', '.join(conflicts.files)}"
        hint = "take the later one back first; or edit it on a branch of your own, then: goalseek baseline --from REV"
        raise GoalseekError(message, hint, BAD_FINDING) from None
    if tree == incumbent.tree:
        message = f"nothing of iteration {number} is in the tip any more"
        raise GoalseekError(message, "see the changes of the tip: goalseek show best --diff --all", USAGE)
    return tree


def _apply_revert(iteration: Iteration, tree: str, plan: Plan) -> Change:
    """The change from the tip to ``tree``. Raises GoalseekError, with the files, if the screening refuses it."""
    clear_attempts(iteration.folder)
    changed = iteration.project.repository.objects.changed_paths(iteration.incumbent.tree, tree)
    try:
        refuse_fixed(iteration.config.scope, changed)
        return change_to(iteration, plan, tree, iteration.folder)
    except Rejected as rejected:
        message = f"the tip would break the rules of the scope: {rejected.why}"
        raise GoalseekError(message, "see the rules of the scope: goalseek help manifest", BAD_FINDING) from None
