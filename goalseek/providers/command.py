"""The provider ``command``: any program. Its prompt is on standard input; its edits are the candidate."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from msgspec import structs

from goalseek.disk import full_disk_error
from goalseek.errors import GoalseekError
from goalseek.humanize import clean_title
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Plan
from goalseek.providers import answer
from goalseek.providers.credentials import Billing, Credential, Login, find_login
from goalseek.providers.fallback import Failed
from goalseek.providers.preset import Kind
from goalseek.providers.provider import Call, LaunchSpec, Provider, Reply, Reviewer
from goalseek.sandbox.supervisor import ProgramResult
from goalseek.values import StopReason

PAST_LIMIT = "the provider ran past its limit ({:.0f}s)"
_KINDS_OF_EXIT_CODES: dict[int, Kind] = {os.EX_TEMPFAIL: "later", os.EX_NOPERM: "auth"}  # 75 and 77


class CommandProvider(Reviewer):
    """Runs a program in the workspace to apply, and before that to plan if ``ask_plan`` is set."""

    needs_consent = True
    sources: tuple[Credential, ...] = ()  # of its credentials, unless the manifest names them

    def __init__(self, table: ProviderTable, folder: Path) -> None:
        self.table, self.folder = table, folder
        self.name, self.model, self.timeout, self.words = table.name, table.model, table.timeout, table.command or ()
        self._program = ""

    def __eq__(self, other: object) -> bool:  # its state stays if it is built again from the same table
        return isinstance(other, CommandProvider) and (self.table, self.folder) == (other.table, other.folder)

    def __hash__(self) -> int:
        return hash((self.table, self.folder))

    def login(self) -> Login:
        names, sources = self.table.credentials, self.sources
        if names is not None:
            known = {source.name: source for source in sources}
            kinds: dict[str, Billing] = {name: "subscription" if "/" in name else "api" for name in names}
            sources = tuple(known.get(name, Credential(name, kind)) for name, kind in kinds.items())
        return find_login(sources, self.table.billing)

    def is_subscription(self) -> bool:
        return self.table.billing == "subscription"

    def find_program(self) -> str | None:
        """Its path: from the manifest's folder, on PATH, or beside goalseek's own interpreter."""
        name = self.words[0]
        if "/" in name:
            path = (self.folder / Path(name).expanduser()).resolve()
            return str(path) if path.is_file() else None
        if not os.access(self._program, os.X_OK):  # it was not looked for yet, or has gone
            self._program = _find(name) or ""
        return self._program or None

    def check(self) -> None:
        program, name = self.find_program(), self.words[0]
        if program is None:
            message, remedy = f"there is no program {name!r}", "give its path, or put it on PATH"
        elif not os.access(program, os.X_OK):
            message, remedy = f"{name} is not executable", f"chmod +x {shlex.quote(name)}"
        elif unfit := _first_line_problem(Path(program), name):
            message, remedy = unfit
        else:
            return
        raise GoalseekError(f"provider: {message}", remedy, StopReason.PROVIDER)

    def plan(self, call: Call) -> Reply:
        if not self.table.ask_plan:
            return Reply("", "The provider plans while it edits.")
        return answer.require_plan(self.ask(call), call.nonce)

    def apply(self, call: Call, plan: Plan) -> Reply:
        """Let the program edit. Without a block and a plan, its first printed line is the title."""
        reply = self.ask(call)
        first = next((line for line in reply.output.splitlines() if line.strip()), "")
        return structs.replace(reply, title=reply.title or plan.title or clean_title(first))

    def review(self, call: Call) -> Reply:
        reply = self.ask(call)
        verdict, reasons = answer.parse_review(reply.output, call.nonce)
        return structs.replace(reply, title=verdict, text="\n".join(reasons), files=())

    def ask(self, call: Call) -> Reply:
        result, output, errors = self.run(call, LaunchSpec((), login=self.login()))
        usage = answer.read_usage(call.usage_file)
        if result.timed_out:
            raise Failed("timeout", PAST_LIMIT.format(result.seconds), output + errors, usage)
        if result.exit_code:
            lines = (errors or output).strip().splitlines()
            last = f": {lines[-1][:200]}" if lines else ""
            kind = _KINDS_OF_EXIT_CODES.get(result.exit_code, "crashed")
            raise Failed(kind, f"the provider ended with {result.exit_code}{last}", output + errors, usage)
        plan = answer.find_plan(output, call.nonce) or Reply("")
        return structs.replace(plan, output=output, usage=usage, tried=answer.find_tried(output))

    def run(self, call: Call, spec: LaunchSpec) -> tuple[ProgramResult, str, str]:
        """Result, output and errors of the program with these further arguments.

        Raises Failed if it cannot be started, and OSError if the disk is full.
        """
        program = self.find_program()
        if not program:
            raise Failed("crashed", f"there is no program {self.words[0]!r}")
        words = (program, *self.words[1:])
        spec = structs.replace(spec, arguments=(*words, *spec.arguments), named=words, timeout=self.timeout)
        try:
            result = call.host.start(call, structs.replace(spec, provider=self.name, model=self.model))
        except OSError as error:
            if full_disk_error(error):
                raise
            raise Failed("crashed", f"the provider cannot be started: {error}") from None
        return result, result.stdout.decode("utf-8", "replace"), result.stderr.decode("utf-8", "replace")


_HEAD_BYTES = 512


def _first_line_problem(program: Path, name: str) -> tuple[str, str] | None:
    if not os.access(program, os.R_OK):
        return None
    with program.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    first = head.partition(b"\n")[0]
    interpreter = "/bin/sh" if program.suffix == ".sh" else "/usr/bin/env python3"
    remedy = f"begin {name} with a line such as #!{interpreter}"
    if not first.startswith(b"#!"):
        if b"\0" in head:
            return None
        return f"the first line of {name} names no interpreter", remedy
    if first.endswith(b"\r"):
        return f"the first line of {name} ends with a carriage return", f"sed -i 's/\\r$//' {shlex.quote(name)}"
    words = os.fsdecode(first[2:]).split()
    missing = words[0] if words and words[0].startswith("/") and not os.path.exists(words[0]) else ""
    if len(words) == 2 and words[0].endswith("/env") and not missing and not words[1].startswith("-"):
        missing = "" if _find(words[1]) else words[1]
    return (f"the first line of {name} names {missing}, which is not there", remedy) if missing else None


def _find(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def make(table: ProviderTable, folder: Path) -> Provider:
    if not table.command:
        raise GoalseekError('the provider "command" needs provider.command', 'command = ["my-agent", "--edit"]')
    return CommandProvider(table, folder)
