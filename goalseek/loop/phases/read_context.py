"""READ_CONTEXT: everything that a proposal may know, and the state of git and the machine before it."""

from __future__ import annotations

import time
from pathlib import Path

from goalseek.git.commits import commit_lines
from goalseek.git.paths import quote_path
from goalseek.git.repository import Refs
from goalseek.ledger.artifacts import write_environment, write_git_state
from goalseek.phase_values import MAX_VISIBLE_FILES, Context, VisibleFile
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.proposal.past_tries import common_ending, crash_endings, crash_output, newest_crash
from goalseek.workspace.checkout import Checkout
from goalseek.workspace.scope import Scope

_COMMITS = 10


def read_context(project: Project, config: Config, refs: Refs, run_folder: Path) -> Context:
    """Brings the workspace to the incumbent and gathers the context; writes ``git_before.txt`` and ``env.json``.

    ``refs`` are goalseek's refs before the iteration.
    """
    standing = project.standing.for_run(project.run_id)
    assert standing.incumbent and standing.baseline and standing.best
    workspace = project.workspace(config)
    iteration = standing.last_iteration + 1
    commits = _write_artifacts(project, refs, standing.tip, run_folder)
    limit = config.manifest.limits.stagnation
    endings = crash_endings(project, standing)
    crash_record = newest_crash(project, standing)
    return Context(
        iteration=iteration,
        attempt=standing.tried,
        moment=int(time.time()),
        incumbent_commit=standing.incumbent.commit,
        incumbent_value=standing.incumbent.value,
        baseline_value=standing.baseline.value,
        best_value=standing.best.value,
        stagnation=standing.stagnation,
        flattened=limit is not None and standing.stagnation >= limit,
        program=config.program,
        directions=tuple(direction.text for direction in config.directions if direction.holds_at(iteration)),
        files=workspace.cached("visible", lambda: visible_files(workspace.tree, config.scope)),
        files_total=len(workspace.tree.entries),
        commits=commits,
        crashes=standing.crashes,
        common_ending=common_ending(endings) if len(endings) > 1 else "",
        crashed_in=crash_record.iteration if crash_record else 0,
        last_crash=crash_output(project, crash_record) if crash_record else "",
        best_iteration=standing.best.iteration,
        writable=config.manifest.scope.writable,
        generated=config.manifest.scope.generated,
    )


def read_baseline_context(project: Project, config: Config, run_folder: Path) -> Context:
    """The context of a baseline: no values, files or directions, as nothing is proposed."""
    standing = project.standing
    commits = _write_artifacts(
        project, project.repository.refs(), standing.tip or project.repository.head(), run_folder
    )
    return Context(
        iteration=standing.last_iteration + 1,
        attempt=standing.tried,
        moment=int(time.time()),
        incumbent_commit=standing.incumbent.commit if standing.incumbent else "",
        incumbent_value=standing.incumbent.value if standing.incumbent else 0.0,
        baseline_value=0.0,
        best_value=0.0,
        stagnation=0,
        flattened=False,
        program=config.program,
        directions=(),
        files=(),
        files_total=0,
        commits=commits,
    )


def visible_files(tree: Checkout, scope: Scope) -> tuple[VisibleFile, ...]:
    """The files that the agent sees, writable ones first, at most VISIBLE_FILES_MOST."""
    writable_paths: list[str] = []
    others: list[str] = []
    for path in tree.entries:
        if scope.kind(path) == "writable":
            writable_paths.append(path)
        elif len(others) < MAX_VISIBLE_FILES:
            others.append(path)
    paths = (sorted(writable_paths) + sorted(others))[:MAX_VISIBLE_FILES]
    writable = set(writable_paths)
    return tuple(
        VisibleFile(quote_path(path), tree.size(path), tree.entries[path].blob, path in writable) for path in paths
    )


def _write_artifacts(project: Project, refs: Refs, commit: str, run_folder: Path) -> tuple[str, ...]:
    commits = tuple(commit_lines(project.repository, commit, _COMMITS))
    write_git_state(run_folder / "git_before.txt", refs, project.repository.branch, commits)
    write_environment(run_folder / "env.json")
    return commits
