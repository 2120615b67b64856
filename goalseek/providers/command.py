"""The provider ``command``: any program. The prompt is on standard input; the files it changes are the candidate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Plan
from goalseek.providers.answer import clean_title, find_block, parse_plan, parse_review, read_usage, require_plan
from goalseek.providers.coding_agent import find_program
from goalseek.providers.credentials import Login, find_login, sources_of
from goalseek.providers.provider import Call, Failed, LaunchSpec, Provider, Reply, WritableFile, started
from goalseek.values import Phase, StopReason


@dataclass(frozen=True)
class CommandProvider:
    """Runs ``command`` in the workspace: once to apply; before that once to plan, where ``ask_plan`` says so."""

    command: tuple[str, ...]
    ask_plan: bool
    model: str
    folder: Path
    timeout: float | None = None
    credentials: tuple[str, ...] | None = None
    billing: str = "auto"
    name: str = "command"
    needs_consent: bool = True
    needs_sandbox: bool = False

    def login(self) -> Login:
        """The credentials that the manifest names and that are there."""
        return find_login(sources_of(self.credentials or (), ()), self.billing)

    def is_subscription(self) -> bool:
        """Whether the manifest says so."""
        return self.billing == "subscription"

    def check(self) -> None:
        """Raises GoalseekError where the program cannot be found."""
        if self._program() is None:
            message = f"provider: there is no program {self.command[0]!r}"
            raise GoalseekError(message, "give its path, or put it on PATH", StopReason.PROVIDER)

    def look_over(self, files: Iterable[WritableFile]) -> str:
        """Any file will do."""
        return ""

    def plan(self, call: Call) -> Reply:
        """Asks for a plan; without ``ask_plan``, an empty one: the plan comes with the change."""
        if not self.ask_plan:
            return Reply("", "The provider plans while it edits.")
        return require_plan(self.ask(call), call.nonce)

    def apply(self, call: Call, plan: Plan) -> Reply:
        """Lets the program edit."""
        reply = self.ask(call)
        if reply.title:
            return reply
        lines = [line for line in reply.output.splitlines() if line.strip()]
        return Reply(clean_title(lines[0]) if lines else "", reply.text, reply.files, reply.output, reply.usage)

    def review(self, call: Call) -> Reply:
        """Asks for a verdict on the change in the tree."""
        reply = self.ask(call)
        verdict, reasons = parse_review(reply.output, call.nonce)
        return replace(reply, title=verdict, text="\n".join(reasons), files=())

    def ask(self, call: Call) -> Reply:
        """One call. Raises Failed where no answer came."""
        program = self._program()
        if program is None:
            raise Failed("crashed", f"there is no program {self.command[0]!r}")
        arguments = (program, *self.command[1:])
        result = started(call, LaunchSpec(arguments, login=self.login(), timeout=self.timeout))
        output = result.stdout.decode("utf-8", "replace")
        errors = result.stderr.decode("utf-8", "replace")
        usage = read_usage(call.usage_file)
        if result.timed_out:
            why = f"the provider ran past its limit ({result.seconds:.0f}s)"
            raise Failed("timeout", why, output + errors, usage)
        if result.exit_code:
            printed = (errors or output).strip()
            last = f": {printed.splitlines()[-1][:200]}" if printed else ""
            why = f"the provider ended with {result.exit_code}{last}"
            raise Failed("crashed", why, output + errors, usage)
        lines = find_block(output, Phase.PLAN, call.nonce)
        title, text, files = parse_plan(lines) if lines is not None else ("", "", ())
        return Reply(title, text, files, output, usage)

    def _program(self) -> str | None:
        """The program's path: as named from the manifest's folder, or on PATH."""
        return find_program(self.command[0], self.folder)


def make(table: ProviderTable, folder: Path) -> Provider:
    """The provider for a manifest. Raises GoalseekError where it names no command."""
    if not table.command:
        raise GoalseekError('the provider "command" needs provider.command', 'command = ["my-agent", "--edit"]')
    return CommandProvider(
        table.command, table.ask_plan, table.model, folder, table.timeout, table.credentials, table.billing
    )
