"""PLAN: what the provider means to change, asked for before it edits anything, or a stack: nobody is asked for that."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from goalseek.errors import Rejected
from goalseek.git.paths import quote_path
from goalseek.ledger.artifacts import PROMPTS, clear_attempts
from goalseek.loop.iteration import Iteration, checkpointed
from goalseek.loop.phases.merge import plan_stack
from goalseek.phase_values import Plan
from goalseek.proposal.call import ask, build_call
from goalseek.proposal.prompt import Problem, Request
from goalseek.values import Phase, Reason


class _Asking(NamedTuple):
    """The ``number``-th time that a plan is asked for, with what was wrong with the answer before.

    ``stack`` is a plan for which no provider is asked.
    """

    number: int
    problem: Problem | None = None
    stack: Plan | None = None


def make_plan(iteration: Iteration) -> Plan:
    """The plan. After an answer without a plan the provider is asked once more, with the problem. Raises Rejected.

    Where rejected changes are due to be tried together, that is the plan.
    """
    try:
        return _ask_for_plan(iteration, _Asking(1, stack=plan_stack(iteration)))
    except Rejected as rejected:
        if rejected.reason != Reason.NO_PLAN:
            raise
        problem = Problem(f"Your answer could not be used: {rejected.why}.", answer=rejected.output)
    return _ask_for_plan(iteration, _Asking(2, problem))


@checkpointed(Phase.PLAN, "plan", Plan, count="number")
def _ask_for_plan(iteration: Iteration, asking: _Asking) -> Plan:
    """Asks for a plan; writes ``provider_output.md`` and ``plan.md``. Raises Rejected."""
    if asking.number == 1:
        clear_attempts(iteration.folder)
    if asking.stack:
        write_plan(iteration.folder / "plan.md", asking.stack)
        return asking.stack
    assert iteration.briefing
    iteration.seat.take_slot()  # READ_CONTEXT has done so, unless it was before a kill
    call = build_call(iteration.briefing, Request("plan", asking.number, problem=asking.problem))
    reply, failure = ask(lambda: iteration.provider.plan(call), iteration.steps.usage_log)
    with (iteration.folder / "provider_output.md").open("a", encoding="utf-8", errors="replace") as file:
        file.write(reply.output)
    call.host.record(reply, failure, b"")
    if failure:
        raise failure
    answer = (reply.title, reply.text, reply.files, reply.usage, reply.provider, reply.model, reply.later, reply.script)
    plan = Plan(*answer)
    write_plan(iteration.folder / "plan.md", plan)
    if not (plan.title or reply.output):  # the provider plans while it edits, and was not asked
        (iteration.folder / PROMPTS / f"{call.name}.md").unlink(missing_ok=True)
    return plan


def write_plan(path: Path, plan: Plan) -> None:
    """Writes the plan for people."""
    title = plan.title or "(named by the change)"
    files = "".join(f"- {quote_path(file)}\n" for file in plan.files)
    text = f"# {title}\n\n{plan.text}\n" + (f"\nFiles:\n{files}" if files else "")
    path.write_text(text, encoding="utf-8", errors="replace")
