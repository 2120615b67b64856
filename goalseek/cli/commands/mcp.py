"""``goalseek mcp``: a server on standard input and output, whose tools are goalseek's own commands.

Each call runs the command line once for its JSON and once for its lines: the server has no state.
"""

import functools
import json
from typing import Any

from goalseek import process
from goalseek._version import __version__
from goalseek.cli.options import Options, Parser
from goalseek.errors import PENDING, GoalseekError
from goalseek.values import StopReason

_MOST_SECONDS = 45  # clients end a call after a minute
_SHOWN = ("wait", "--wait=0")
_INSTRUCTIONS = (
    "goalseek climbs one number in this repository. Read brief, edit the writable files for one idea, call try, read "
    "why, go on. A try that takes longer than its wait is measured on: call wait. Never look for hidden files."
)


def arguments(parser: Parser) -> None:
    parser.epilog = "Claude Code: claude mcp add goalseek -- goalseek mcp. Needs the extra goalseek[mcp]."


def run(options: Options) -> None:
    try:
        from mcp.server import MCPServer
        from mcp.types import CallToolResult, TextContent, ToolAnnotations
    except ImportError:
        message = "goalseek mcp needs the package mcp, of the extra goalseek[mcp]"
        raise GoalseekError(message, "pip install 'goalseek[mcp]'", StopReason.PROVIDER) from None
    manifest = options.load_manifest()
    server = MCPServer("goalseek", version=__version__, instructions=_INSTRUCTIONS)
    # Without these hints some clients take each tool for one that a person must allow.
    hints = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    reading = functools.partial(server.tool, annotations=hints)
    writing = functools.partial(server.tool, annotations=hints.model_copy(update={"read_only_hint": False}))

    def call(*words: str) -> tuple[int, str, str]:
        command = process.own_command(["-m", str(manifest.path), *words])
        done = process.run(command, process.environment_without("GOALSEEK_"), folder=manifest.folder)
        return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")

    def answer(*words: str, then: tuple[str, ...] | None = None) -> CallToolResult:
        """The JSON of a command, and the lines of the same one, or of ``then``; for () the JSON again."""
        code, printed, said = call("--json", *words)
        if code not in (0, PENDING):
            return CallToolResult(content=[TextContent(type="text", text=said)], is_error=True)
        values: list[Any] = [_without_cases(json.loads(line)) for line in printed.splitlines()]
        value = values[0] if len(values) == 1 and words[0] != "log" else {"records": values}
        number = [str(value["iteration"])] if then and value.get("iteration") is not None else []
        lines = printed if then == () else call(*(then or words), *number)[1]
        text = "\n".join(filter(None, (said.strip(), lines.strip())))
        shown = {"lines": text, **value}  # some clients show their model the JSON alone
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=shown)

    @reading(description="What is to be improved, how it is measured, what may be edited, what was tried")
    def brief() -> CallToolResult:
        return answer("brief")

    @writing("try", description="Measure the edits of the writable files, and keep them if they are a gain")
    def try_edits(
        summary: str = "",
        why: str = "",
        wait_seconds: int = _MOST_SECONDS,
        restore: bool = False,
        from_iteration: int | None = None,
    ) -> CallToolResult:
        """``restore``, or ``from_iteration``, writes files instead, and measures nothing."""
        if restore or from_iteration is not None:
            which = "--restore" if from_iteration is None else f"--from={from_iteration}"
            return answer("try", which, then=())
        return answer("try", f"--why={why}", _wait(wait_seconds), "--", summary, then=_SHOWN)

    @reading(description="The result of a try that goes on")
    def wait(iteration: int | None = None, wait_seconds: int = _MOST_SECONDS) -> CallToolResult:
        which = [] if iteration is None else [str(iteration)]
        return answer("wait", _wait(wait_seconds), *which, then=_SHOWN)

    @reading(description="The best and the last result, the cost and the next step")
    def status() -> CallToolResult:
        return answer("status")

    @reading(description="The last iterations, one line each")
    def log(last: int = 20) -> CallToolResult:
        return answer("log", f"--last={last}")

    @reading(description="One iteration in full: its number, best, baseline or last")
    def show(iteration: str = "last", diff: bool = False) -> CallToolResult:
        return answer("show", *(["--diff"] if diff else []), "--", iteration)

    @writing(description="Tell the agent of the climb what to try, from the next iteration on")
    def direct(text: str) -> CallToolResult:
        return answer("direct", "--", text, then=())

    @writing(description="Ask a running climb to stop after its current iteration")
    def stop() -> CallToolResult:
        return answer("stop", then=())

    @server.resource("goalseek://records/{iteration}", mime_type="application/json", description="A record")
    def record(iteration: str) -> str:
        code, printed, said = call("--json", "show", "--", iteration)
        if code:
            raise ValueError(said)
        return json.dumps(_without_cases(json.loads(printed)))

    server.run("stdio")


def _wait(seconds: int) -> str:
    return f"--wait={min(max(seconds, 0), _MOST_SECONDS)}"


def _without_cases(answer: dict[str, Any]) -> dict[str, Any]:
    """An agent is told counts: ids and scores of the cases may be those of a hidden verifier."""
    runs = [{name: part for name, part in run.items() if name != "cases"} for run in answer.get("runs", ())]
    others = {name: part for name, part in answer.items() if name != "case_ids"}
    return {**others, "runs": runs} if runs else others
