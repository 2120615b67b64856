"""DECIDE, REVIEW and APPROVE: the rule's verdict, then a reviewer's and a person's, if the manifest asks for them.

A reviewer is asked only about a candidate that would be kept, so it cannot overrule the verifier. No verdict takes
effect before the person who is asked has answered.
"""

import contextlib
from collections.abc import Iterator, Mapping

from msgspec import structs

from goalseek.git.objects import Entry
from goalseek.humanize import clean_title
from goalseek.ledger.artifacts import REVIEWS
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.iteration import Iteration
from goalseek.phase_values import Decision, Plan, Review
from goalseek.project import approval
from goalseek.proposal.call import ask, build_call
from goalseek.proposal.prompt import Request, ReviewSubject
from goalseek.providers.answer import APPROVED, CHANGES_REQUESTED, REJECTED
from goalseek.statistics.stacking import ELIGIBLE
from goalseek.values import Outcome, Phase, Reason
from goalseek.workspace.scope import overlap_matcher
from goalseek.workspace.screening import linked_instructions
from goalseek.workspace.workspace import Workspace

MAX_TEXT_BYTES = 16 * 1024


def decide(iteration: Iteration, attempt: OpenAttempt) -> Decision:
    assert attempt.verdict is not None and attempt.candidate
    return Decision(attempt.verdict, None if attempt.verdict else iteration.revert(attempt.candidate))


def asks_reviewer(iteration: Iteration, attempt: OpenAttempt) -> bool:
    """A stored review counts, even if the manifest no longer asks for one."""
    if not attempt.is_kept or iteration.steps.has(CheckpointName("review", attempt.cycle)):
        return attempt.is_kept
    return iteration.config.manifest.review is not None and iteration.acquire_landing()


def review_candidate(iteration: Iteration, attempt: OpenAttempt) -> Review:
    """Ask the reviewer; any answer but APPROVED, or none, reverts the candidate. Writes ``reviews/``.

    Raises GoalseekError if the reviewer's login is refused, or its rate limit outlasts the run.
    """
    change, candidate, decision = attempt.change, attempt.candidate, attempt.decision
    table, value = iteration.config.manifest.review, decision.verdict.value if decision else None
    assert change and candidate and decision and table and iteration.attempts and iteration.briefing
    assert value is not None
    objects, before, provider = iteration.project.repository.objects, iteration.incumbent.tree, iteration.provider
    proposal = Plan(change.title, change.text[:MAX_TEXT_BYTES], iteration.attempts.plan.files)
    patch = objects.patch(before, candidate.tree)
    changed = objects.git("diff-tree", "--numstat", "-r", before, candidate.tree)
    guards = attempt.evidence.guards if attempt.evidence else {}
    subject = ReviewSubject(value, table.criteria, patch, guards, changed)
    call = build_call(iteration.briefing, Request("review", attempt.cycle, proposal, review=subject))
    edits = {difference.path: difference.after for difference in objects.differences(before, candidate.tree)}
    shown = {**edits, **_instructions_to_undo(iteration, candidate.tree)}
    with _showing_candidate(iteration.reviewers_workspace, shown):
        reply, failure = ask(lambda: provider.review(call), iteration.steps.usage_log)
    call.host.record(reply, failure, b"")
    name, model = reply.provider or provider.reviewers[0].name, reply.model or provider.reviewers[0].model
    reasons = tuple(reply.text.splitlines())
    if reply.title != APPROVED:
        if failure:
            why = f"the reviewer {name} gave no verdict: {failure.why}"
        elif not reply.title:
            why = f"the review of {name} has no readable verdict"
        else:
            said = "rejected it" if reply.title == REJECTED else "asks for changes"
            why = f"the reviewer {name} {said}: {clean_title('; '.join(reasons)) or 'no reason given'}"
        decision = _revert(iteration, attempt, Reason.REVIEW_REJECTED, why)
    has_author = attempt.plan.is_asked and bool(provider.repairers)
    goes_on = reply.title == CHANGES_REQUESTED and attempt.cycle - attempt.moves <= table.max_cycles and has_author
    path = iteration.folder / REVIEWS / f"{attempt.cycle}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"# {reply.title or decision.verdict.why}\n\nby {name} {model}".rstrip()
    listed = "".join(f"- {reason}\n" for reason in reasons)
    path.write_text(f"{head}\n\n{listed}\n{reply.output}", encoding="utf-8", errors="replace")
    return Review(reply.title, reasons, decision, goes_on, reply.usage, name, model)


def _instructions_to_undo(iteration: Iteration, tree: str) -> dict[str, Entry | None]:
    """The baseline's instructions for agents, with imports: through edited ones a candidate could ask for approval."""
    objects, scope, baseline = iteration.project.repository.objects, iteration.config.scope, iteration.standing.baseline
    assert baseline
    changes = objects.visible_changes(tree, baseline.tree, scope.seen_by("agent"))
    is_linked = overlap_matcher(linked_instructions(objects.files(baseline.tree), objects, scope, has_imports=True))
    return {path: entry for path, entry in changes.items() if scope.instructions(path) or is_linked(path)}


@contextlib.contextmanager
def _showing_candidate(workspace: Workspace, edits: Mapping[str, Entry | None]) -> Iterator[None]:
    """In this block the workspace has the reviewer's files, uncommitted."""
    tree = workspace.tree
    label, entries_before = tree.label, {path: tree.entries.get(path) for path in edits}
    tree.update(edits, "")  # no label: after a kill it is not taken for the incumbent's tree
    try:
        yield
    finally:
        if workspace.is_whole():
            workspace.clean()
            tree.update(entries_before, label)


def _revert(iteration: Iteration, attempt: OpenAttempt, reason: str, why: str) -> Decision:
    assert attempt.decision and attempt.candidate
    verdict = structs.replace(attempt.decision.verdict, outcome=Outcome.REVERTED, reason=reason, why=why)
    return Decision(verdict, iteration.revert(attempt.candidate))


def needs_approval(iteration: Iteration, attempt: OpenAttempt) -> bool:
    """A stored answer counts, even if the manifest no longer asks for one."""
    if iteration.steps.has(CheckpointName("word", attempt.cycle)):
        return True
    logs = iteration.project.loaded.logs
    question = _question(iteration) if approval.approval_file(logs, iteration.number).exists() else None
    is_ours = question and attempt.candidate and question.commit == attempt.candidate.commit  # no later attempt's
    if question and is_ours and approval.read_approval(logs, question):
        return True
    assert attempt.decision
    is_asked = approval.requires_approval(iteration.config.manifest, attempt.decision.verdict)
    return is_asked and (not attempt.is_kept or iteration.acquire_landing())


def apply_approval(iteration: Iteration, attempt: OpenAttempt) -> None:
    """Apply a person's answer: a declined keep is reverted; a revert stays one whatever the answer.

    A declined near miss is never stacked; an approved change is not asked about again. Raises GoalseekError with exit
    code 5 if there is no answer, nobody at a terminal, and nothing else under way.
    """
    name, work = CheckpointName("word", attempt.cycle), _decide_by_answer
    attempt.decision = iteration.steps.do(Phase.APPROVE, name, Decision, work, iteration, attempt)
    if attempt.is_kept:
        iteration.approved_patches.add(_patch(iteration, attempt))


def _decide_by_answer(iteration: Iteration, attempt: OpenAttempt) -> Decision:
    logs, decision, question = iteration.project.loaded.logs, attempt.decision, _question(iteration)
    assert decision and attempt.candidate and question and question.commit == attempt.candidate.commit
    answer = approval.read_approval(logs, question)
    if answer is None and _patch(iteration, attempt) in iteration.approved_patches:
        answer = "approve"
    if (answer or _ask_person(iteration, question)) == "approve":
        return decision
    said = approval.read_answer(logs, question).get("why", "")
    why = f"a person declined it: {f'{said}; ' if said else ''}{decision.verdict.why}"
    if not (decision.verdict or decision.verdict.reason in ELIGIBLE):
        return structs.replace(decision, verdict=structs.replace(decision.verdict, why=why)) if said else decision
    return _revert(iteration, attempt, Reason.DECLINED, why)


def _question(iteration: Iteration) -> approval.Question | None:
    project = iteration.project
    return approval.undecided_verdict(project.loaded.runs, iteration.begun, project.run_id)


def find_answer(iteration: Iteration, question: approval.Question) -> approval.Approval | None:
    """A person's answer or None. It stays known: the queue may still ask while LOG deletes the file of the answer."""
    answer = iteration.answers.get(question.decided)
    if answer := answer or approval.read_approval(iteration.project.loaded.logs, question):
        iteration.answers[question.decided] = answer
    return answer


def _ask_person(iteration: Iteration, question: approval.Question) -> approval.Approval:
    """Raises GoalseekError if nobody is there. With several iterations the others go on, and the queue asks."""
    project, lanes, commands = iteration.project, iteration.lanes, approval.commands_for(question)
    answer: approval.Approval | None = None
    if not lanes.pool.is_serial:
        lanes.release()
        project.watch.on_note(f"waits for your approval: {commands}")
        project.show("running", iteration.number, Phase.APPROVE)
        project.watch.on_question(question)
        lanes.question = question
        while (answer := find_answer(iteration, question)) is None:
            project.pause()
        lanes.question = None
        return answer

    def poll_answer() -> approval.Approval | None:
        project.activity.beat()
        return find_answer(iteration, question)

    if project.watch.is_attended():
        project.show("waiting", iteration.number, Phase.APPROVE, next=commands)
        project.watch.on_question(question)
        answer = project.watch.ask(question, poll_answer)
        project.show("running", iteration.number, Phase.APPROVE)
    if answer is None:
        raise approval.approval_error(question)
    return answer


def _patch(iteration: Iteration, attempt: OpenAttempt) -> bytes:
    """The change without line numbers and blob ids; git's patch-id would ignore white space."""
    assert attempt.candidate
    patch = iteration.project.repository.objects.patch(iteration.incumbent.tree, attempt.candidate.tree)
    return b"\n".join(line for line in patch.splitlines() if not line.startswith((b"@@ ", b"index ")))
