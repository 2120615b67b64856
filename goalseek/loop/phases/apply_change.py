"""APPLY_CHANGE: the provider edits the workspace; its edits are screened and become the change.

The workspace is restored afterwards, so an edit outside the scope never gets into a candidate. A merge by git (a stack,
a move to another tip, a revert) is screened too, and needs no workspace.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, structs

from goalseek.disk import recreate_folder, remove_if_exists
from goalseek.errors import Ended, LimitReached, Rejected
from goalseek.git.objects import Diff, Entry, Objects, TreeReader
from goalseek.git.paths import SUBMODULE, SYMLINK, first_overlap, quote_path
from goalseek.ledger.artifacts import archive_attempt
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.iteration import Iteration
from goalseek.loop.phases.commit import edits_of, entries_by_path, refuse_missing
from goalseek.loop.phases.plan import merge_onto_tip, merge_stack, write_plan
from goalseek.phase_values import Change, Edit, Plan
from goalseek.proposal.call import ask, build_call, credentials_of
from goalseek.proposal.prompt import Request
from goalseek.providers.answer import clean_title
from goalseek.sandbox.environment import Redactor
from goalseek.values import Outcome, Phase, Reason, Usage
from goalseek.workspace.screening import (
    MAX_BYTES,
    FolderFiles,
    Screening,
    gitignore_matcher,
    linked_instructions,
    screen_trees,
)

_MAX_NAMED = 5
_MAX_LINE = 160


def apply_change(iteration: Iteration, attempt: OpenAttempt) -> Change:
    """The author's change, or git's merge onto the present tip. Raises Rejected."""
    name, phase, work = CheckpointName("change", attempt.number), Phase.APPLY_CHANGE, _ask_for_change
    if attempt.moving and not attempt.problem:  # nobody is asked for it, so no budget of APPLY_CHANGE is in its way
        phase, work = Phase.COMMIT, _move_to_tip
    change = iteration.steps.do(phase, name, Change, work, iteration, attempt)
    if change.base is not None:
        iteration.stand_at(iteration.project.ledger.standing_at(change.base))
    return change


def _ask_for_change(iteration: Iteration, attempt: OpenAttempt) -> Change:
    """The provider's edits within the scope, with those of the attempt before; git's merge for a stack.

    Writes ``changes.diff``, ``snapshot/``, ``plan.md`` and ``provider_output.md``. Restores the workspace after the
    call; if that is cut off, the next process does. Raises Rejected for edits outside the scope, no change, a failed
    provider.
    """
    plan, prior, moving = attempt.plan, attempt.prior, attempt.moving
    if moving:
        iteration.stand_at(iteration.project.standing)
    attempt_folder = attempt.folder_in(iteration.folder)
    objects, parent_tree = iteration.project.repository.objects, iteration.incumbent.tree
    if plan.stacked:
        tree = merge_stack(iteration, plan.stacked)
        return change_between(iteration, plan, parent_tree, tree, attempt_folder)
    provider, workspace = iteration.provider, iteration.workspace
    if attempt.last_committed:
        recreate_folder(attempt_folder)
    elif prior:
        archive_attempt(iteration.folder, attempt.number - 1)
    prior_entries = entries_by_path(prior.edits) if prior else {}
    was_planned_by_program = plan.title and provider.needs_consent
    if prior_entries or was_planned_by_program:
        workspace.clean()  # edits that a program made while it planned are not part of its change
    prior_tree = parent_tree
    if prior and prior_entries:
        refuse_missing(objects, prior.edits)
        prior_tree = objects.splice(parent_tree, prior_entries)
    shown_trees = (moving[1].tree, moving[0].tree) if moving else (parent_tree, prior_tree)
    phase, count = ("apply", 1) if attempt.number == 1 else ("repair", attempt.number - 1)
    assert iteration.briefing
    request = Request(phase, count, plan, attempt.problem, patch=objects.patch(*shown_trees))
    edits = _Edits(iteration, attempt_folder, prior_entries)
    call = build_call(iteration.briefing, request, edits)
    edits.begin()
    try:
        reply, failure = ask(lambda: provider.apply(call, plan), iteration.steps.usage_log)
    except (Ended, LimitReached):
        with contextlib.suppress(OSError):  # the climb ends already, and may do so because the disk is full
            _screen_so_far(iteration, attempt_folder, call.secrets)
            workspace.clean()
        raise
    if not workspace.is_whole():
        why = "the workspace was removed while the provider was at work in it"
        raise Rejected(Outcome.SKIPPED, Reason.INTERRUPTED, why, usage=reply.usage)
    changes = workspace.tree.changes()
    try:
        screened = _screening_of(iteration, attempt_folder)
        if refusal := _credential_refusal(screened, (*changes.added, *changes.changed), call.secrets, reply.usage):
            call.host.record(reply, refusal, b"")
            remove_if_exists(attempt_folder / "changes.diff")  # of a turn that was cut off before
            raise refusal
        screened.screen(changes)
        diff = _write_diff(objects, parent_tree, screened, attempt_folder)
        call.host.record(reply, failure, objects.diff(prior_tree, diff.tree).patch if prior_entries else diff.patch)
    finally:
        workspace.restore(changes)
    with (attempt_folder / "provider_output.md").open("a", encoding="utf-8", errors="replace") as file:
        file.write(reply.output)
    if failure:  # raised once its edits are stored
        raise failure
    first, second = (plan, reply) if prior else (reply, plan)  # a repair keeps the name of the idea
    texts = first.title or second.title, first.text or second.text, first.files or second.files
    proposal = Plan(*texts, reply.usage, reply.provider, reply.model, tried=reply.tried or plan.tried)
    _refuse_out_of_scope(iteration, screened, proposal)
    if diff.tree == parent_tree or (prior and diff.tree == prior.tree):
        nothing = "nothing" if diff.tree == parent_tree else "nothing more"
        why = _why_no_change(nothing, screened.strays, reply.output)
        raise Rejected(Outcome.SKIPPED, Reason.NO_CHANGE, why, usage=reply.usage, plan=proposal)
    proposal = structs.replace(proposal, title=proposal.title or f"candidate {iteration.number}")
    return _write_change(iteration, proposal, screened, diff, attempt_folder)


def _move_to_tip(iteration: Iteration, attempt: OpenAttempt) -> Change:
    iteration.stand_at(iteration.project.standing)
    tree, before = merge_onto_tip(iteration, attempt), iteration.incumbent.tree
    return change_between(iteration, attempt.plan, before, tree, attempt.folder_in(iteration.folder))


def change_between(iteration: Iteration, plan: Plan, before: str, after: str, folder: Path) -> Change:
    """The change of one tree into another, screened as a whole like a provider's. Raises Rejected.

    Writes ``changes.diff``, ``snapshot/`` and ``plan.md`` to ``folder``.
    """
    objects = iteration.project.repository.objects
    recreate_folder(folder / "snapshot")
    if before == after:
        raise Rejected(Outcome.SKIPPED, Reason.NO_CHANGE, "the tip has all of it already", usage=plan.usage)
    screened = screen_trees(objects, iteration.config.scope, before, after)
    paths = [difference.path for difference in objects.differences(before, after)]
    if refusal := _credential_refusal(screened, paths, credentials_of(iteration.config.manifest), plan.usage):
        raise refusal
    diff = _write_diff(objects, before, screened, folder)
    if not screened.refused:
        screened.refused.extend(f"{quote_path(path)} is left out" for path in paths if path not in screened.edits)
    _refuse_out_of_scope(iteration, screened, plan)
    files = {path: entry for path, entry in screened.edits.items() if entry and entry.mode != SYMLINK}
    objects.fill(folder / "snapshot", files)
    return _write_change(iteration, plan, screened, diff, folder)


def _screen_so_far(iteration: Iteration, folder: Path, secrets: Redactor) -> Screening | None:
    """Write ``changes.diff`` of an unfinished call; None if the workspace is gone or has a credential."""
    workspace = iteration.workspace
    if not workspace.is_whole():
        return None
    changes = workspace.tree.changes()
    screened = _screening_of(iteration, folder)
    if _credential_refusal(screened, (*changes.added, *changes.changed), secrets, Usage()):
        return None
    screened.screen(changes)
    _write_diff(iteration.project.repository.objects, iteration.incumbent.tree, screened, folder)
    return screened


def _screening_of(iteration: Iteration, folder: Path) -> Screening:
    workspace, objects, scope = iteration.workspace, iteration.project.repository.objects, iteration.config.scope
    snapshot = folder / "snapshot"
    folder.mkdir(parents=True, exist_ok=True)  # somebody's git clean may have removed it
    recreate_folder(snapshot)
    assert iteration.standing.incumbent
    entries = workspace.tree.entries
    ignored, linked = workspace.cached(
        "screening", lambda: (gitignore_matcher(entries, objects), linked_instructions(entries, objects, scope))
    )
    return Screening(
        entries,
        FolderFiles(workspace.root, objects, snapshot),
        objects,
        TreeReader(objects, iteration.standing.incumbent.tree),
        scope,
        ignored,
        linked,
    )


class _Edits(Struct, frozen=True):
    iteration: Iteration
    folder: Path
    prior_entries: Mapping[str, Entry | None]  # of the attempt before

    def begin(self) -> None:
        """Restore the edits of a turn that was cut off, or else of the attempt before."""
        iteration, usage_log = self.iteration, self.iteration.steps.usage_log
        entries, objects = self.prior_entries, iteration.project.repository.objects
        if interrupted := usage_log.resumable:
            if interrupted.edits is not None and all(objects.has(edit.blob) for edit in interrupted.edits if edit.mode):
                entries = entries_by_path(interrupted.edits)
            else:
                usage_log.note(edits=None)
        if entries:
            iteration.workspace.tree.overlay(entries)

    def save(self, secrets: Redactor) -> tuple[Edit, ...] | None:
        screened = _screen_so_far(self.iteration, self.folder, secrets)
        if screened is None:
            self.undo()
            return None
        return edits_of(screened.edits)

    def undo(self) -> None:
        workspace = self.iteration.workspace
        workspace.clean()
        workspace.tree.overlay(self.prior_entries)


def _credential_refusal(screening: Screening, paths: Iterable[str], secrets: Redactor, usage: Usage) -> Rejected | None:
    """The refusal of a change with a credential in a file or a name, before anything of it is stored."""
    for path in paths:
        content = os.fsencode(path)
        with contextlib.suppress(OSError):
            if screening.files.size(path) > MAX_BYTES:
                continue  # as a flood it is refused unread
            content += screening.files.read(path)
        if secrets.contains(content):
            why = f"{quote_path(secrets.redact_text(path))} holds a credential; nothing of this change is stored"
            return Rejected(Outcome.SKIPPED, Reason.OUT_OF_SCOPE, why, usage=usage)
    return None


def _write_diff(objects: Objects, before: str, screened: Screening, folder: Path) -> Diff:
    """Refuses edits that cannot be committed."""
    all_edits = {**screened.edits, **screened.out_of_scope}
    diff = objects.diff(before, objects.splice(before, all_edits) if all_edits else before)
    (folder / "changes.diff").write_bytes(diff.patch)
    for difference in objects.differences(before, diff.tree):
        path = difference.path
        if path not in all_edits or (difference.before is not None and difference.before.mode == SUBMODULE):
            # An edit replaced another entry of the tree, for example a folder by a file.
            clashing = (edited for edited in all_edits if first_overlap(edited, [path]))
            text = "takes the place of something else in the repository"
            screened.refused.extend(f"{quote_path(edited)} {text}" for edited in clashing)
    return diff


def _refuse_out_of_scope(iteration: Iteration, screened: Screening, plan: Plan) -> None:
    refusals = _first_names(screened.refused)
    if not refusals and screened.strays and iteration.config.manifest.scope.strays == "reject":
        refusals = [f"new files outside the scope: {', '.join(_first_names(map(quote_path, screened.strays)))}"]
    if refusals:
        edits = edits_of(screened.edits)
        why = "; ".join(refusals)
        raise Rejected(Outcome.SKIPPED, Reason.OUT_OF_SCOPE, why, usage=plan.usage, edits=edits, plan=plan)


def _write_change(iteration: Iteration, plan: Plan, screened: Screening, diff: Diff, folder: Path) -> Change:
    write_plan(folder / "plan.md", plan)
    return Change(
        title=plan.title,
        text=plan.text,
        edits=edits_of(screened.edits),
        dropped=tuple(quote_path(path) for path in sorted(screened.strays)),
        lines_added=diff.lines_added,
        lines_removed=diff.lines_removed,
        usage=plan.usage,
        provider=plan.provider,
        model=plan.model,
        tried=plan.tried,
        base=iteration.standing.seq if iteration.standing.seq != iteration.begun.seq else None,
    )


def _why_no_change(nothing: str, strays: list[str], output: str) -> str:
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
