"""APPLY_CHANGE: the provider edits the workspace; its edits are screened and become the change.

The workspace is restored afterwards, so an edit outside the scope never gets into a candidate. A merge by git (a stack,
a move to another tip, a revert) is screened too, and needs no workspace.
"""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, structs

from goalseek.disk import recreate_folder, remove_if_exists
from goalseek.errors import Ended, LimitReached, Rejected
from goalseek.git.objects import Diff, Entry, Objects, TreeReader
from goalseek.git.paths import SUBMODULE, SYMLINK, first_overlap, quote_path
from goalseek.humanize import abbreviate, clean_title
from goalseek.ledger.artifacts import archive_attempt
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.iteration import Iteration
from goalseek.loop.phases.commit import edits_of, entries_by_path, refuse_missing
from goalseek.loop.phases.plan import merge_onto_tip, merge_stack, merge_try, write_plan
from goalseek.phase_values import Change, Edit, Plan
from goalseek.proposal.call import ask, build_call, credentials_of
from goalseek.proposal.prompt import Request
from goalseek.sandbox.environment import Redactor
from goalseek.values import Outcome, Phase, Reason, Usage
from goalseek.workspace.checkout import Changes
from goalseek.workspace.screening import FolderFiles, Screening, rules_of, screen_trees

_MAX_LINE = 160


def apply_change(iteration: Iteration, attempt: OpenAttempt) -> Change:
    """The author's change, or git's merge onto the present tip. Raises Rejected."""
    is_merge = attempt.moving and not attempt.problem
    phase = Phase.COMMIT if is_merge else Phase.APPLY_CHANGE  # no budget of APPLY_CHANGE is in a merge's way
    name = CheckpointName("change", attempt.number)
    change = iteration.steps.do(phase, name, Change, _make_change, iteration, attempt)
    if change.base is not None:
        iteration.stand_at(iteration.project.ledger.standing_at(change.base))
    return change


def _make_change(iteration: Iteration, attempt: OpenAttempt) -> Change:
    if attempt.moving:
        iteration.stand_at(iteration.project.standing)
    if attempt.moving and not attempt.problem:
        tree = merge_onto_tip(iteration, attempt)
    elif attempt.plan.stacked:
        _, tree = merge_stack(iteration, attempt.plan.stacked)
    elif attempt.plan.trial:
        tree = merge_try(iteration, attempt.plan.trial)
    else:
        return _ask_for_change(iteration, attempt)
    return change_to(iteration, attempt.plan, tree, attempt.folder_in(iteration.folder))


def _ask_for_change(iteration: Iteration, attempt: OpenAttempt) -> Change:
    """The provider's edits within the scope, with those of the attempt before.

    Writes ``changes.diff``, ``snapshot/``, ``plan.md`` and ``provider_output.md``. Restores the workspace after the
    call; if that is cut off, the next process does. Raises Rejected for edits outside the scope, no change, a failed
    provider.
    """
    plan, prior, moving = attempt.plan, attempt.prior, attempt.moving
    objects, parent_tree = iteration.project.repository.objects, iteration.incumbent.tree
    provider, workspace, folder = iteration.provider, iteration.workspace, attempt.folder_in(iteration.folder)
    if attempt.last_committed:
        recreate_folder(folder)
    elif prior:
        archive_attempt(iteration.folder, attempt.number - 1)
    edits = _Edits(iteration, folder, entries_by_path(prior.edits) if prior else {})
    was_planned_by_program = plan.title and provider.needs_consent
    if edits.prior or was_planned_by_program:
        workspace.clean()  # edits that a program made while it planned are not part of its change
    prior_tree = parent_tree
    if prior and prior.edits:
        refuse_missing(objects, prior.edits)
        prior_tree = objects.splice(parent_tree, edits.prior)
    shown_trees = (moving[1].tree, moving[0].tree) if moving else (parent_tree, prior_tree)
    phase, count = ("apply", 1) if attempt.number == 1 else ("repair", attempt.number - 1)
    assert iteration.briefing
    request = Request(phase, count, plan, attempt.problem, patch=objects.patch(*shown_trees))
    call = build_call(iteration.briefing, request, edits)
    edits.begin()
    try:
        reply, failure = ask(lambda: provider.apply(call, plan), iteration.steps.usage_log)
    except (Ended, LimitReached):
        with contextlib.suppress(OSError):  # the climb ends already, and may do so because the disk is full
            edits.screen_so_far(call.secrets)
            workspace.clean()
        raise
    if not workspace.is_whole():
        why = "somebody removed the workspace while the provider worked in it"
        raise Rejected(Outcome.SKIPPED, Reason.INTERRUPTED, why, usage=reply.usage)
    changes = workspace.changes()
    try:
        screening, diff = edits.screen(changes, call.secrets, reply.usage)
        call.host.record(reply, failure, objects.diff(prior_tree, diff.tree).patch if edits.prior else diff.patch)
    except Rejected as refusal:
        call.host.record(reply, refusal, b"")
        remove_if_exists(folder / "changes.diff")  # of a turn that was cut off before
        raise
    finally:
        workspace.restore(changes)
    with (folder / "provider_output.md").open("a", encoding="utf-8", errors="replace") as file:
        file.write(reply.output)
    if failure:  # raised once its edits are stored
        raise failure
    first, second = (plan, reply) if prior else (reply, plan)  # a repair keeps the name of the idea
    texts = first.title or second.title, first.text or second.text, first.files or second.files
    proposal = Plan(*texts, reply.usage, reply.provider, reply.model, tried=reply.tried or plan.tried)
    _refuse_out_of_scope(iteration, screening, proposal)
    if diff.tree == parent_tree or (prior and diff.tree == prior.tree):
        why = f"the provider changed nothing{'' if diff.tree == parent_tree else ' more'}"
        if screening.strays:
            why += f" within its scope; left out: {_strays(screening)}"
        lines = (clean_title(line, _MAX_LINE) for line in reply.output.splitlines())
        said = next((line for line in lines if line and not line.startswith("<<<")), "")
        if said and not said.startswith("{"):  # without an answer an agent's rows of JSON stand in its place
            why += f"; it said: {said}"
        raise Rejected(Outcome.SKIPPED, Reason.NO_CHANGE, why, usage=reply.usage, plan=proposal)
    proposal = structs.replace(proposal, title=proposal.title or f"candidate {iteration.number}")
    return _write_change(iteration, proposal, screening, diff, folder)


def change_to(iteration: Iteration, plan: Plan, after: str, folder: Path) -> Change:
    """The change of the incumbent's tree into another, screened as a whole like a provider's. Raises Rejected.

    Writes ``changes.diff``, ``snapshot/`` and ``plan.md`` to ``folder``.
    """
    objects, before = iteration.project.repository.objects, iteration.incumbent.tree
    recreate_folder(folder / "snapshot")
    if before == after:
        raise Rejected(Outcome.SKIPPED, Reason.NO_CHANGE, "the tip has the whole change already", usage=plan.usage)
    screening = screen_trees(objects, iteration.config.scope, before, after)
    paths = objects.changed_paths(before, after)
    _refuse_credentials(screening, paths, credentials_of(iteration.config.manifest), plan.usage)
    diff = _write_diff(objects, before, screening, folder)
    if not screening.refused:
        screening.refused.extend(f"{quote_path(path)} is left out" for path in paths if path not in screening.edits)
    _refuse_out_of_scope(iteration, screening, plan)
    files = {path: entry for path, entry in screening.edits.items() if entry and entry.mode != SYMLINK}
    objects.fill(folder / "snapshot", files)
    return _write_change(iteration, plan, screening, diff, folder)


class _Edits(Struct, frozen=True):
    """The edits of one call, in the workspace; ``prior`` are those of the attempt before."""

    iteration: Iteration
    folder: Path
    prior: Mapping[str, Entry | None]

    def begin(self) -> None:
        """Restore the edits of a turn that was cut off, or else of the attempt before."""
        iteration, usage_log = self.iteration, self.iteration.steps.usage_log
        entries, objects = self.prior, iteration.project.repository.objects
        if interrupted := usage_log.resumable:
            if interrupted.edits is not None and all(objects.has(edit.blob) for edit in interrupted.edits if edit.mode):
                entries = entries_by_path(interrupted.edits)
            else:
                usage_log.note(edits=None)
        if entries:
            iteration.workspace.tree.overlay(entries)

    def screen(self, changes: Changes, secrets: Redactor, usage: Usage) -> tuple[Screening, Diff]:
        """Write ``changes.diff`` and ``snapshot/``. Raises Rejected for a credential, before any of it is stored."""
        iteration, snapshot = self.iteration, self.folder / "snapshot"
        workspace, objects, scope = iteration.workspace, iteration.project.repository.objects, iteration.config.scope
        self.folder.mkdir(parents=True, exist_ok=True)  # somebody's git clean may have removed it
        recreate_folder(snapshot)
        entries, parent_tree = workspace.tree.entries, iteration.incumbent.tree
        rules = workspace.cached("screening", lambda: rules_of(entries, objects, scope))
        files, parent = FolderFiles(workspace.root, objects, snapshot), TreeReader(objects, parent_tree)
        screening = Screening(entries, files, parent, scope, *rules)
        _refuse_credentials(screening, (*changes.added, *changes.changed), secrets, usage)
        screening.screen(changes)
        return screening, _write_diff(objects, parent_tree, screening, self.folder)

    def screen_so_far(self, secrets: Redactor) -> Screening | None:
        """Those of an unfinished call; None if the workspace is gone or has a credential."""
        workspace = self.iteration.workspace
        if workspace.is_whole():
            with contextlib.suppress(Rejected):
                return self.screen(workspace.changes(), secrets, Usage())[0]
        return None

    def save(self, secrets: Redactor) -> tuple[Edit, ...] | None:
        if screening := self.screen_so_far(secrets):
            return edits_of(screening.edits)
        self.undo()
        return None

    def undo(self) -> None:
        workspace = self.iteration.workspace
        workspace.clean()
        workspace.tree.overlay(self.prior)


def _refuse_credentials(screening: Screening, paths: Iterable[str], secrets: Redactor, usage: Usage) -> None:
    if path := screening.find_credential(paths, secrets.contains):
        why = f"{quote_path(secrets.redact_text(path))} holds a credential; nothing of this change is stored"
        raise Rejected(Outcome.SKIPPED, Reason.OUT_OF_SCOPE, why, usage=usage)


def _write_diff(objects: Objects, before: str, screening: Screening, folder: Path) -> Diff:
    """Refuses edits that cannot be committed."""
    all_edits = {**screening.edits, **screening.out_of_scope}
    diff = objects.diff(before, objects.splice(before, all_edits) if all_edits else before)
    (folder / "changes.diff").write_bytes(diff.patch)
    for difference in objects.differences(before, diff.tree):
        path = difference.path
        if path not in all_edits or (difference.before is not None and difference.before.mode == SUBMODULE):
            # An edit replaced another entry of the tree, for example a folder by a file.
            clashing = (edited for edited in all_edits if first_overlap(edited, [path]))
            text = "would replace a file or folder of the repository"
            screening.refused.extend(f"{quote_path(edited)} {text}" for edited in clashing)
    return diff


def _refuse_out_of_scope(iteration: Iteration, screening: Screening, plan: Plan) -> None:
    why = abbreviate(sorted(screening.refused), "; ")
    if not why and screening.strays and iteration.config.manifest.scope.strays == "reject":
        why = f"new files outside the scope: {_strays(screening)}"
    if why:
        edits = edits_of(screening.edits)
        raise Rejected(Outcome.SKIPPED, Reason.OUT_OF_SCOPE, why, usage=plan.usage, edits=edits, plan=plan)


def _write_change(iteration: Iteration, plan: Plan, screening: Screening, diff: Diff, folder: Path) -> Change:
    write_plan(folder / "plan.md", plan)
    return Change(
        title=plan.title,
        text=plan.text,
        edits=edits_of(screening.edits),
        dropped=tuple(quote_path(path) for path in sorted(screening.strays)),
        lines_added=diff.lines_added,
        lines_removed=diff.lines_removed,
        usage=plan.usage,
        provider=plan.provider,
        model=plan.model,
        tried=plan.tried,
        base=iteration.standing.seq if iteration.standing.seq != iteration.begun.seq else None,
    )


def _strays(screening: Screening) -> str:
    return abbreviate(sorted(map(quote_path, screening.strays)))
