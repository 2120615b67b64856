"""A baseline: the ruler is taken, and the commit made that it is measured on."""

from __future__ import annotations

from dataclasses import replace

from goalseek.errors import USAGE, GoalseekError
from goalseek.git.commits import message_of
from goalseek.git.paths import quote_path
from goalseek.git.repository import Repository
from goalseek.humanize import few
from goalseek.phase_values import Candidate, Context
from goalseek.project.project import Run
from goalseek.project.setting import Setting
from goalseek.workspace.scope import Scope


def baseline_candidate(run: Run, setting: Setting, context: Context, source: str | None) -> Candidate:
    """The commit that a baseline measures: HEAD's ruler under the incumbent's code, or under that of ``source``.

    The first is HEAD itself. A later one is a commit on the tip, unless the tip is just that already.
    """
    repository, standing = run.repository, run.standing
    head = repository.head()
    code = code_asked_for(repository, source) or (standing.incumbent.commit if standing.incumbent else head)
    tree = composed(repository.tree_of(head), repository.tree_of(code), setting.scope, run)
    if not standing.tip and tree == repository.tree_of(head):
        return Candidate(head, tree, "")
    if standing.tip and tree == repository.tree_of(standing.tip):
        return Candidate(standing.tip, tree, standing.tip)
    parents = tuple(dict.fromkeys(filter(None, (standing.tip, head, code if source else ""))))
    message = message_of(f"New baseline of {repository.name}", repository.name, run.run_id, context.iteration, "")
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


def note_left_out(run: Run, setting: Setting, source: str | None) -> Setting:
    """The setting, with a note where a file of the incumbent's code is writable no more, so that HEAD's is taken."""
    standing, repository = run.standing, run.repository
    if source is not None or standing.baseline is None or standing.incumbent is None:
        return setting
    kept = {found.path for found in repository.objects.differences(standing.baseline.tree, standing.incumbent.tree)}
    unlike = repository.objects.differences(repository.tree_of(repository.head()), standing.incumbent.tree)
    left = [found.path for found in unlike if found.path in kept and setting.scope.is_fixed(found.path)]
    if not left:
        return setting
    named = few([quote_path(path) for path in left])
    note = f"writable no more, so as HEAD has them: {named}; goalseek promote takes home what was kept in them"
    return replace(setting, notes=(*setting.notes, note))


def composed(ruler_tree: str, code_tree: str, scope: Scope, run: Run) -> str:
    """One tree with the writable files of ``code_tree`` and everything else of ``ruler_tree``."""
    objects = run.repository.objects
    edits = {
        found.path: found.after
        for found in objects.differences(ruler_tree, code_tree)
        if scope.kind(found.path) == "writable"
    }
    return objects.splice(ruler_tree, edits) if edits else ruler_tree
