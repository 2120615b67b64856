"""READ_CONTEXT: everything that a proposal may know, and the state of git and the machine before it."""

import time
from collections.abc import Sequence
from itertools import islice

from msgspec import structs

from goalseek.git.paths import quote_path
from goalseek.git.repository import commit_lines
from goalseek.ledger.artifacts import describe_environment, write_git_state
from goalseek.ledger.standing import Standing
from goalseek.loop.iteration import Iteration
from goalseek.phase_values import MAX_VISIBLE_FILES, Ahead, Context, Played, VisibleFile
from goalseek.proposal.brief import describe_climb
from goalseek.proposal.call import archive_of
from goalseek.statistics.rotation import Turn
from goalseek.workspace import hidden_files
from goalseek.workspace.checkout import Checkout
from goalseek.workspace.scope import Scope

_COMMITS = 10


def read_context(iteration: Iteration) -> Context:
    """Raises GoalseekError for a changed ruler, before a proposal is paid. Writes ``git_before.txt``, ``env.json``."""
    project = iteration.project
    hidden_files.refuse_changed(iteration.config.trees)
    if iteration.trial:
        return gather_context(iteration)
    standing, search = iteration.standing.for_run(project.run_id), iteration.config.manifest.search
    return gather_context(iteration, standing.rotation.next_turn(search, project.provider_table().label))


def gather_context(iteration: Iteration, turn: Turn | None = None) -> Context:
    """``turn`` is that of its proposal, if there is one; without one, the ruler may have changed."""
    project, config, workspace = iteration.project, iteration.config, iteration.workspace
    standing = iteration.standing.for_run(project.run_id)
    told = tuple(direction.text for direction in config.directions if direction.holds_at(iteration.number))
    return describe_climb(
        structs.replace(archive_of(project), standing=standing),
        config.manifest,
        iteration.ahead,
        iteration=iteration.number,
        program=config.program,
        directions=told,
        moment=int(time.time()),
        files=workspace.cached("visible", lambda: visible_files(workspace.tree, config.scope)),
        files_total=len(workspace.tree.entries),
        commits=_write_artifacts(iteration),
        played=played(standing, iteration.ahead),
        turn=turn.names if turn else (),
        turn_note=f"it is the turn of {turn.in_words()}" if turn and turn.is_new else "",
    )


def read_baseline_context(iteration: Iteration) -> Context:
    """Without values, files or directions, as nothing is proposed."""
    standing = iteration.standing
    return Context(
        iteration=iteration.number,
        attempt=standing.tried,
        moment=int(time.time()),
        incumbent_commit=standing.incumbent.commit if standing.incumbent else "",
        incumbent_value=standing.incumbent.value if standing.incumbent else 0.0,
        program=iteration.config.program,
        commits=_write_artifacts(iteration),
    )


def played(standing: Standing, ahead: Sequence[Ahead]) -> Played:
    scripts = tuple(one.script for one in ahead if one.script)
    return Played(standing.script_digest, standing.script_count, scripts)


def visible_files(tree: Checkout, scope: Scope) -> tuple[VisibleFile, ...]:
    """The files that the agent sees, writable ones first, at most MAX_VISIBLE_FILES: of the others the tree's first."""
    writable, others = list[str](), list[str]()
    for path in tree.entries:
        if scope.kind(path) == "writable":
            writable.append(path)
        elif len(others) < MAX_VISIBLE_FILES:
            others.append(path)
    kinds = {**dict.fromkeys(sorted(writable), True), **dict.fromkeys(sorted(others), False)}
    return tuple(
        VisibleFile(quote_path(path), tree.size(path), tree.entries[path].blob, is_writable)
        for path, is_writable in islice(kinds.items(), MAX_VISIBLE_FILES)
    )


def _write_artifacts(iteration: Iteration) -> tuple[str, ...]:
    repository, folder = iteration.project.repository, iteration.folder
    commits = tuple(commit_lines(repository, iteration.standing.tip or repository.head(), _COMMITS))
    refs = repository.positions(repository.tip_ref, repository.ledger_ref, repository.branch_ref)
    write_git_state(folder / "git_before.txt", refs, repository.branch, commits)
    (folder / "env.json").write_text(describe_environment())
    return commits
