"""A program that stands in for Claude Code where a test needs hundreds of calls: it starts in a tenth of a second.

It takes Claude Code's command line, speaks Anthropic's Messages, has the tools Bash and Write, and prints the JSON that
Claude Code prints, as far as anybody reads that. It never tries again by itself. Without ``--output-format`` it answers
as a program of one's own does.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

DOLLARS = {"input_tokens": 3e-6, "cache_read_input_tokens": 3e-7, "cache_creation_input_tokens": 3.75e-6}
DOLLARS["output_tokens"] = 15e-6
TOOLS = ("Bash", "Write")


def value(name: str, otherwise: str = "") -> str:
    """What follows an option on the command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv[:-1] else otherwise


def ask(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """One request. Raises urllib.error.URLError, OSError or ValueError where there is no whole answer."""
    body = {"model": value("--model", "stand-in"), "max_tokens": 1000, "messages": messages, "tools": tools}
    headers = {"content-type": "application/json", "x-api-key": os.environ.get("ANTHROPIC_API_KEY", "")}
    address = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        told: dict[str, Any] = json.loads(answer.read())
        return told


def done_with(tool: str, given: dict[str, str]) -> str:
    """What a tool says after its use."""
    if tool == "Write":
        Path(given["file_path"]).write_text(given["content"])
        return "written"
    done = subprocess.run(["sh", "-c", given["command"]], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def turn(messages: list[dict[str, Any]], tools: list[dict[str, Any]], usage: dict[str, int]) -> str:
    """Asks, and does what the answers say, until there is a text. Adds to messages and usage."""
    while True:
        told = ask(messages, tools)
        for name in usage:
            usage[name] += told["usage"][name]
        (block,) = told["content"]
        messages.append({"role": "assistant", "content": [block]})
        if block["type"] == "text":
            return str(block["text"])
        result = {
            "type": "tool_result",
            "tool_use_id": block["id"],
            "content": done_with(block["name"], block["input"]),
        }
        messages.append({"role": "user", "content": [result]})


def as_any_program(usage: dict[str, int], cost: float, text: str, failed: bool) -> int:
    """Answers in plain text, with the usage in the file that goalseek names."""
    told = {
        "input_tokens": usage["input_tokens"] + usage["cache_creation_input_tokens"],
        "cached_tokens": usage["cache_read_input_tokens"],
        "output_tokens": usage["output_tokens"],
        "cost_usd": cost,
    }
    Path(os.environ["GOALSEEK_USAGE"]).write_text(json.dumps(told))
    print(text, file=sys.stderr if failed else sys.stdout)
    return int(failed)


def main() -> int:
    """The exit code."""
    if "--version" in sys.argv:
        print("2.1.329 (Claude Code)")
        return 0
    session = value("--resume") or value("--session-id") or str(uuid.uuid4())
    folder = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects" / "stand-in"
    stored = folder / f"{session}.json"
    if "--resume" in sys.argv and not stored.exists():
        print(f"No conversation found with session ID: {session}", file=sys.stderr)
        return 1
    nothing = {"messages": [], "usage": dict.fromkeys(DOLLARS, 0)}
    earlier = json.loads(stored.read_text()) if stored.exists() else nothing
    messages = [*earlier["messages"], {"role": "user", "content": sys.stdin.read()}]
    allowed = value("--tools", ",".join(TOOLS)).split(",")
    tools = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in TOOLS if name in allowed]
    usage = dict.fromkeys(DOLLARS, 0)
    status, error = None, ""
    try:
        text = turn(messages, tools, usage)
    except urllib.error.HTTPError as refused:
        reset = refused.headers["anthropic-ratelimit-unified-reset"]
        if reset:
            limit = {"status": "rejected", "resetsAt": int(reset)}
            print(json.dumps({"type": "rate_limit_event", "rate_limit_info": limit, "session_id": session}))
        status, error = refused.code, f"API Error: {refused.code} {refused.read().decode()}"
    except (OSError, ValueError) as broken:
        error = f"API Error: {broken}"
    whole = {name: earlier["usage"][name] + usage[name] for name in DOLLARS}  # of the session, as the real one tells it
    cost = sum(whole[name] * price for name, price in DOLLARS.items())
    if "--no-session-persistence" not in sys.argv:
        folder.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps({"messages": messages, "usage": whole}))
    if "--output-format" not in sys.argv:
        return as_any_program(usage, cost, error or text, bool(error))
    told = {
        "type": "result",
        "subtype": "success",
        "is_error": bool(error),
        "api_error_status": status,
        "result": error or text,
        "session_id": session,
        "num_turns": len(messages) // 2,
        "total_cost_usd": cost,
        "usage": usage,
        "modelUsage": {
            "stand-in": {
                "inputTokens": whole["input_tokens"],
                "cacheCreationInputTokens": whole["cache_creation_input_tokens"],
                "cacheReadInputTokens": whole["cache_read_input_tokens"],
                "outputTokens": whole["output_tokens"],
            }
        },
    }
    print(json.dumps(told))
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
