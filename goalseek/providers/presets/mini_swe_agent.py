"""The preset of mini-swe-agent, ``mini``. Without a terminal it always runs its model's commands without asking."""

from __future__ import annotations

import re
from typing import Any

from msgspec import structs

from goalseek.providers.credentials import api_keys
from goalseek.providers.fallback import kind_of_status
from goalseek.providers.preset import Answer, Kind, Part, Preset, Printed, Trouble, count, dollars, inner, json_or_none
from goalseek.values import Usage

_TRAJECTORY = "trajectory.json"
_ENDED_WELL = ("Submitted", "LimitsExceeded")
_KINDS: dict[str, Kind] = {
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
    "RateLimitError": "rate_limited",
    "APIConnectionError": "transient",
    "InternalServerError": "transient",
    "ServiceUnavailableError": "transient",
    "Timeout": "transient",
}
_STATUS = re.compile(r"^(?:openai\.\w+: Error code: |[\w.]*HTTPStatusError: \w+ error ')(\d{3})\b", re.MULTILINE)


def read(printed: Printed) -> Answer:
    """The trajectory file has submission, cost, tokens of each answer, and exit status."""
    trajectory = json_or_none(printed.read(_TRAJECTORY))
    info = inner(trajectory, "info")
    if not isinstance(info, dict):
        why = f"it ended with {printed.exit_code} and left no trajectory that can be read"
        return Answer(trouble=Trouble("undeclared", why))
    usage, texts = Usage(), []
    messages = inner(trajectory, "messages") or []
    for message in messages:
        tokens = inner(message, "extra", "response", "usage")
        cached = count(tokens, "prompt_tokens_details", "cached_tokens")
        fresh = max(count(tokens, "prompt_tokens") - cached, 0)
        usage = usage.plus(Usage(fresh, cached, count(tokens, "completion_tokens")))
        if inner(message, "role") == "assistant" and isinstance(inner(message, "content"), str):
            texts.append(message["content"])
    usage = structs.replace(usage, cost_usd=dollars(info, "model_stats", "instance_cost"))
    status = str(info.get("exit_status") or "")
    if status in _ENDED_WELL:
        return Answer("\n".join([*texts, str(info.get("submission") or "")]), usage)
    if not status:
        return Answer("", usage, trouble=Trouble("undeclared", f"it ended with {printed.exit_code} before it was done"))
    return Answer("", usage, trouble=_trouble(status, messages))


def _trouble(status: str, messages: Any) -> Trouble:
    """The exit status is an exception's name; HTTP statuses are in its traceback."""
    # litellm gives some statuses other names, by the server's text.
    codes = _STATUS.findall(str(inner(messages[-1], "extra", "traceback"))) if messages else []
    if codes:
        return Trouble(kind_of_status(int(codes[0])), f"it ended by {status} ({codes[0]})")
    return Trouble(_KINDS.get(status, "crashed"), f"it ended by {status}")


PRESET = Preset(
    name="mini-swe-agent",
    program="mini",
    install="pipx install mini-swe-agent, with mcp: pipx inject mini-swe-agent mcp",
    tried="2.4.6",
    prompt="argument",
    needs_sandbox=True,
    version=("--help",),
    parts=(
        Part(("-y", "--exit-immediately"), ("confined",)),
        Part(("-m", "{model}"), ("model",)),
        Part(("-o", f"{{home}}/{_TRAJECTORY}", "-l", "{budget}", "-t", "{prompt}")),
    ),
    home_files=((_TRAJECTORY, "", ()),),  # empty, so that the one of the call before is not read
    read=read,
    credentials=api_keys("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    variables=(
        ("MSWEA_CONFIGURED", "true", ()),
        ("MSWEA_COST_TRACKING", "ignore_errors", ()),
        ("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1", ()),
        ("PYTHON_DOTENV_DISABLED", "1", ()),
        ("OPENAI_API_BASE", "{endpoint}/v1", ("endpoint",)),
        ("ANTHROPIC_BASE_URL", "{endpoint}", ("endpoint",)),
    ),
)
