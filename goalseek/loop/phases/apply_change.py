"""APPLY_CHANGE: the provider edits the workspace; its edits are checked against the scope and taken as the change.

Where rejected changes are tried together, git has merged them; what they change is laid there, and checked like edits.

The workspace is restored afterwards, so that an edit outside the scope never gets into a candidate.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from goalseek.errors import Rejected
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import SUBMODULE, quote_path
from goalseek.ledger.artifacts import archive_attempt, attempt_snapshot
from goalseek.loop.attempts import Attempt
from goalseek.loop.iteration import Iteration, checkpointed
from goalseek.loop.phases.commit import edits_of, entries_by_path, restore_blobs
from goalseek.loop.phases.plan import write_plan
from goalseek.loop.phases.stack import stack_entries
from goalseek.own_folders import read_regular, recreate_folder
from goalseek.phase_values import Change, Plan
from goalseek.proposal.call import ask, build_call, credentials_of
from goalseek.proposal.prompt import Request
from goalseek.providers.answer import clean_title
from goalseek.providers.provider import Call, Reply
from goalseek.sandbox.redaction import Redactor
from goalseek.values import STACK, Outcome, Phase, Reason, Usage
from goalseek.workspace.checkout import Checkout
from goalseek.workspace.scan import Changes
from goalseek.workspace.screening import MAX_BYTES, AddedFiles, Screening, gitignore_matcher, linked_instructions
from goalseek.workspace.workspace import Workspace

_MAX_NAMED = 5
_MAX_LINE = 160


@checkpointed(Phase.APPLY_CHANGE, "change", Change, count="number")
def apply_change(iteration: Iteration, attempt: Attempt) -> Change:
    """Lets the provider edit the workspace, and gives its edits within the scope with those of the attempt before.

    For a plan of ``stacked`` changes it is edited here, and nobody is asked.

    Writes ``changes.diff``, ``snapshot/``, ``plan.md`` and ``provider_output.md``. The workspace is restored
    after the call; where that is broken off, the next process does so. Raises Rejected for edits outside the scope, for
    no change, and where the provider failed.
    """
    project, plan, prior = iteration.project, attempt.plan, attempt.prior
    provider, workspace, objects = iteration.provider, iteration.workspace, project.repository.objects
    assert iteration.standing.incumbent
    parent_tree = iteration.standing.incumbent.tree
    attempt_folder = attempt.folder_in(iteration.folder)
    if attempt.last_committed:
        recreate_folder(attempt_folder)
    elif prior:
        archive_attempt(iteration.folder, attempt.number - 1)
    snapshot = attempt_folder / "snapshot"
    recreate_folder(snapshot)
    prior_entries = entries_by_path(prior.edits) if prior else {}
    was_planned_by_program = plan.title and provider.needs_consent
    if prior_entries or was_planned_by_program:
        workspace.clean()  # what a program edited while it planned is not part of its change
    prior_tree = parent_tree
    if prior and prior_entries:
        restore_blobs(objects, prior.edits, attempt_snapshot(iteration.folder, attempt.number - 1))
        prior_tree = objects.splice(parent_tree, prior_entries)
    if plan.stacked:
        proposal = _lay_stack(iteration, plan)
    else:
        patch = objects.git("diff-tree", "-p", "-r", parent_tree, prior_tree) if prior_entries else b""
        proposal = _ask_provider(iteration, attempt, patch, prior_entries)
    reply, failure = proposal.reply, proposal.failure  # raised below, once its edits are stored
    snapshot.mkdir(parents=True, exist_ok=True)  # somebody's git clean may have removed it
    if not workspace.is_whole():
        why = "the workspace was removed while the provider was at work in it"
        raise Rejected(Outcome.SKIPPED, Reason.INTERRUPTED, why, usage=reply.usage)
    changes = workspace.changes()
    try:
        _refuse_secrets(workspace.tree, changes, proposal)
        screened = screen_workspace(iteration, changes, snapshot)
        all_edits = {**screened.edits, **screened.out_of_scope}
        new_tree = objects.splice(parent_tree, all_edits) if all_edits else parent_tree
        patch, lines_added, lines_removed = diff_trees(objects, parent_tree, new_tree)
        (attempt_folder / "changes.diff").write_bytes(patch)
        proposal.keep(reply, failure, diff_trees(objects, prior_tree, new_tree)[0] if prior_entries else patch)
        screened.refused.extend(_path_clashes(objects, parent_tree, new_tree, all_edits))
    finally:
        workspace.restore(changes)
    with (attempt_folder / "provider_output.md").open("a", encoding="utf-8", errors="replace") as file:
        file.write(reply.output)
    if failure:
        raise failure
    edits = edits_of(screened.edits)
    refusals = _first_names(screened.refused)
    if not refusals and screened.strays and iteration.config.manifest.scope.strays == "reject":
        refusals = [f"new files outside the scope: {', '.join(_first_names(map(quote_path, screened.strays)))}"]
    if refusals:
        raise Rejected(Outcome.SKIPPED, Reason.OUT_OF_SCOPE, "; ".join(refusals), usage=reply.usage, edits=edits)
    if new_tree == parent_tree or (prior and new_tree == prior.tree):
        nothing = "nothing" if new_tree == parent_tree else "nothing more"
        why = _why_no_change(nothing, screened.strays, reply.output)
        raise Rejected(Outcome.SKIPPED, Reason.NO_CHANGE, why, usage=reply.usage)
    first, second = (plan, reply) if prior else (reply, plan)  # a repair keeps the name of the idea
    title = first.title or second.title or f"candidate {iteration.number}"
    text = first.text or second.text
    write_plan(attempt_folder / "plan.md", Plan(title, text, first.files or second.files))
    return Change(
        title=title,
        text=text,
        edits=edits,
        dropped=tuple(quote_path(path) for path in sorted(screened.strays)),
        lines_added=lines_added,
        lines_removed=lines_removed,
        usage=reply.usage,
        provider=reply.provider,
        model=reply.model,
    )


def screen_workspace(iteration: Iteration, changes: Changes, snapshot: Path) -> Screening:
    """The changes of the workspace, sorted by what is done with each path; what is taken is copied to ``snapshot``."""
    workspace, objects, scope = iteration.workspace, iteration.project.repository.objects, iteration.config.scope
    assert iteration.standing.incumbent
    ignored = workspace.cached("ignored", lambda: gitignore_matcher(workspace.tree, objects))
    added_files = AddedFiles(objects, iteration.standing.incumbent.tree, scope, changes.added, changes.missing)
    linked = workspace.cached("linked", lambda: linked_instructions(workspace.tree.entries, objects, scope))
    screened = Screening(workspace.tree, added_files, ignored, objects, snapshot, linked)
    screened.screen(changes)
    return screened


class _Proposal(NamedTuple):
    """What edited the workspace: its reply or failure, the credentials to look for, and how it is recorded."""

    reply: Reply
    failure: Rejected | None
    secrets: Redactor
    keep: Callable[[Reply, Rejected | None, bytes], None]


def _ask_provider(
    iteration: Iteration, attempt: Attempt, prior_patch: bytes, prior_entries: Mapping[str, Entry | None]
) -> _Proposal:
    """Lets the provider edit the workspace, on top of the edits of the attempt before."""
    phase, count = ("apply", 1) if attempt.number == 1 else ("repair", attempt.number - 1)
    assert iteration.briefing
    request = Request(phase, count, attempt.plan, attempt.problem, patch=prior_patch)
    call = build_call(iteration.briefing, request)
    if prior_entries:
        iteration.workspace.tree.overlay(prior_entries)
        call = replace(call, again=_overlay_before_retry(call, iteration.workspace, prior_entries))
    provider = iteration.provider
    reply, failure = ask(lambda: provider.apply(call, attempt.plan), iteration.steps.usage_log)
    return _Proposal(reply, failure, call.secrets, call.keep)


def _lay_stack(iteration: Iteration, plan: Plan) -> _Proposal:
    """Lays over the workspace what the stacked changes, merged, change of the tip."""
    iteration.workspace.tree.overlay(stack_entries(iteration, plan.stacked))
    reply = Reply(plan.title, plan.text, plan.files, provider=STACK)
    return _Proposal(reply, None, credentials_of(iteration.config.manifest), lambda *_: None)


def _refuse_secrets(tree: Checkout, changes: Changes, proposal: _Proposal) -> None:
    """Raises Rejected where a changed file holds a credential, before anything of it is stored."""
    for path in (*changes.added, *changes.changed):
        file = tree.root / path
        content = os.fsencode(path)
        with contextlib.suppress(OSError):
            if file.lstat().st_size > MAX_BYTES:
                continue  # as a flood it is refused unread
            content += os.fsencode(os.readlink(file)) if file.is_symlink() else read_regular(tree.root, path)
        if proposal.secrets.contains(content):
            name = quote_path(proposal.secrets.redact_text(path))
            why = f"{name} holds a credential; nothing of this change is stored"
            refusal = Rejected(Outcome.SKIPPED, Reason.OUT_OF_SCOPE, why, usage=proposal.reply.usage)
            proposal.keep(proposal.reply, refusal, b"")
            raise refusal


def _overlay_before_retry(
    call: Call, workspace: Workspace, prior_entries: Mapping[str, Entry | None]
) -> Callable[[str, Usage], None]:
    """The call's ``again``, which also restores the edits of the attempt before: a retry starts from them too."""

    def on_retry(why: str, usage: Usage) -> None:
        call.again(why, usage)
        workspace.tree.overlay(prior_entries)

    return on_retry


def _path_clashes(objects: Objects, before: str, after: str, edits: Mapping[str, Entry | None]) -> Iterator[str]:
    """Why a change cannot be committed: it replaces another entry of the tree, a folder by a file, say."""
    for difference in objects.differences(before, after):
        if difference.path in edits and (difference.before is None or difference.before.mode != SUBMODULE):
            continue
        for path in edits:
            if (
                path == difference.path
                or path.startswith(difference.path + "/")
                or difference.path.startswith(path + "/")
            ):
                yield f"{quote_path(path)} takes the place of something else in the repository"


def diff_trees(objects: Objects, before: str, after: str) -> tuple[bytes, int, int]:
    """The patch between two trees, and how many lines it adds and removes."""
    output = objects.git("diff-tree", "--numstat", "-p", "-r", "--binary", "--full-index", before, after)
    counts, _, patch = output.partition(b"\n\n")
    rows = [line.split(b"\t") for line in counts.splitlines()]
    added, removed = (sum(int(row[side]) for row in rows if row[side].isdigit()) for side in (0, 1))
    return patch, added, removed


def _why_no_change(nothing: str, strays: list[str], output: str) -> str:
    """Why there is no candidate, with the first line that the provider said: it may have refused."""
    why = f"the provider changed {nothing}"
    if strays:
        why += f" within its scope; left out: {', '.join(_first_names(map(quote_path, strays)))}"
    lines = (clean_title(line, _MAX_LINE) for line in output.splitlines())
    first = next((line for line in lines if line and not line.startswith("<<<")), "")
    has_answer = first and not first.startswith("{")  # without one an agent's rows of JSON stand in its place
    return f"{why}; it said: {first}" if has_answer else why


def _first_names(lines: Iterable[str]) -> list[str]:
    ordered = sorted(lines)
    rest = len(ordered) - _MAX_NAMED
    return [*ordered[:_MAX_NAMED], f"and {rest} more"] if rest > 0 else ordered
