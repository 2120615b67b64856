"""The preset of Claude Code, ``claude``."""

from __future__ import annotations

from typing import Any

from goalseek.providers.credentials import Source, api_keys
from goalseek.providers.outcome import RATE_LIMITED, kind_of_status
from goalseek.providers.preset import Answer, Part, Preset, Printed, Trouble, count, dollars, inner, text_of
from goalseek.values import Usage

_READING = "Read,Glob,Grep"
_EDITING = "Edit,Write,Read,Glob,Grep"
_LIMITS = ("error_max_turns", "error_max_budget_usd")
_NOT_BEGUN = "error_during_execution"


def read(printed: Printed) -> Answer:
    """The answer from the last ``result`` line; the time of a limit's reset from the lines before it."""
    result, reset = {}, None
    session = ""
    for row in printed.rows():
        session = row.get("session_id") or session
        if row.get("type") == "result":
            result = row
        elif row.get("type") == "rate_limit_event" and inner(row, "rate_limit_info", "status") == "rejected":
            reset = dollars(inner(row, "rate_limit_info", "resetsAt")) or reset
        elif row.get("subtype") == "api_retry" and row.get("error_status") == RATE_LIMITED and reset is None:
            reset = (dollars(row.get("retry_delay_ms")) or 0.0) / 1000 or None
    by_model = result.get("modelUsage")
    models: dict[str, Any] = by_model if isinstance(by_model, dict) else {}
    model = max(models, key=lambda name: count(inner(models, name, "outputTokens"))) if models else ""
    usage, whole_session = _usage(result, models)
    text = result.get("result") if isinstance(result.get("result"), str) else ""
    answer = Answer(str(text), usage, session, model, whole_session=whole_session)
    if not result:
        return Answer(trouble=Trouble("crashed", "it printed no result"))
    if not result.get("is_error") or result.get("subtype") in _LIMITS:
        return answer
    status = result.get("api_error_status")
    kind = kind_of_status(status) if isinstance(status, int) else "transient" if status is None else "crashed"
    trouble = Trouble(kind, text_of(text) or f"status {status}", reset if kind == "rate_limited" else None)
    if result.get("subtype") == _NOT_BEGUN and not whole_session:
        session = ""  # it repeats the name that it was given, of a session that it did not find
    return Answer("", usage, session, model, trouble, whole_session=whole_session)


def _usage(result: dict[str, Any], models: dict[str, Any]) -> tuple[Usage, tuple[str, ...]]:
    """The usage of all models, and the fields of it that are totals of the session.

    Claude's own field ``usage`` counts the main conversation and this call only.
    """
    cost = dollars(result.get("total_cost_usd"))
    usage = Usage(cost_usd=cost)
    for row in models.values():
        fresh = count(inner(row, "inputTokens")) + count(inner(row, "cacheCreationInputTokens"))
        usage = usage.plus(Usage(fresh, count(inner(row, "cacheReadInputTokens")), count(inner(row, "outputTokens"))))
    if usage.tokens:
        return usage, ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
    row = result.get("usage")
    usage = Usage(
        count(inner(row, "input_tokens")) + count(inner(row, "cache_creation_input_tokens")),
        count(inner(row, "cache_read_input_tokens")),
        count(inner(row, "output_tokens")),
        cost,
    )
    return usage, ("cost_usd",) if cost else ()


PRESET = Preset(
    name="claude",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    tried="2.1.329",
    parts=(
        Part(("-p", "--output-format", "stream-json", "--verbose")),
        Part(("--bare",), ("key",)),
        Part(("--model", "{model}"), ("model",)),
        Part(("--resume", "{session}"), ("session",)),
        Part(("--tools", _READING), ("plan",)),
        Part(("--tools", f"Bash,{_EDITING}", "--dangerously-skip-permissions"), ("apply", "confined")),
        Part(("--tools", _EDITING, "--permission-mode", "acceptEdits"), ("apply", "unconfined")),
    ),
    read=read,
    credentials=(
        *api_keys("ANTHROPIC_API_KEY"),
        Source("CLAUDE_CODE_OAUTH_TOKEN", "subscription"),
        Source("~/.claude/.credentials.json", "subscription", "CLAUDE_CONFIG_DIR"),
    ),
    variables=(
        ("CLAUDE_CODE_MAX_RETRIES", "2", ()),
        ("DISABLE_AUTOUPDATER", "1", ()),
        ("IS_SANDBOX", "1", ("confined",)),
        ("ANTHROPIC_BASE_URL", "{endpoint}", ("endpoint",)),
    ),
    address="https://api.anthropic.com",
)
