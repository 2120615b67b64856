"""REVIEW: what the verifier would keep is shown to somebody who did not make it, and kept only with his word.

A reviewer is never asked about a candidate that the verifier rejects, so nothing that he says can overrule it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from goalseek.errors import Rejected
from goalseek.git.commits import roll_back
from goalseek.git.objects import Entry
from goalseek.ledger.artifacts import REVIEWS
from goalseek.manifest.tables import ReviewTable
from goalseek.phase_values import Candidate, Change, Decision, Plan, Review
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.proposal.call import Briefing, build_call
from goalseek.proposal.prompt import Judged
from goalseek.proposal.usage import UsageLog, killed_call
from goalseek.providers.answer import title_of
from goalseek.providers.provider import Reply
from goalseek.workspace.workspace import Workspace

DIFF_MOST = 64 * 1024
TEXT_MOST = 16 * 1024
APPROVED, CHANGES_REQUESTED, REJECTED = "APPROVED", "CHANGES_REQUESTED", "REJECTED"


def reviewed(
    project: Project,
    config: Config,
    briefing: Briefing,
    plan: Plan,
    change: Change,
    candidate: Candidate,
    decision: Decision,
    usage_log: UsageLog,
    folder: Path,
    cycle: int,
) -> Review:
    """Asks the reviewer, for the ``cycle``-th time, about a candidate that would be kept; writes ``reviews/``.

    Only the word APPROVED leaves the verdict as it is; without a readable one the candidate is reverted. Raises
    GoalseekError where the reviewer is not let in, or is rate limited for longer than the run goes on.
    """
    table, standing, value = config.manifest.review, project.standing, decision.verdict.value
    assert table and standing.incumbent and value is not None
    objects, before, provider = project.repository.objects, standing.incumbent.tree, project.provider()
    said = Plan(change.title, change.text[:TEXT_MOST], plan.files)
    judged = Judged(value, table.criteria, _cut(objects.git("diff-tree", "-p", "-r", before, candidate.tree)))
    asked = replace(briefing, brief={**briefing.brief, "review": _facts(table, change, value)})
    call = build_call(project, config, asked, "review", said, usage_log, folder, cycle, review_subject=judged)
    edits = {found.path: found.after for found in objects.differences(before, candidate.tree)}
    failure: Rejected | None = None
    with _showing(project.workspace(config), edits):
        try:
            reply = provider.review(call)
        except Rejected as rejected:
            failure, usage = rejected, rejected.usage
            if rejected.reason == "provider_timeout":
                usage = killed_call(usage, usage_log.usual())
            reply = Reply("", output=rejected.output, usage=usage)
    call.keep(reply, failure, b"")
    name, model = reply.provider or provider.reviewers[0].name, reply.model or provider.reviewers[0].model
    after = decision
    if reply.title != APPROVED:
        verdict = replace(
            decision.verdict, outcome="reverted", reason="review_rejected", why=_why(name, reply, failure)
        )
        after = Decision(verdict, roll_back(project.repository, candidate, briefing.context.moment))
    goes_on = reply.title == CHANGES_REQUESTED and cycle <= table.max_cycles and provider.repairs
    review = Review(reply.title, tuple(reply.text.splitlines()), after, goes_on, reply.usage, name, model)
    _write(folder / REVIEWS / f"{cycle}.md", review, reply.output)
    return review


def notes_of(review: Review) -> tuple[str, ...]:
    """What the record tells of a review."""
    told = review.word or "no verdict that could be read"
    return (f"review by {review.provider}: {told}", *(f"review: {reason}" for reason in review.reasons))


@contextlib.contextmanager
def _showing(workspace: Workspace, edits: Mapping[str, Entry | None]) -> Iterator[None]:
    """While this block lasts the workspace holds these files too, not committed; then all is put back.

    It has no label meanwhile: a process that dies in the block leaves no record of a state that is not its step's.
    """
    tree = workspace.tree
    label, before = tree.label, {path: tree.entries.get(path) for path in edits}
    tree.update(edits, "")
    try:
        yield
    finally:
        if workspace.is_whole():
            workspace.clean()
            tree.update(before, label)


def _why(name: str, reply: Reply, failure: Rejected | None) -> str:
    reasons = title_of("; ".join(reply.text.splitlines())) or "no reason given"
    if failure:
        return f"{name}, who was to review it, gave no verdict: {failure.why}"
    if not reply.title:
        return f"the review of {name} has no verdict that can be read"
    if reply.title == REJECTED:
        return f"{name}, who reviewed it, rejected it: {reasons}"
    return f"{name}, who reviewed it, asks for changes: {reasons}"


def _facts(table: ReviewTable, change: Change, value: float) -> dict[str, object]:
    """What the brief of a reviewer has besides."""
    return {"criteria": list(table.criteria), "title": change.title, "text": change.text[:TEXT_MOST], "value": value}


def _cut(patch: bytes) -> str:
    """A patch as text; one that is too long is cut, which is said."""
    rest = len(patch) - DIFF_MOST
    more = f"\n(it goes on for {rest} bytes, which are not shown here: the folder has all of it)" if rest > 0 else ""
    return patch[:DIFF_MOST].decode("utf-8", "replace").rstrip("\n") + more


def _write(path: Path, review: Review, output: str) -> None:
    """The review, for people."""
    path.parent.mkdir(parents=True, exist_ok=True)
    word = review.word or review.decision.verdict.why
    head = f"# {word}\n\nby {review.provider} {review.model}".rstrip()
    reasons = "".join(f"- {reason}\n" for reason in review.reasons)
    path.write_text(f"{head}\n\n{reasons}\n{output}", encoding="utf-8", errors="replace")
