"""REVIEW: what the verifier would keep is shown to somebody who did not make it, and kept only with his word.

A reviewer is never asked about a candidate that the verifier rejects, so nothing that he says can overrule it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from goalseek.call import Briefing, call_for
from goalseek.calls import Calls
from goalseek.charge import killed_call
from goalseek.desk import Desk
from goalseek.errors import Rejected
from goalseek.manifest import ReviewTable
from goalseek.objects import Entry
from goalseek.phases.decide import roll_back
from goalseek.providers.answer import title_of
from goalseek.providers.provider import Reply
from goalseek.run import Run, Setting
from goalseek.units import number
from goalseek.values import Candidate, Change, Decision, Plan, Review
from goalseek.workspace import Workspace

DIFF_MOST = 64 * 1024
TEXT_MOST = 16 * 1024
APPROVED, CHANGES_REQUESTED, REJECTED = "APPROVED", "CHANGES_REQUESTED", "REJECTED"


def needs_review(setting: Setting, decision: Decision, desk: Desk) -> bool:
    """Whether this verdict needs a review: a keep does; one that was given counts, whatever the manifest says now."""
    return bool(decision.verdict) and (setting.manifest.review is not None or desk.has(("review", Review)))


def reviewed(
    run: Run,
    setting: Setting,
    briefing: Briefing,
    plan: Plan,
    change: Change,
    candidate: Candidate,
    decision: Decision,
    calls: Calls,
    folder: Path,
) -> Review:
    """Asks the reviewer about a candidate that would be kept; writes ``review_prompt.md`` and ``review.md``.

    Only the word APPROVED leaves the verdict as it is; without a readable one the candidate is reverted. Raises
    GoalseekError where the reviewer is not let in, or is rate limited for longer than the run goes on.
    """
    table, standing = setting.manifest.review, run.standing
    assert table and standing.incumbent
    objects, before = run.repository.objects, standing.incumbent.tree
    said = Plan(change.title, change.text[:TEXT_MOST], plan.files)
    more = {
        "criteria": "\n".join(f"- {criterion}" for criterion in table.criteria),
        "value": "" if decision.verdict.value is None else number(decision.verdict.value),
        "diff": _shown(objects.git("diff-tree", "-p", "-r", before, candidate.tree)),
    }
    asked = replace(briefing, brief={**briefing.brief, "review": _facts(table, change, decision)})
    call = call_for(run, setting, asked, "review", said, calls, more, "review")
    edits = {found.path: found.after for found in objects.differences(before, candidate.tree)}
    (folder / "review_prompt.md").write_text(call.prompt, encoding="utf-8", errors="replace")
    trouble = ""
    with _showing(run.workspace(setting), edits):
        try:
            reply = run.provider().review(call)
        except Rejected as rejected:
            usage = rejected.usage
            if rejected.reason == "provider_timeout":
                usage = killed_call(usage, calls.usual())
            reply, trouble = Reply("", output=rejected.output, usage=usage), rejected.why
    reviewer = run.provider().reviewers[0]
    name, model = reply.provider or reviewer.name, reply.model or reviewer.model
    reasons = tuple(reply.text.splitlines())
    after = (
        decision
        if reply.title == APPROVED
        else _reverted(run, briefing, candidate, decision, _why(name, reply, trouble))
    )
    review = Review(reply.title, reasons, after, reply.usage, name, model)
    _write(folder / "review.md", review, reply.output, trouble)
    return review


def notes_of(review: Review | None) -> tuple[str, ...]:
    """What the record tells of a review."""
    if review is None:
        return ()
    told = review.word or "no verdict that could be read"
    return (f"review by {review.provider}: {told}", *(f"review: {reason}" for reason in review.reasons))


@contextlib.contextmanager
def _showing(workspace: Workspace, edits: Mapping[str, Entry | None]) -> Iterator[None]:
    """While this block lasts the workspace holds these files too, not committed; then all is put back.

    It has no label meanwhile: a process that dies in the block leaves no record of a state that is not its step's.
    """
    tree = workspace.tree
    label, before = tree.label, {path: tree.entries.get(path) for path in edits}
    tree.bring(edits, "")
    try:
        yield
    finally:
        if workspace.is_whole():
            workspace.clean()
            tree.bring(before, label)


def _why(name: str, reply: Reply, trouble: str) -> str:
    reasons = title_of("; ".join(reply.text.splitlines())) or "no reason given"
    if trouble:
        return f"{name}, who was to review it, gave no verdict: {trouble}"
    if not reply.title:
        return f"the review of {name} has no verdict that can be read"
    if reply.title == REJECTED:
        return f"{name}, who reviewed it, rejected it: {reasons}"
    return f"{name}, who reviewed it, still asks for changes: {reasons}"


def _reverted(run: Run, briefing: Briefing, candidate: Candidate, decision: Decision, why: str) -> Decision:
    verdict = replace(decision.verdict, outcome="reverted", reason="review_rejected", why=why)
    return Decision(verdict, roll_back(run.repository, candidate, briefing.context.moment))


def _facts(table: ReviewTable, change: Change, decision: Decision) -> dict[str, object]:
    """What the brief of a reviewer has besides."""
    return {
        "criteria": list(table.criteria),
        "title": change.title,
        "text": change.text,
        "value": decision.verdict.value,
    }


def _shown(patch: bytes) -> str:
    """A patch as an indented block, whatever is in it; one that is too long is cut, which is said."""
    block = b"".join(b"    " + line for line in patch.splitlines(keepends=True))
    rest = len(block) - DIFF_MOST
    more = f"\n\n(it goes on for {rest} bytes, which are not shown here: the folder has all of it)" if rest > 0 else ""
    return block[:DIFF_MOST].decode("utf-8", "replace").rstrip("\n") + more


def _write(path: Path, review: Review, output: str, trouble: str) -> None:
    """The review, for people."""
    path.parent.mkdir(parents=True, exist_ok=True)  # somebody's git clean may have removed it
    head = (
        f"# {review.word or trouble or 'no verdict that can be read'}\n\nby {review.provider} {review.model}".rstrip()
    )
    reasons = "".join(f"- {reason}\n" for reason in review.reasons)
    path.write_text(f"{head}\n\n{reasons}\n{output}", encoding="utf-8", errors="replace")
