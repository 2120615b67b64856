"""What agents declare of a failure, and what they used, from recorded output and session files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goalseek.providers.preset import Answer, Printed, Trouble
from goalseek.providers.registry import load_maker
from goalseek.values import Usage

TOKENS = ("input_tokens", "cached_tokens", "output_tokens")


def read(name: str, stdout: str = "", stored: str = "", exit_code: int = 1, stderr: str = "") -> Answer:
    """What the preset reads where its HOME has this text as the session's file."""
    return load_maker(name).read(Printed(exit_code, stdout, stderr, lambda pattern: stored))  # type: ignore[union-attr]


def test_a_killed_claude_used_what_its_session_stored_of_the_answers_it_printed(shared_datadir: Path) -> None:
    stdout = (shared_datadir / "claude_killed_stdout.jsonl").read_text()
    stored = (shared_datadir / "claude_killed_session.jsonl").read_text()
    seen: list[str] = []
    preset = load_maker("claude")
    answer = preset.read(Printed(-9, stdout, "", lambda pattern: seen.append(pattern) or stored))  # type: ignore
    assert (answer.usage, answer.whole_session) == (Usage(300, 120, 60), ()), "not the one token of a stream's start"
    assert seen == [f".claude/projects/*/{answer.session}.jsonl"] and answer.trouble
    assert read("claude", stdout).usage == Usage(300, 120, 3)
    assert (read("claude", "", stored).usage, read("claude", "", stored).whole_session) == (Usage(300, 120, 60), TOKENS)
    twice = read("claude", stdout + stdout)
    assert twice.usage == Usage(300, 120, 3), "an answer is printed once for each of its parts"


def test_a_killed_codex_used_the_last_total_of_its_rollout(shared_datadir: Path) -> None:
    stored = (shared_datadir / "codex_killed_rollout.jsonl").read_text()
    started = json.dumps({"type": "thread.started", "thread_id": "t-1"})
    for stdout in ("", started):
        answer = read("codex", stdout, stored)
        assert (answer.usage, answer.whole_session) == (Usage(13000, 5200, 2600), TOKENS)
    assert read("codex", "", stored[: stored.rindex('{"timestamp')]).usage == Usage(12900, 5160, 2580)
    assert answer.trouble == Trouble("undeclared", "it completed no turn") and answer.session == "t-1"
    assert (read("codex").usage, read("codex").whole_session) == (Usage(), ())


def test_a_killed_gemini_used_what_its_chat_has_since_this_call_began(shared_datadir: Path) -> None:
    stored = (shared_datadir / "gemini_chat.jsonl").read_text()
    answer = read("gemini", "", stored)
    assert (answer.usage, answer.whole_session) == (Usage(400, 160, 80), ()), "four of eight answers are of this call"
    in_another_minute = "".join(line for line in stored.splitlines(True) if "15:26:27.000Z" not in line)
    assert read("gemini", "", in_another_minute).usage == answer.usage, "the resumed call has no startTime of its own"
    assert answer.trouble and answer.trouble.kind == "undeclared"


def test_a_plans_usage_limit_is_a_limit_with_the_reset_of_the_window_that_is_used_up(shared_datadir: Path) -> None:
    stored = (shared_datadir / "codex_limit_rollout.jsonl").read_text()
    failed = json.dumps({"type": "turn.failed", "error": {"message": "You've hit your usage limit."}})
    assert read("codex", failed, stored).trouble == Trouble(
        "rate_limited", "You've hit your usage limit.", 1795368612.0
    )
    refused = failed.replace("You've hit your usage limit.", "exceeded retry limit, last status: 429 Too Many Requests")
    assert read("codex", refused, stored).trouble.reset == 1795368612.0  # type: ignore[union-attr]
    assert read("codex", failed, stored.replace("100.0", "99.0")).trouble.reset is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("usage_limit_exceeded", "rate_limited"),
        ("server_overloaded", "transient"),
        ("unauthorized", "auth"),
        ("context_window_exceeded", "crashed"),
        ("other", "undeclared"),
        (None, "undeclared"),
        ({"http_connection_failed": {"http_status_code": 403}}, "auth"),
        ({"http_connection_failed": {"http_status_code": None}}, "transient"),
        ({"response_too_many_failed_attempts": {"http_status_code": 429}}, "rate_limited"),
        ({}, "undeclared"),
    ],
)
def test_what_codex_declares_of_an_error(declared: object, kind: str) -> None:
    event = {"type": "task_complete", "error": {"message": "no", "codex_error_info": declared}}
    stored = json.dumps({"type": "event_msg", "payload": event})
    failed = json.dumps({"type": "turn.failed", "error": {"message": "no"}})
    assert read("codex", failed, stored).trouble == read("codex", "", stored).trouble == Trouble(kind, "no")  # type: ignore[arg-type]


def test_the_body_of_a_bad_request_is_no_limit_and_no_outage() -> None:
    failed = json.dumps({"type": "turn.failed", "error": {"message": '{"error": {"message": "no such model"}}'}})
    answer = read("codex", failed)
    assert answer.trouble and answer.trouble.kind == "crashed"


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("authentication_failed", "auth"),
        ("billing_error", "auth"),
        ("rate_limit", "rate_limited"),
        ("overloaded", "transient"),
        ("model_not_found", "crashed"),
        ("unknown", "undeclared"),
        (None, "undeclared"),
    ],
)
def test_what_claude_declares_of_an_error(declared: str | None, kind: str, shared_datadir: Path) -> None:
    recorded = (shared_datadir / "claude_no_login_stdout.jsonl").read_text()
    stdout = recorded.replace('"authentication_failed"', json.dumps(declared))
    assert read("claude", stdout).trouble == Trouble(kind, "Not logged in · Please run /login")  # type: ignore[arg-type]
    cut = stdout.partition("\n")[0]
    assert read("claude", cut).trouble == Trouble(kind, "it printed no result")  # type: ignore[arg-type]
    refused = read("claude", stdout.replace('"api_error_status": null', '"api_error_status": 400')).trouble
    assert refused and refused.kind == (kind if kind in ("auth", "rate_limited", "transient") else "crashed")


@pytest.mark.parametrize(
    ("exit_code", "code", "kind"),
    [
        (1, 1, "undeclared"),
        (1, None, "undeclared"),
        (0, None, "undeclared"),
        (41, None, "auth"),
        (145, 401, "auth"),
        (173, None, "rate_limited"),
        (1, 503, "transient"),
        (42, None, "crashed"),
        (1, 404, "crashed"),
    ],
)
def test_what_gemini_declares_of_an_error(exit_code: int, code: int | None, kind: str) -> None:
    stderr = json.dumps({"session_id": "s-1", "error": {"message": "no", "code": code}}) if code else ""
    trouble = read("gemini", "", "", exit_code, stderr).trouble
    assert trouble == Trouble(kind, "no" if code else f"it ended with {exit_code}")  # type: ignore[arg-type]


def test_gemini_tells_when_its_limit_is_lifted() -> None:
    error = {"type": "Error", "message": "RESOURCE_EXHAUSTED\nSuggested retry after 7200s.", "code": 429}
    stderr = json.dumps({"session_id": "s-1", "error": error})
    why = "RESOURCE_EXHAUSTED Suggested retry after 7200s."
    assert read("gemini", "", "", 173, stderr).trouble == Trouble("rate_limited", why, 7200.0)


def test_a_key_that_geminis_own_api_does_not_accept_is_refused_though_its_status_is_400() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    body = {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": [info]}
    for details, kind in (([{}, info], "auth"), ([{}], "crashed"), (None, "crashed")):
        error = {"message": json.dumps({"error": {**body, "details": details}}), "code": 400}
        trouble = read("gemini", "", "", 144, json.dumps({"session_id": "s-1", "error": error}, indent=2)).trouble
        assert trouble == Trouble(kind, "API key not valid.")  # type: ignore[arg-type]


def test_what_a_killed_aider_mini_and_opencode_used_is_in_what_they_left() -> None:
    tokens = {"prompt_tokens": 70, "completion_tokens": 10}
    events = [{"event": "message_send_starting"}, {"event": "message_send", "properties": {**tokens, "cost": 0.5}}]
    answer = {"role": "assistant", "content": "", "extra": {"response": {"usage": tokens}}}
    trajectory = {"info": {"exit_status": "", "model_stats": {"instance_cost": 0.5}}, "messages": [answer]}
    step = {"type": "step_finish", "sessionID": "s", "part": {"tokens": {"input": 70, "output": 10}, "cost": 0.5}}
    files = {"events.jsonl": "\n".join(map(json.dumps, events)), "trajectory.json": json.dumps(trajectory)}
    for name in ("aider", "mini-swe-agent", "opencode"):
        printed = Printed(137, json.dumps(step) if name == "opencode" else "", "", lambda path: files.get(path, ""))
        answered = load_maker(name).read(printed)  # type: ignore[union-attr]
        assert answered.usage == Usage(70, 0, 10, 0.5), name
        assert answered.trouble and answered.trouble.kind == "undeclared"


def test_of_the_answers_of_one_aider_call_the_last_with_a_block_counts() -> None:
    events = json.dumps({"event": "message_send", "properties": {"prompt_tokens": 1, "completion_tokens": 1}})
    plans = [f"ASSISTANT <<<GOALSEEK PLAN N\nASSISTANT {title}\nASSISTANT \n" for title in ("first", "second")]
    answers = "".join(f"TO LLM 1\nUSER x\nASSISTANT no\nLLM RESPONSE 1\n{text}" for text in (*plans, "ASSISTANT ok\n"))
    files = {"events.jsonl": events, "answers.txt": answers}
    answered = load_maker("aider").read(Printed(0, "Aider v0.86.2\n", "", lambda path: files.get(path, "")))  # type: ignore[union-attr]
    assert answered.text == "<<<GOALSEEK PLAN N\nsecond\n\n"


@pytest.mark.parametrize(
    ("event", "said", "kind"),
    [
        ("message_send", "Model openai/m has hit a token limit!", "crashed"),
        ("message_send", "Empty response received from LLM. Check your provider account?", "crashed"),
        ("message_send_starting", "litellm.NotFoundError: models/nope is not found", "undeclared"),
    ],
)
def test_aider_without_an_answer_is_quoted_and_what_it_guesses_of_its_tokens_is_not_charged(
    event: str, said: str, kind: str
) -> None:
    events = json.dumps({"event": event, "properties": {"prompt_tokens": 594, "completion_tokens": 0, "cost": 0.1}})
    chat = f"\n> Aider v0.86.2  \n\n#### improve it  \n#### > now  \n> Tokens: 594 sent, 0 received.  \n>  \n> {said}  \n> b  \n"
    files = {"events.jsonl": events, "answers.txt": "LLM RESPONSE 2026\n", "chat.md": chat}
    stdout = "Analytics have been permanently disabled.\n"
    answered = load_maker("aider").read(Printed(0, stdout, "", lambda path: files.get(path, "")))  # type: ignore[union-attr]
    assert (answered.trouble, answered.usage) == (Trouble(kind, said), Usage())  # type: ignore[arg-type]


def test_opencode_that_does_not_know_its_own_error_declares_nothing() -> None:
    error = {"name": "UnknownError", "data": {"message": "Unexpected server error. Check server logs for details."}}
    answered = read("opencode", json.dumps({"type": "error", "sessionID": "s", "error": error}))
    assert answered.trouble == Trouble("undeclared", error["data"]["message"])  # type: ignore[index]


@pytest.mark.parametrize(
    ("status", "cause", "kind"),
    [
        ("BadRequestError", "openai.AuthenticationError: Error code: 401 - {'error': 'no'}", "auth"),
        ("APIError", "a.b.MaskedHTTPStatusError: Client error '403 Forbidden' for url 'http://x'", "auth"),
        ("InternalServerError", "openai.RateLimitError: Error code: 429 - {}", "rate_limited"),
        ("BadRequestError", "openai.BadRequestError: Error code: 400 - {'error': '401'}", "crashed"),
        ("BadRequestError", "it said: openai.AuthenticationError: Error code: 401", "crashed"),
        ("InternalServerError", "openai.OpenAIError: Missing credentials", "transient"),
    ],
)
def test_the_http_status_in_minis_traceback_counts_more_than_litellms_name_for_it(
    status: str, cause: str, kind: str
) -> None:
    ended = {"role": "exit", "extra": {"traceback": f"Traceback\n  File x\n{cause}\n\nlitellm.{status}: 500\n"}}
    stored = json.dumps({"info": {"exit_status": status}, "messages": [ended]})
    trouble = read("mini-swe-agent", stored=stored).trouble
    assert trouble and trouble.kind == kind, trouble
