"""PLAN: what the provider means to change, asked for before it edits anything."""

from __future__ import annotations

from pathlib import Path

from goalseek.errors import Rejected
from goalseek.git.paths import quote_path
from goalseek.phase_values import Plan
from goalseek.providers.provider import Call, Provider, Reply


def make_plan(provider: Provider, call: Call, run_folder: Path) -> Plan:
    """Asks for a plan; writes ``provider_output.md`` and ``plan.md``. Raises Rejected."""
    failure: Rejected | None = None
    try:
        reply = provider.plan(call)
    except Rejected as rejected:
        failure = rejected
        reply = Reply("", output=rejected.output, usage=rejected.usage)
    with (run_folder / "provider_output.md").open("a", encoding="utf-8", errors="replace") as file:
        file.write(reply.output)
    call.keep(reply, failure, b"")
    if failure:
        raise failure
    plan = Plan(reply.title, reply.text, reply.files, reply.usage, reply.provider, reply.model)
    write_plan(run_folder / "plan.md", plan)
    return plan


def write_plan(path: Path, plan: Plan) -> None:
    """Writes the plan for people."""
    title = plan.title or "(named by the change)"
    files = "".join(f"- {quote_path(file)}\n" for file in plan.files)
    text = f"# {title}\n\n{plan.text}\n" + (f"\nFiles:\n{files}" if files else "")
    path.write_text(text, encoding="utf-8", errors="replace")
