"""The preset of opencode. Its model is written PROVIDER/MODEL, and an endpoint is that provider's."""

import json
from collections.abc import Mapping
from typing import Any

from goalseek.providers.credentials import Credential, api_keys
from goalseek.providers.preset import Answer, Part, Preset, Printed, Trouble, count, inner, kind_of, number, text_of
from goalseek.values import Usage


def read(printed: Printed) -> Answer:
    """Lines of JSON: text in parts, usage and cost by step, and an error with its HTTP status."""
    texts: list[str] = []
    usage, session = Usage(), ""
    failed: dict[str, Any] | None = None
    for row in printed.rows():
        session = str(row.get("sessionID") or session)
        kind, part = row.get("type"), row.get("part")
        if kind == "text":
            texts.append(str(inner(part, "text") or ""))
        elif kind == "step_finish":
            tokens = inner(part, "tokens")
            fresh = count(tokens, "input") + count(tokens, "cache", "write")
            output = count(tokens, "output") + count(tokens, "reasoning")
            usage = usage.plus(Usage(fresh, count(tokens, "cache", "read"), output, number(part, "cost")))
        elif kind == "error":
            failed = row
    if failed is not None:
        return Answer("", usage, session, "", _trouble(failed.get("error")))
    if not session or printed.exit_code:
        why = f"it ended with {printed.exit_code} and no error"
        return Answer("", usage, session, trouble=Trouble("undeclared", why))
    return Answer("\n".join(texts), usage, session)


def _trouble(error: Any) -> Trouble:
    status = inner(error, "data", "statusCode")
    why = text_of(error, "data", "message") or text_of(error, "name") or "an error"
    if inner(error, "name") == "ProviderAuthError":
        return Trouble("auth", why)
    if inner(error, "name") == "UnknownError":  # without a login, for one
        return Trouble("undeclared", why)
    if not isinstance(status, int):
        return Trouble("transient" if inner(error, "data", "isRetryable") else "crashed", why)
    later = inner(error, "data", "responseHeaders", "retry-after")
    return Trouble(kind_of(status), why, float(later) if isinstance(later, str) and later.isdigit() else None)


def with_endpoint(endpoint: str, model: str) -> Mapping[str, str]:
    provider, _, _ = model.partition("/")
    settings = {"provider": {provider or "openai": {"options": {"baseURL": f"{endpoint}/v1"}}}}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(settings)}


PRESET = Preset(
    name="opencode",
    program="opencode",
    install="npm install -g opencode-ai",
    tried="1.18.33",
    parts=(
        Part(("run", "--format", "json", "--pure")),
        Part(("--print-logs", "--log-level", "ERROR")),  # else it says nothing of a wait
        Part(("--title", "goalseek"), ("fresh",)),
        Part(("-m", "{model}"), ("model",)),
        Part(("--session", "{session}"), ("session",)),
        Part(("--agent", "plan"), ("plan",)),
        Part(("--agent", "build"), ("apply",)),
        Part(("--auto",), ("confined",)),  # without it, a look outside of the folder ends the session
    ),
    read=read,
    credentials=(
        *api_keys("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
        Credential(
            "~/.local/share/opencode/auth.json",
            "subscription",
            is_key=lambda logins: any(inner(one, "type") == "api" for one in logins.values()),
        ),
    ),
    variables=(
        ("OPENCODE_DISABLE_AUTOUPDATE", "1", ()),
        ("OPENCODE_DISABLE_PROJECT_CONFIG", "1", ()),
        ("OPENCODE_DISABLE_CLAUDE_CODE", "1", ()),
        ("OPENCODE_DISABLE_EXTERNAL_SKILLS", "1", ()),
        ("OPENCODE_PERMISSION", '{"webfetch": "deny", "websearch": "deny"}', ("no_search",)),
    ),
    with_endpoint=with_endpoint,
    waits='message="stream error"',
    kept_bytes=2**26,  # usage is printed step by step, between the output of its tools
)
