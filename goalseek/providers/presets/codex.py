"""The preset of Codex, ``codex``."""

import json
import re
from typing import Any

from goalseek.providers import preset
from goalseek.providers.credentials import Credential, api_keys
from goalseek.providers.preset import TOKENS, Answer, Part, Preset, Printed, Trouble

_STATUS = re.compile(r"(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b")
_KINDS = preset.kinds_by_name(
    {
        "rate_limited": "usage_limit_exceeded",
        "transient": """server_overloaded internal_server_error http_connection_failed response_stream_connection_failed
            response_stream_disconnected response_too_many_failed_attempts""",
        "auth": "unauthorized",
        "undeclared": "other",
    }
)
_USED_UP = 100.0  # percent
# Of its own provider the retries cannot be set. Those of requests wait as long as the server says, in silence; those of
# streams print that they do, and leave the limit of a subscription to us.
_PROVIDER = (
    'model_providers.goalseek={name="goalseek",base_url="https://api.openai.com/v1",wire_api="responses",'
    "request_max_retries=0,stream_max_retries=4}"
)


def read(printed: Printed) -> Answer:
    """The last message in lines of JSON is the answer; the session's file in its HOME has what they lack."""
    text, session = "", ""
    total: Any = None
    failed: str | None = None
    is_complete = False
    for row in printed.rows():
        kind = row.get("type")
        if kind == "thread.started":
            session = str(row.get("thread_id") or "")
        elif kind == "item.completed" and preset.inner(row, "item", "type") == "agent_message":
            text = str(preset.inner(row, "item", "text") or "")
        elif kind == "turn.completed":
            is_complete, total = True, row.get("usage")
        elif kind == "turn.failed":
            failed = preset.text_of(row, "error", "message")
    trouble = None
    if failed is not None or not is_complete:
        total = error = reset = None
        for row in printed.rows(f".codex/sessions/**/rollout-*{session}.jsonl"):
            event = row.get("payload")
            kind = preset.inner(event, "type")
            if kind == "token_count":
                total = preset.inner(event, "info", "total_token_usage") or total
                windows = [preset.inner(event, "rate_limits", name) for name in ("primary", "secondary")]
                spent = [window for window in windows if (preset.number(window, "used_percent") or 0) >= _USED_UP]
                reset = max((preset.number(window, "resets_at") or 0 for window in spent), default=0) or None
            elif row.get("type") == "token_usage_record":
                total = preset.inner(event, "thread_token_usage") or total
            elif kind == "task_complete":
                error = preset.inner(event, "error")  # the last turn's
        trouble = _trouble(failed, error, reset)
    names = ("input_tokens", "cached_input_tokens", "output_tokens")
    usage = preset.usage_of(*(preset.count(total, name) for name in names))
    whole_session = () if total is None else TOKENS
    return Answer("" if trouble else text, usage, session, trouble=trouble, whole_session=whole_session)


def _trouble(failed: str | None, error: Any, reset: float | None) -> Trouble:
    why = failed or preset.text_of(error, "message") or "it completed no turn"
    declared = preset.inner(error, "codex_error_info")
    name, details = next(iter(declared.items()), ("", None)) if isinstance(declared, dict) else (declared, None)
    match = _STATUS.match(why)
    status = int(match[1]) if match else preset.inner(details, "http_status_code")
    if not isinstance(status, int) and isinstance(preset.json_or_none(why), dict):
        status = 400  # whose answer has no other text than its body
    kind = preset.kind_of(status, str(name or ""), _KINDS)
    return Trouble(kind, why, reset if kind == "rate_limited" else None)


def first_start(folder: str, has_key: bool) -> dict[str, str]:
    trusted = f'[projects.{json.dumps(folder)}]\ntrust_level = "trusted"\n'
    return {".codex/config.toml": f"check_for_update_on_startup = false\n{trusted}"}


PRESET = Preset(
    name="codex",
    program="codex",
    install="npm install -g @openai/codex",
    tried="0.169.0",
    parts=(
        Part(("exec",)),
        Part(("resume",), ("session",)),
        Part(("--json", "--skip-git-repo-check")),
        Part(("-m", "{model}"), ("model",)),
        Part(("-c", "skills.include_instructions=false", "-c", _PROVIDER)),
        Part(("-c", "features.unbounded_connection_retries=false")),  # or it waits for its endpoint by itself
        Part(("-c", 'web_search="disabled"'), ("no_search",)),
        Part(("-c", "model_provider=goalseek", "-c", 'model_providers.goalseek.env_key="{key}"'), ("key",)),
        Part(("-c", "model_provider=goalseek"), ("endpoint",)),
        Part(("-c", 'model_providers.goalseek.base_url="{endpoint}/v1"'), ("endpoint",)),
        Part(("--dangerously-bypass-approvals-and-sandbox",), ("confined",)),
        Part(("-c", 'sandbox_mode="read-only"'), ("plan", "unconfined")),
        Part(("-c", 'sandbox_mode="workspace-write"'), ("apply", "unconfined")),
        Part(("{session}",), ("session",)),
        Part(("-",)),
    ),
    read=read,
    credentials=(
        *api_keys("CODEX_API_KEY", "OPENAI_API_KEY"),
        Credential("~/.codex/auth.json", "subscription", "CODEX_HOME", lambda login: bool(login.get("OPENAI_API_KEY"))),
    ),
    address="https://api.openai.com",
    waits=r'"message":"Reconnecting\.\.\. ',
    interactive=(
        Part(("-m", "{model}"), ("model",)),
        Part(("-c", _PROVIDER, "-c", "model_provider=goalseek"), ("endpoint",)),
        Part(("-c", 'model_providers.goalseek.base_url="{endpoint}/v1"'), ("endpoint",)),
        Part(("-c", 'model_providers.goalseek.env_key="{key}"'), ("endpoint", "key")),
        Part(("--dangerously-bypass-approvals-and-sandbox",)),  # its own sandbox does not start in this one
    ),
    first_start=first_start,
)
