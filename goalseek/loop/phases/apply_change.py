"""APPLY_CHANGE: the provider edits the workspace; what it changed is held against the scope and taken out of there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from goalseek.errors import Rejected
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import SUBMODULE, quote_path
from goalseek.loop.phases.commit import entries_of, store_again
from goalseek.loop.phases.plan import write_plan
from goalseek.own_folders import make_anew, read_regular
from goalseek.phase_values import Change, Edit, Plan
from goalseek.providers.provider import Call, Provider, Reply
from goalseek.values import Usage
from goalseek.workspace.checkout import Checkout
from goalseek.workspace.scan import Changes
from goalseek.workspace.scope import Scope
from goalseek.workspace.screening import BYTES_MOST, AddedFiles, Screening, ignored_by, screen
from goalseek.workspace.workspace import Workspace

_NAMED_MOST = 5


@dataclass(frozen=True)
class PriorAttempt:
    """What a try begins with: the edits of the one before, which stay, and its tree where these were a candidate.

    ``snapshot`` has the files of these edits.
    """

    edits: tuple[Edit, ...] = ()
    tree: str = ""
    snapshot: Path = Path()


_AFRESH = PriorAttempt()


def apply_change(
    provider: Provider,
    call: Call,
    plan: Plan,
    workspace: Workspace,
    objects: Objects,
    scope: Scope,
    strays: str,
    parent_tree: str,
    run_folder: Path,
    begun: PriorAttempt = _AFRESH,
) -> Change:
    """Lets the provider edit a clean workspace, and gives what it changed within its scope, with what it began with.

    Writes ``changes.diff``, ``snapshot/``, ``plan.md`` and ``provider_output.md``. The workspace is put back whatever
    happens. Raises Rejected for edits outside the scope, for no change, and where the provider failed.
    """
    snapshot = run_folder / "snapshot"
    make_anew(snapshot)
    if begun.edits or (plan.title and provider.needs_consent):
        workspace.clean()  # what a program edited while it planned is not part of its change
    kept = entries_of(begun.edits)
    if kept:
        store_again(objects, begun.edits, begun.snapshot)
        workspace.tree.overlay(kept)
        call = replace(call, again=_laid_again(call, workspace, kept))
    reply, failure = _asked(provider, call, plan)
    snapshot.mkdir(parents=True, exist_ok=True)  # somebody's git clean may have removed it
    if not workspace.is_whole():
        raise Rejected("skipped", "interrupted", "the workspace was removed while the provider was at work in it")
    changes = workspace.changes()
    try:
        _refuse_secrets(workspace.tree, changes, call, reply)
        ignored = workspace.cached("ignored", lambda: ignored_by(workspace.tree, objects))
        newcomers = AddedFiles(objects, parent_tree, scope, changes.added, changes.missing)
        sifted = screen(Screening(workspace.tree, scope, ignored, newcomers, objects, snapshot), changes)
        tried = {**sifted.edits, **sifted.beyond}
        spliced = objects.splice(parent_tree, tried) if tried else parent_tree
        patch, added, removed = _diff(objects, parent_tree, spliced)
        (run_folder / "changes.diff").write_bytes(patch)
        before = objects.splice(parent_tree, kept) if kept else parent_tree
        call.keep(reply, failure, _diff(objects, before, spliced)[0] if kept else patch)
        sifted.refused.extend(_pushing_out(objects, parent_tree, spliced, tried))
    finally:
        workspace.restore(changes)
    with (run_folder / "provider_output.md").open("a", encoding="utf-8", errors="replace") as file:
        file.write(reply.output)
    if failure:
        raise failure
    edits = tuple(
        Edit(path, entry.mode if entry else "", entry.blob if entry else "")
        for path, entry in sorted(sifted.edits.items())
    )
    refused = _few(sifted.refused)
    if not refused and sifted.strays and strays == "reject":
        refused = [f"new files outside the scope: {', '.join(_few(map(quote_path, sifted.strays)))}"]
    if refused:
        raise Rejected("skipped", "out_of_scope", "; ".join(refused), usage=reply.usage, edits=edits)
    if spliced == parent_tree:
        raise Rejected("skipped", "no_change", _nothing(sifted.strays), usage=reply.usage)
    if spliced == begun.tree:
        raise Rejected("skipped", "no_change", "the provider changed nothing more", usage=reply.usage)
    first, second = (plan, reply) if begun != _AFRESH else (reply, plan)  # a repair keeps the name of the idea
    title = first.title or second.title or f"candidate {call.context.iteration}"
    text = first.text or second.text
    write_plan(run_folder / "plan.md", Plan(title, text, first.files or second.files))
    return Change(
        title=title,
        text=text,
        edits=edits,
        dropped=tuple(quote_path(path) for path in sorted(sifted.strays)),
        lines_added=added,
        lines_removed=removed,
        usage=reply.usage,
        provider=reply.provider,
        model=reply.model,
    )


def _refuse_secrets(tree: Checkout, changes: Changes, call: Call, reply: Reply) -> None:
    """Raises Rejected where a changed file holds a credential, before anything of it is stored."""
    for path in (*changes.added, *changes.changed):
        full = tree.root / path
        held = os.fsencode(path)
        with contextlib.suppress(OSError):
            if full.lstat().st_size > BYTES_MOST:
                continue  # as a flood it is refused unread
            held += os.fsencode(os.readlink(full)) if full.is_symlink() else read_regular(tree.root, path)
        if call.secrets.contains(held):
            named = quote_path(call.secrets.hidden_text(path))
            why = f"{named} holds a credential; nothing of this change is stored"
            refusal = Rejected("skipped", "out_of_scope", why, usage=reply.usage)
            call.keep(reply, refusal, b"")
            raise refusal


def _laid_again(call: Call, workspace: Workspace, kept: Mapping[str, Entry | None]) -> Callable[[str, Usage], None]:
    """What a call is told before it is made once more: whoever is asked then finds the change as it was."""

    def again(why: str, usage: Usage) -> None:
        call.again(why, usage)
        workspace.tree.overlay(kept)

    return again


def _asked(provider: Provider, call: Call, plan: Plan) -> tuple[Reply, Rejected | None]:
    """A provider that failed may have left edits: they are taken for ``changes.diff`` all the same."""
    try:
        return provider.apply(call, plan), None
    except Rejected as rejected:
        return Reply("", output=rejected.output, usage=rejected.usage), rejected


def _pushing_out(objects: Objects, before: str, after: str, tried: Mapping[str, Entry | None]) -> Iterator[str]:
    """Changed paths that would take something else out of the tree: a file named as a folder, say."""
    for found in objects.differences(before, after):
        if found.path in tried and (found.before is None or found.before.mode != SUBMODULE):
            continue
        for path in tried:
            if path == found.path or path.startswith(found.path + "/") or found.path.startswith(path + "/"):
                yield f"{quote_path(path)} stands where something else of the repository is"


def _diff(objects: Objects, before: str, after: str) -> tuple[bytes, int, int]:
    """The patch between two trees, and how many lines it adds and removes."""
    both = objects.git("diff-tree", "--numstat", "-p", "-r", "--binary", "--full-index", before, after)
    numbers, _, patch = both.partition(b"\n\n")
    rows = [line.split(b"\t") for line in numbers.splitlines()]
    added, removed = (sum(int(row[side]) for row in rows if row[side].isdigit()) for side in (0, 1))
    return patch, added, removed


def _nothing(strays: list[str]) -> str:
    if not strays:
        return "the provider changed nothing"
    named = ", ".join(_few(quote_path(path) for path in strays))
    return f"the provider changed nothing within its scope; left out: {named}"


def _few(lines: Iterable[str]) -> list[str]:
    ordered = sorted(lines)
    rest = len(ordered) - _NAMED_MOST
    return [*ordered[:_NAMED_MOST], f"and {rest} more"] if rest > 0 else ordered
