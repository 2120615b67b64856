"""PLAN: the provider's plan before it edits anything, a try that somebody made, or a stack of stored changes.

git alone makes a stack, of rejected near misses of the tip, takes a try over, and moves a change of an earlier tip. The
choice of a stack is a pure function of the records, so a killed iteration chooses the same one again.
"""

from itertools import takewhile
from pathlib import Path

from msgspec import structs

from goalseek.doctor.checks import writable_files
from goalseek.errors import Rejected
from goalseek.git.merge import Conflicts, merge_trees
from goalseek.git.objects import Entry
from goalseek.git.paths import quote_path
from goalseek.humanize import clean_title
from goalseek.ledger.artifacts import clear_attempts
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.loop.attempts import OpenAttempt
from goalseek.loop.iteration import Iteration
from goalseek.phase_values import Plan
from goalseek.project.tries import request_of
from goalseek.proposal.call import ask, build_call
from goalseek.proposal.prompt import Problem, Request
from goalseek.records import IterationRecord
from goalseek.statistics.stacking import Stack, is_stacking, next_stack
from goalseek.values import DRIVER, STACK, Outcome, Phase, Reason

MOST_MERGES = 5  # in one iteration


def make_plan(iteration: Iteration) -> Plan:
    """The try, a stack, or the provider's plan. An answer without a plan is asked for once more. Raises Rejected."""
    ready = plan_try(iteration) if iteration.trial else plan_stack(iteration)
    step = iteration.steps.do
    try:
        return step(Phase.PLAN, CheckpointName("plan"), Plan, _ask_for_plan, iteration, 1, ready=ready)
    except Rejected as rejected:
        if rejected.reason != Reason.NO_PLAN:
            raise
        problem = Problem(f"Your answer could not be used: {rejected.why}.", answer=rejected.output)
    return step(Phase.PLAN, CheckpointName("plan", 2), Plan, _ask_for_plan, iteration, 2, problem)


def _ask_for_plan(iteration: Iteration, number: int, problem: Problem | None = None, ready: Plan | None = None) -> Plan:
    """Writes ``provider_output.md`` and ``plan.md``. For a ``ready`` plan nobody is asked."""
    if number == 1:
        clear_attempts(iteration.folder)
    if ready:
        write_plan(iteration.folder / "plan.md", ready)
        return ready
    assert iteration.briefing
    iteration.lanes.acquire_slot()  # READ_CONTEXT has done so, unless it was before a kill
    call = build_call(iteration.briefing, Request("plan", number, problem=problem))
    reply, failure = ask(lambda: iteration.provider.plan(call), iteration.steps.usage_log)
    with (iteration.folder / "provider_output.md").open("a", encoding="utf-8", errors="replace") as file:
        file.write(reply.output)
    call.host.record(reply, failure, b"")
    if failure:
        raise failure
    answer = (reply.title, reply.text, reply.files, reply.usage, reply.provider, reply.model, reply.later, reply.script)
    plan = Plan(*answer)
    write_plan(iteration.folder / "plan.md", plan)
    return plan


def write_plan(path: Path, plan: Plan) -> None:
    title = plan.title or "(named by the change)"
    files = "".join(f"- {quote_path(file)}\n" for file in plan.files)
    text = f"# {title}\n\n{plan.text}\n" + (f"\nFiles:\n{files}" if files else "")
    path.write_text(text, encoding="utf-8", errors="replace")


def plan_stack(iteration: Iteration) -> Plan | None:
    """The next stack; None if a proposal is due. Sets that give no new tree go to ``iteration.not_stacked``."""
    project, manifest, standing = iteration.project, iteration.config.manifest, iteration.standing
    objects, tip = project.repository.objects, iteration.incumbent.tree
    is_beside_another = any(one.stacked for one in iteration.context.ahead)
    if is_beside_another or not is_stacking(manifest.search, manifest.metric, standing.noise):
        return None
    records = _records_of_tip(iteration)
    for _ in range(MOST_MERGES):
        stack = next_stack(records, manifest.metric.direction, standing.noise, iteration.not_stacked)
        if not stack:
            return None
        members, tree = merge_stack(iteration, stack)
        if tree not in ("", tip) and not project.ledger.history.measured_in(standing.ruler, tree):
            paths = tuple(objects.changed_paths(tip, tree))
            *others, last = [str(record.iteration) for record in members]
            titles = "; ".join(record.hypothesis_summary for record in members)
            title = clean_title(f"{', '.join(others)} and {last} together: {titles}")
            text = "Each was rejected by itself, as one of the nearest misses so far.\n"
            lines = [f"* {record.iteration}, {record.hypothesis_summary}: {record.why}" for record in members]
            return Plan(title, "\n".join([text, *lines]), paths, provider=STACK, stacked=stack)
        iteration.not_stacked = (*iteration.not_stacked, stack)
    return None


def plan_try(iteration: Iteration) -> Plan:
    repository = iteration.project.repository
    commit = repository.load_commit(iteration.trial)
    before = repository.tree_of(commit.parents[0])
    paths = tuple(repository.objects.changed_paths(before, commit.tree))
    title, text, session, _ = request_of(commit)
    return Plan(title, text, paths, provider=DRIVER, model=session, trial=commit.name)


def merge_try(iteration: Iteration, trial: str) -> str:
    """The tip's tree with the edits of the try. Raises Rejected if they conflict."""
    repository = iteration.project.repository
    commit = repository.load_commit(trial)
    return _merge(iteration, repository.tree_of(commit.parents[0]), commit.tree)


def merge_stack(iteration: Iteration, stack: Stack) -> tuple[list[IterationRecord], str]:
    """The iterations of the stack, oldest first, and the tip's tree with all their changes; "" if they conflict."""
    objects, tip = iteration.project.repository.objects, iteration.incumbent.tree
    members, tree = [record for record in _records_of_tip(iteration)[::-1] if record.iteration in stack], tip
    try:
        for record in members:
            tree = merge_trees(objects, tip, tree, str(record.tree_hash))
    except Conflicts:
        return members, ""
    return members, tree


def merge_onto_tip(iteration: Iteration, attempt: OpenAttempt) -> str:
    """The change on the present tip: rendered from its plan, or merged by git. Raises Rejected if it conflicts."""
    assert attempt.moving
    candidate, before = attempt.moving
    if not attempt.plan.is_asked:
        return _merge(iteration, before.tree, candidate.tree)
    repository, prefix, tip = iteration.project.repository, iteration.project.places.prefix, iteration.incumbent.tree
    objects, entries = repository.objects, repository.objects.files(tip)
    files = writable_files(repository, iteration.config.scope, entries)
    named = (structs.replace(file, path=file.path.removeprefix(prefix)) for file in files)
    rendered = iteration.provider.render(attempt.plan, named)
    if rendered is not None:  # the values of ``tune``, for example, are written into the files of the tip
        contents = {prefix + name: content for name, content in rendered.items()}
        edits = {path: Entry(entries[path].mode, objects.write_bytes(content)) for path, content in contents.items()}
        return objects.splice(tip, edits)
    return _merge(iteration, before.tree, candidate.tree)


def _merge(iteration: Iteration, before: str, after: str) -> str:
    try:
        return merge_trees(iteration.project.repository.objects, before, iteration.incumbent.tree, after)
    except Conflicts as conflicts:
        why = f"it conflicts with a change kept meanwhile: {', '.join(conflicts.files)}"
        raise Rejected(Outcome.SKIPPED, Reason.CONFLICT, why) from None


def _records_of_tip(iteration: Iteration) -> list[IterationRecord]:
    """Records of tries on its incumbent before it began, newest first."""
    standing, incumbent = iteration.standing, iteration.incumbent
    since = takewhile(lambda record: record.iteration != incumbent.iteration, iteration.project.ledger.recent)
    return [record for record in since if record.base_commit_hash == incumbent.commit and record.seq <= standing.seq]
