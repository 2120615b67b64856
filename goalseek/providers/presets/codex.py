"""The preset of Codex, ``codex``."""

from __future__ import annotations

import re

from goalseek.providers.credentials import Source, api_keys
from goalseek.providers.outcome import kind_of_status
from goalseek.providers.preset import Answer, Part, Preset, Printed, Trouble, count, inner, text_of
from goalseek.values import Usage

_STATUS = re.compile(r"(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b")
_ENDPOINT = (
    'model_providers.goalseek={name="goalseek",base_url="{endpoint}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}'
)


def read(printed: Printed) -> Answer:
    """Lines of JSON: the last message is the answer. A failed turn says so; its message begins with the status."""
    text, session = "", ""
    usage = Usage()
    whole_session: tuple[str, ...] = ()
    failed: str | None = None
    is_complete = False
    for row in printed.rows():
        kind = row.get("type")
        if kind == "thread.started":
            session = str(row.get("thread_id") or "")
        elif kind == "item.completed" and inner(row, "item", "type") == "agent_message":
            text = str(inner(row, "item", "text") or "")
        elif kind == "turn.completed":
            is_complete = True
            whole, cached = (count(inner(row, "usage", name)) for name in ("input_tokens", "cached_input_tokens"))
            usage = Usage(max(whole - cached, 0), cached, count(inner(row, "usage", "output_tokens")))
            whole_session = ("input_tokens", "cached_tokens", "output_tokens")
        elif kind == "turn.failed":
            failed = text_of(inner(row, "error", "message"))
    if failed is not None:
        match = _STATUS.match(failed)
        trouble = Trouble(kind_of_status(int(match[1])) if match else "transient", failed)
        return Answer("", usage, session, "", trouble, whole_session=whole_session)
    if not is_complete:
        return Answer(trouble=Trouble("crashed", "it completed no turn"))
    return Answer(text, usage, session, whole_session=whole_session)


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
        Part(("-c", "model_provider=goalseek", "-c", _ENDPOINT), ("endpoint",)),
        Part(("--dangerously-bypass-approvals-and-sandbox",), ("confined",)),
        Part(("-c", 'sandbox_mode="read-only"'), ("plan", "unconfined")),
        Part(("-c", 'sandbox_mode="workspace-write"'), ("apply", "unconfined")),
        Part(("{session}",), ("session",)),
        Part(("-",)),
    ),
    read=read,
    credentials=(
        *api_keys("CODEX_API_KEY", "OPENAI_API_KEY"),
        Source("~/.codex/auth.json", "subscription", "CODEX_HOME", lambda login: bool(login.get("OPENAI_API_KEY"))),
    ),
    address="https://api.openai.com",
)
