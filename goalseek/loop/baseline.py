"""A candidate on the tip that nobody goes on from.

A killed iteration left it there, and its stored answers are gone (a ``git clean``, say), or what it would be measured
with is, or a new run or a new baseline was asked for. Nothing is lost: the iteration is recorded as interrupted, the
candidate stays in the history, and the commit that takes it back follows it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from goalseek.disk import as_machine_fault
from goalseek.errors import USAGE, GoalseekError, LimitReached, Paused
from goalseek.git.commits import message_of, roll_back
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
from goalseek.project.refs import candidate_commits, update_refs
from goalseek.values import Attempt
from goalseek.workspace.scope import Scope

WHY = "the stored answers that its candidate was made from are gone, so there was nothing to go on from"
CHANGED = "what it was to be measured with has changed, and a new baseline was asked for before it was measured"
NEW_RUN = "a new run was begun before it had a verdict"
_FAILED = "failed"


def make_way(project: Project, why_not_finish: Callable[[Config], str]) -> None:
    """Makes way for a new baseline where an iteration has its candidate on the tip, and no record yet.

    Raises GoalseekError where ``goalseek iterate`` can finish it. Where it cannot, as ``scope.hidden_from`` is not as
    it was pinned, ``why_not_finish`` gives a reason, or the last call that tried failed, it is recorded as interrupted.
    """
    refs = project.repository.refs()
    candidate = _under_way(project, refs)
    if candidate is None:
        return
    config = project.config()
    try:
        project.refuse_changed(config)
    except GoalseekError:
        record_left_behind(project, config, refs, candidate, None, CHANGED)
        return
    failed = _memory(project).load(_FAILED, str, "")
    if why := failed.value if failed else why_not_finish(config):
        why = f"it could not be gone on with, and a new baseline was asked for: {why.splitlines()[0]}"
        record_left_behind(project, config, refs, candidate, None, why)
        return
    message = (
        f"iteration {project.standing.last_iteration + 1} is under way: its candidate has no verdict on record yet"
    )
    raise GoalseekError(message, "goalseek iterate finishes it; then goalseek baseline", USAGE)


@contextlib.contextmanager
def failure_kept(project: Project) -> Iterator[None]:
    """Around going on with an iteration: what ends that without its record is kept for ``make_way``.

    Signals, a person's word that is missing and what the machine refuses go away by themselves, and are not kept.
    """
    checkpoints = _memory(project)
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
        if as_machine_fault(error) is None:
            checkpoints.save(_FAILED, f"{type(error).__name__}: {error}", "", 0.0)
        raise


def _memory(project: Project) -> Checkpoints:
    """The memory of the iteration that comes next, of no run in particular."""
    standing = project.standing
    folder = project.loaded.runs / f"{standing.last_iteration + 1:04d}"
    return Checkpoints(folder, project.seal, "", standing.last.seal if standing.last else "")


def left_behind(project: Project, steps: StepRunner, refs: Refs) -> Candidate | None:
    """The candidate on the tip whose stored answers are gone; None where there is none."""
    candidate = _under_way(project, refs)
    if candidate is None:
        return None
    chain = steps.chain()
    changes = sum(name.startswith("change") for name in chain)
    refused = sum(name.startswith("rejected-candidate") for name in chain)
    return candidate if changes - refused < len(candidate.commits) else None


def _under_way(project: Project, refs: Refs) -> Candidate | None:
    standing, repository, tip = project.standing, project.repository, refs.tip
    if not tip or not standing.tip or tip == standing.tip:
        return None
    commits = candidate_commits(repository, standing, tip)
    return Candidate(tip, repository.tree_of(tip), standing.tip, commits[:-1]) if commits else None


def record_left_behind(
    project: Project, config: Config, refs: Refs, candidate: Candidate, most: int | None, why: str = ""
) -> IterationRecord:
    """Records such a candidate, taken back. ``why`` is told where it is given, else what can be seen.

    Raises Paused where no more may be done now.
    """
    if not why:
        why = WHY if _trailer(project, candidate, "Run") == project.run_id else NEW_RUN
    repository, number = project.repository, project.standing.last_iteration + 1
    steps, folder = begin_iteration(project, number, most, f"left behind {candidate.commit}")
    context = steps.do("READ_CONTEXT", "context", Context, lambda: read_context(project, config, refs, folder))
    verdict = Verdict("skipped", "interrupted", why)
    rollback = roll_back(repository, candidate, repository.moment_of(candidate.commit))
    found = repository.objects.differences(repository.tree_of(candidate.parent), candidate.tree)
    edits = tuple(
        Edit(difference.path, difference.after.mode, difference.after.blob)
        if difference.after
        else Edit(difference.path, "", "")
        for difference in found
    )
    author = _trailer(project, candidate, "Provider")
    change = Change(_title(project, candidate), "", edits, (), 0, 0, provider=author)
    attempts = tuple(Attempt(commit, verdict.reason) for commit in candidate.earlier)
    decision = Decision(verdict, rollback)
    outcome = IterationResult(context, verdict, None, change, candidate, None, decision, attempts)
    record = record_iteration(project, config, steps, outcome, folder)
    update_refs(project)
    return record


def _title(project: Project, candidate: Candidate) -> str:
    message = project.repository.objects.read(candidate.commits[0]).partition(b"\n\n")[2]
    return message.split(b"\n", 1)[0].decode("utf-8", "surrogateescape")


def _trailer(project: Project, candidate: Candidate, name: str) -> str:
    """What the candidate's message says under ``Goalseek-<name>``; "" where that is not there."""
    lines = project.repository.objects.read(candidate.commits[0]).decode("utf-8", "surrogateescape").splitlines()
    start = f"Goalseek-{name}: "
    return next((line.removeprefix(start) for line in lines if line.startswith(start)), "")


def baseline_candidate(project: Project, config: Config, context: Context, source: str | None) -> Candidate:
    """The commit that a baseline measures: HEAD's ruler under the incumbent's code, or under that of ``source``.

    The first is HEAD itself. A later one is a commit on the tip, unless the tip is just that already.
    """
    repository, standing = project.repository, project.standing
    head = repository.head()
    code = code_asked_for(repository, source) or (standing.incumbent.commit if standing.incumbent else head)
    tree = composed(repository.tree_of(head), repository.tree_of(code), config.scope, project)
    if not standing.tip and tree == repository.tree_of(head):
        return Candidate(head, tree, "")
    if standing.tip and tree == repository.tree_of(standing.tip):
        return Candidate(standing.tip, tree, standing.tip)
    parents = tuple(dict.fromkeys(filter(None, (standing.tip, head, code if source else ""))))
    message = message_of(f"New baseline of {repository.name}", repository.name, project.run_id, context.iteration, "")
    made = repository.commit(tree, parents, message, context.moment)
    return Candidate(made, tree, parents[0])


def code_asked_for(repository: Repository, source: str | None) -> str | None:
    """The commit that ``--from`` names, None where it is not given. Raises GoalseekError where there is none such."""
    if source is None:
        return None
    found = repository.resolve(source)
    if found is None:
        raise GoalseekError(f"--from {source}: there is no such commit", "name a commit, branch or tag", USAGE)
    return found


def note_left_out(project: Project, config: Config, source: str | None) -> Config:
    """The setting, with a note where a file of the incumbent's code is writable no more, so that HEAD's is taken."""
    standing, repository = project.standing, project.repository
    if source is not None or standing.baseline is None or standing.incumbent is None:
        return config
    kept = {found.path for found in repository.objects.differences(standing.baseline.tree, standing.incumbent.tree)}
    unlike = repository.objects.differences(repository.tree_of(repository.head()), standing.incumbent.tree)
    left = [found.path for found in unlike if found.path in kept and config.scope.is_fixed(found.path)]
    if not left:
        return config
    named = abbreviate([quote_path(path) for path in left])
    note = f"writable no more, so as HEAD has them: {named}; goalseek promote takes home what was kept in them"
    return replace(config, notes=(*config.notes, note))


def composed(ruler_tree: str, code_tree: str, scope: Scope, project: Project) -> str:
    """One tree with the writable files of ``code_tree`` and everything else of ``ruler_tree``."""
    objects = project.repository.objects
    edits = {
        found.path: found.after
        for found in objects.differences(ruler_tree, code_tree)
        if scope.kind(found.path) == "writable"
    }
    return objects.splice(ruler_tree, edits) if edits else ruler_tree
