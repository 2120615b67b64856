"""The baseline's commit, and what happens to a candidate on the tip that cannot be finished.

A baseline measures HEAD's ruler under the incumbent's code, or under that of another revision.

A killed iteration may have left its candidate on the tip, and its checkpoints are gone (a ``git clean``, say), the
ruler has changed, or a new run or baseline was asked for. Nothing is lost: the iteration is recorded as
interrupted, and the candidate stays in the history with its revert commit after it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from goalseek.disk import machine_error
from goalseek.errors import USAGE, GoalseekError, LimitReached, Paused
from goalseek.git.commits import candidate_message, roll_back
from goalseek.git.paths import quote_path
from goalseek.git.repository import Refs, Repository
from goalseek.humanize import abbreviate
from goalseek.ledger.checkpoints import Checkpoints
from goalseek.ledger.records import IterationRecord
from goalseek.loop.phases.log import record_iteration
from goalseek.loop.phases.read_context import read_context
from goalseek.loop.steps import StepRunner, begin_iteration
from goalseek.phase_values import Candidate, Change, Context, Decision, Edit, IterationResult, Verdict
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.project.refs import unfinished_commits, update_refs
from goalseek.values import Attempt
from goalseek.workspace.scope import Scope

CHECKPOINTS_GONE = "the stored answers that its candidate was made from are gone, so there was nothing to go on from"
RULER_CHANGED = "what it was to be measured with has changed, and a new baseline was asked for before it was measured"
NEW_RUN_BEGUN = "a new run was begun before it had a verdict"
_FAILED = "failed"


def end_unfinished(project: Project, why_not_finish: Callable[[Config], str]) -> None:
    """Ends an iteration that has a candidate on the tip and no record, so that a new baseline can begin.

    Raises GoalseekError where ``goalseek iterate`` can finish it. Where it cannot (the pinned ruler or
    ``scope.hidden_from`` changed, ``why_not_finish`` gives a reason, or the last invocation failed in it), it is
    recorded as interrupted.
    """
    refs = project.repository.refs()
    candidate = _unfinished_candidate(project, refs)
    if candidate is None:
        return
    config = project.config()
    try:
        project.refuse_changed_hidden_files(config)
    except GoalseekError:
        record_abandoned(project, config, refs, candidate, None, RULER_CHANGED)
        return
    failure = _failure_checkpoints(project).load(_FAILED, str, "")
    if why := failure.value if failure else why_not_finish(config):
        why = f"it could not be gone on with, and a new baseline was asked for: {why.splitlines()[0]}"
        record_abandoned(project, config, refs, candidate, None, why)
        return
    message = (
        f"iteration {project.standing.last_iteration + 1} is under way: its candidate has no verdict on record yet"
    )
    raise GoalseekError(message, "goalseek iterate finishes it; then goalseek baseline", USAGE)


@contextlib.contextmanager
def saving_failure(project: Project) -> Iterator[None]:
    """Saves the error that ends an iteration without a record; ``make_way`` reads it.

    Not saved are the causes that pass by themselves: signals, a missing approval, faults of the machine.
    """
    checkpoints = _failure_checkpoints(project)
    checkpoints.forget(_FAILED)
    try:
        yield
    except Paused:
        raise
    except LimitReached as reached:
        checkpoints.save(_FAILED, reached.stop.why, "", 0.0)
        raise
    except GoalseekError as error:
        if error.stop_reason not in ("disk", "needs_human"):
            checkpoints.save(_FAILED, error.message, "", 0.0)
        raise
    except Exception as error:
        if machine_error(error) is None:
            checkpoints.save(_FAILED, f"{type(error).__name__}: {error}", "", 0.0)
        raise


def _failure_checkpoints(project: Project) -> Checkpoints:
    """The checkpoints of the next iteration that hold for every run."""
    standing = project.standing
    folder = project.loaded.runs / f"{standing.last_iteration + 1:04d}"
    return Checkpoints(folder, project.seal, "", standing.last.seal if standing.last else "")


def abandoned_candidate(project: Project, steps: StepRunner, refs: Refs) -> Candidate | None:
    """The candidate on the tip whose checkpoints are gone; None where there is none."""
    candidate = _unfinished_candidate(project, refs)
    if candidate is None:
        return None
    chain = steps.chain()
    changes = sum(name.startswith("change") for name in chain)
    rejections = sum(name.startswith("rejected-candidate") for name in chain)
    return candidate if changes - rejections < len(candidate.commits) else None


def _unfinished_candidate(project: Project, refs: Refs) -> Candidate | None:
    standing, repository, tip = project.standing, project.repository, refs.tip
    if not tip or not standing.tip or tip == standing.tip:
        return None
    commits = unfinished_commits(repository, standing, tip)
    return Candidate(tip, repository.tree_of(tip), standing.tip, commits[:-1]) if commits else None


def record_abandoned(
    project: Project, config: Config, refs: Refs, candidate: Candidate, phase_limit: int | None, why: str = ""
) -> IterationRecord:
    """Reverts such a candidate and records its iteration as interrupted; without ``why`` the reason is found out.

    Raises Paused where ``phase_limit`` is reached.
    """
    first = project.repository.load_commit(candidate.commits[0])
    if not why:
        why = CHECKPOINTS_GONE if first.trailers.get("Run") == project.run_id else NEW_RUN_BEGUN
    repository, number = project.repository, project.standing.last_iteration + 1
    steps, folder = begin_iteration(project, number, phase_limit, f"left behind {candidate.commit}")
    context = steps.do("READ_CONTEXT", "context", Context, lambda: read_context(project, config, refs, folder))
    verdict = Verdict("skipped", "interrupted", why)
    rollback = roll_back(repository, candidate, repository.load_commit(candidate.commit).time)
    differences = repository.objects.differences(repository.tree_of(candidate.parent), candidate.tree)
    edits = tuple(
        Edit(difference.path, difference.after.mode, difference.after.blob)
        if difference.after
        else Edit(difference.path, "", "")
        for difference in differences
    )
    change = Change(first.subject, "", edits, (), 0, 0, provider=first.trailers.get("Provider", ""))
    attempts = tuple(Attempt(commit, verdict.reason) for commit in candidate.earlier)
    decision = Decision(verdict, rollback)
    outcome = IterationResult(context, verdict, None, change, candidate, None, decision, attempts)
    record = record_iteration(project, config, steps, outcome, folder)
    update_refs(project)
    return record


def baseline_candidate(project: Project, config: Config, context: Context, source: str | None) -> Candidate:
    """The commit that a baseline measures: HEAD's ruler under the incumbent's code, or under that of ``source``.

    The first is HEAD itself. A later one is a commit on the tip, unless the tip is just that already.
    """
    repository, standing = project.repository, project.standing
    head = repository.head()
    code = resolve_source(repository, source) or (standing.incumbent.commit if standing.incumbent else head)
    tree = compose_tree(repository.tree_of(head), repository.tree_of(code), config.scope, project)
    if not standing.tip and tree == repository.tree_of(head):
        return Candidate(head, tree, "")
    if standing.tip and tree == repository.tree_of(standing.tip):
        return Candidate(standing.tip, tree, standing.tip)
    parents = tuple(dict.fromkeys(filter(None, (standing.tip, head, code if source else ""))))
    message = candidate_message(
        f"New baseline of {repository.name}", repository.name, project.run_id, context.iteration, ""
    )
    commit_hash = repository.commit(tree, parents, message, context.moment)
    return Candidate(commit_hash, tree, parents[0])


def resolve_source(repository: Repository, source: str | None) -> str | None:
    """The commit that ``--from`` names, None where it is not given. Raises GoalseekError where there is none such."""
    if source is None:
        return None
    commit_hash = repository.resolve(source)
    if commit_hash is None:
        raise GoalseekError(f"--from {source}: there is no such commit", "name a commit, branch or tag", USAGE)
    return commit_hash


def note_dropped_files(project: Project, config: Config, source: str | None) -> Config:
    """The configuration, with a note on the incumbent's files that are no longer writable, so taken from HEAD."""
    standing, repository = project.standing, project.repository
    if source is not None or standing.baseline is None or standing.incumbent is None:
        return config
    changed_paths = {
        difference.path
        for difference in repository.objects.differences(standing.baseline.tree, standing.incumbent.tree)
    }
    differences = repository.objects.differences(repository.tree_of(repository.head()), standing.incumbent.tree)
    fixed_paths = [
        difference.path
        for difference in differences
        if difference.path in changed_paths and config.scope.is_fixed(difference.path)
    ]
    if not fixed_paths:
        return config
    shown = abbreviate([quote_path(path) for path in fixed_paths])
    note = f"writable no more, so as HEAD has them: {shown}; goalseek promote takes home what was kept in them"
    return replace(config, notes=(*config.notes, note))


def compose_tree(ruler_tree: str, code_tree: str, scope: Scope, project: Project) -> str:
    """One tree with the writable files of ``code_tree`` and everything else of ``ruler_tree``."""
    objects = project.repository.objects
    edits = {
        difference.path: difference.after
        for difference in objects.differences(ruler_tree, code_tree)
        if scope.kind(difference.path) == "writable"
    }
    return objects.splice(ruler_tree, edits) if edits else ruler_tree
