"""The preset of mini-swe-agent, ``mini``. Without a terminal it always runs its model's commands without asking."""

import re

from msgspec import structs

from goalseek.providers import preset
from goalseek.providers.credentials import api_keys
from goalseek.providers.preset import LITELLM_VARIABLES, Answer, Part, Preset, Printed, Trouble
from goalseek.values import Usage

_TRAJECTORY = "trajectory.json"
_ENDED_WELL = ("Submitted", "LimitsExceeded")
_KINDS = preset.kinds_by_name(
    {
        "auth": "AuthenticationError PermissionDeniedError",
        "rate_limited": "RateLimitError",
        "transient": "APIConnectionError InternalServerError ServiceUnavailableError Timeout",
    }
)
_STATUS = re.compile(r"^(?:openai\.\w+: Error code: |[\w.]*HTTPStatusError: \w+ error ')(\d{3})\b", re.MULTILINE)


def read(printed: Printed) -> Answer:
    """The trajectory file has submission, cost, tokens of each answer, and exit status."""
    trajectory = preset.json_or_none(printed.read(_TRAJECTORY))
    info = preset.inner(trajectory, "info")
    if not isinstance(info, dict):
        why = f"it ended with {printed.exit_code} and left no trajectory that can be read"
        return Answer(trouble=Trouble("undeclared", why))
    usage, texts = Usage(), []
    messages = preset.inner(trajectory, "messages") or []
    for message in messages:
        tokens = preset.inner(message, "extra", "response", "usage")
        paths = (("prompt_tokens",), ("prompt_tokens_details", "cached_tokens"), ("completion_tokens",))
        usage = usage.plus(preset.usage_of(*(preset.count(tokens, *path) for path in paths)))
        if preset.inner(message, "role") == "assistant" and isinstance(preset.inner(message, "content"), str):
            texts.append(message["content"])
    usage = structs.replace(usage, cost_usd=preset.number(info, "model_stats", "instance_cost"))
    status = str(info.get("exit_status") or "")
    if status in _ENDED_WELL:
        return Answer("\n".join([*texts, str(info.get("submission") or "")]), usage)
    if not status:
        return Answer("", usage, trouble=Trouble("undeclared", f"it ended with {printed.exit_code} before it was done"))
    # The exit status is an exception's name. litellm gives some HTTP statuses other names, by the server's text.
    codes = _STATUS.findall(str(preset.inner(messages[-1], "extra", "traceback"))) if messages else []
    why = f"it ended by {status} ({codes[0]})" if codes else f"it ended by {status}"
    return Answer("", usage, trouble=Trouble(preset.kind_of(int(codes[0]) if codes else None, status, _KINDS), why))


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
        *LITELLM_VARIABLES,
        ("MSWEA_CONFIGURED", "true", ()),
        ("MSWEA_COST_TRACKING", "ignore_errors", ()),
        ("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1", ()),
    ),
)
