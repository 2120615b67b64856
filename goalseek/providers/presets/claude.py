"""The preset of Claude Code, ``claude``."""

import json
from pathlib import Path
from typing import Any

from msgspec import structs

from goalseek.disk import read_object
from goalseek.providers import preset
from goalseek.providers.credentials import Credential, api_keys
from goalseek.providers.preset import TOKENS, Answer, Part, Preset, Printed, Trouble
from goalseek.values import Usage

_READING = "Read,Glob,Grep"
_EDITING = "Edit,Write,Read,Glob,Grep"
_SKIP = "--dangerously-skip-permissions"
_OF_ANSWER = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_OF_MODEL = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens")
_KINDS = preset.kinds_by_name(
    {
        "auth": """authentication_failed oauth_org_not_allowed account_on_hold verification_required
            cloud_credential_error billing_error""",
        "rate_limited": "rate_limit",
        "transient": "overloaded server_error",
        "undeclared": "unknown",
    }
)


def read(printed: Printed) -> Answer:
    """The answer from the last ``result`` line; a limit's reset and an error's kind from the lines before it."""
    result: dict[str, Any] = {}
    reset, declared, session = None, "", ""
    answers: dict[str, Usage] = {}
    for row in printed.rows():
        session = row.get("session_id") or session
        if row.get("type") == "result":
            result = row
        elif row.get("type") == "assistant":
            declared = preset.text_of(row, "error")
            answers.update(_answer_usage(row))
        elif row.get("type") == "rate_limit_event" and preset.inner(row, "rate_limit_info", "status") == "rejected":
            reset = preset.number(row, "rate_limit_info", "resetsAt") or reset
        elif row.get("subtype") == "api_retry" and preset.kind_of(row.get("error_status")) == "rate_limited":
            reset = reset or (preset.number(row, "retry_delay_ms") or 0.0) / 1000 or None
    if not result:
        stored: dict[str, Usage] = {}
        for row in printed.rows(f".claude/projects/*/{session or '*'}.jsonl"):
            if row.get("type") == "assistant":
                stored.update(_answer_usage(row))
        # The session's file has an answer's final usage, the printed line an early one.
        used = {name: stored.get(name, usage) for name, usage in answers.items()} or stored
        trouble = Trouble(preset.kind_of(None, declared, _KINDS), "it printed no result")
        whole = TOKENS if stored and not answers else ()
        return Answer("", Usage.total(used.values()), session, trouble=trouble, whole_session=whole)
    by_model = result.get("modelUsage")
    models: dict[str, Any] = by_model if isinstance(by_model, dict) else {}
    model = max(models, key=lambda name: preset.count(models, name, "outputTokens")) if models else ""
    cost = preset.number(result, "total_cost_usd")
    usage = Usage.total(_usage(row, _OF_MODEL) for row in models.values())
    whole_session: tuple[str, ...] = (*TOKENS, "cost_usd")
    if not usage.tokens:  # then the only counts are those of the main conversation in this call
        usage, whole_session = _usage(result.get("usage")), ("cost_usd",) if cost else ()
    usage = structs.replace(usage, cost_usd=cost)
    text = result["result"] if isinstance(result.get("result"), str) else ""
    if not result.get("is_error") or result.get("subtype") in ("error_max_turns", "error_max_budget_usd"):
        return Answer(text, usage, session, model, whole_session=whole_session)
    status = result.get("api_error_status")
    kind = preset.kind_of(None, declared, _KINDS)
    if kind in ("crashed", "undeclared"):  # the declared error goes before the status, which is 400 without credit
        kind = preset.kind_of(status, declared, _KINDS)
    trouble = Trouble(kind, preset.text_of(text) or f"status {status}", reset if kind == "rate_limited" else None)
    if result.get("subtype") == "error_during_execution" and not whole_session:
        session = ""  # it repeats the name that it was given, of a session that it did not find
    return Answer("", usage, session, model, trouble, whole_session=whole_session)


def _answer_usage(row: dict[str, Any]) -> dict[str, Usage]:
    usage = _usage(preset.inner(row, "message", "usage"))
    return {str(preset.inner(row, "message", "id")): usage} if usage.tokens else {}


def _usage(row: Any, names: tuple[str, ...] = _OF_ANSWER) -> Usage:
    fresh, stored, cached, output = (preset.count(row, name) for name in names)
    return Usage(fresh + stored, cached, output)


def first_start(folder: str, has_key: bool) -> dict[str, str]:
    """The theme and what else its first start would ask for, as in the user's own HOME; the folder is trusted."""
    own = read_object(Path.home() / ".claude.json")
    kept = {key: own[key] for key in ("theme", "customApiKeyResponses", "oauthAccount") if key in own}
    trusted = {folder: {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
    return {".claude.json": json.dumps({"theme": "dark", **kept, "hasCompletedOnboarding": True, "projects": trusted})}


PRESET = Preset(
    name="claude",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    tried="2.1.329",
    parts=(
        Part(("-p", "--output-format", "stream-json", "--verbose")),
        Part(("--safe-mode", "--setting-sources", "user")),  # nothing that a project's files say
        Part(("--model", "{model}"), ("model",)),
        Part(("--resume", "{session}"), ("session",)),
        Part(("--max-budget-usd", "{budget}"), ("budget",)),
        Part(("--tools", _READING), ("reviewer",)),
        Part(("--tools", _READING), ("author", "plan", "unconfined")),
        Part(("--tools", f"Bash,{_READING}", _SKIP), ("author", "plan", "confined")),
        Part(("--tools", f"Bash,{_EDITING}", _SKIP), ("apply", "confined")),
        Part(("--tools", _EDITING, "--permission-mode", "acceptEdits"), ("apply", "unconfined")),
        Part(("--tools", "WebSearch,WebFetch"), ("search",)),
    ),
    read=read,
    credentials=(
        *api_keys("ANTHROPIC_API_KEY"),
        Credential("CLAUDE_CODE_OAUTH_TOKEN", "subscription"),
        Credential("~/.claude/.credentials.json", "subscription", "CLAUDE_CONFIG_DIR"),
    ),
    variables=(
        ("CLAUDE_CODE_MAX_RETRIES", "2", ()),  # at once, or after a minute at most: a longer wait it leaves to us
        ("CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS", "1", ()),  # these tell a reviewer titles and names of files
        ("DISABLE_AUTOUPDATER", "1", ()),
        ("IS_SANDBOX", "1", ("confined",)),
        ("ANTHROPIC_BASE_URL", "{endpoint}", ("endpoint",)),
    ),
    address="https://api.anthropic.com",
    kept_bytes=2**26,  # its last line may be of megabytes
    first_start=first_start,
)
