"""What agents declare of a failure, and what they used, from recorded output and session files; and odd answers.

What an agent prints or leaves behind can be anything: it is read as well as it can be, and never stops the run.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from fake_agents import PROGRAMS, Fakes
from test_presets import Asked

from goalseek.errors import Rejected
from goalseek.humanize import format_duration
from goalseek.providers.answer import read_usage
from goalseek.providers.fallback import Failed
from goalseek.providers.preset import Answer, Printed, Trouble
from goalseek.providers.registry import load_maker
from goalseek.sandbox.home import AgentHome
from goalseek.values import Usage

TOKENS = ("input_tokens", "cached_tokens", "output_tokens")


def read(
    name: str, stdout: object = "", stored: str | Mapping[str, str] = "", exit_code: int = 1, stderr: str = ""
) -> Answer:
    """What the preset reads of this text, or these rows, where its HOME has these files, or any with this text."""
    rows = [stdout] if isinstance(stdout, str) else stdout if isinstance(stdout, list) else [stdout]
    text = "\n".join(row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    file = (lambda pattern: stored) if isinstance(stored, str) else (lambda pattern: stored.get(pattern, ""))
    return load_maker(name).read(Printed(exit_code, text, stderr, file))  # type: ignore[union-attr]


def kind(answer: Answer) -> str:
    return answer.trouble.kind if answer.trouble else ""


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
    for stdout in ("", {"type": "thread.started", "thread_id": "t-1"}):
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
    assert kind(answer) == "undeclared"


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
    ("declared", "wanted"),
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
def test_what_codex_declares_of_an_error(declared: object, wanted: str) -> None:
    event = {"type": "task_complete", "error": {"message": "no", "codex_error_info": declared}}
    stored = json.dumps({"type": "event_msg", "payload": event})
    failed = {"type": "turn.failed", "error": {"message": "no"}}
    assert read("codex", failed, stored).trouble == read("codex", "", stored).trouble == Trouble(wanted, "no")  # type: ignore[arg-type]


def test_the_body_of_a_bad_request_is_no_limit_and_no_outage() -> None:
    failed = {"type": "turn.failed", "error": {"message": '{"error": {"message": "no such model"}}'}}
    assert kind(read("codex", failed)) == "crashed"


@pytest.mark.parametrize(
    ("declared", "wanted"),
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
def test_what_claude_declares_of_an_error(declared: str | None, wanted: str, shared_datadir: Path) -> None:
    recorded = (shared_datadir / "claude_no_login_stdout.jsonl").read_text()
    stdout = recorded.replace('"authentication_failed"', json.dumps(declared))
    assert read("claude", stdout).trouble == Trouble(wanted, "Not logged in · Please run /login")  # type: ignore[arg-type]
    cut = stdout.partition("\n")[0]
    assert read("claude", cut).trouble == Trouble(wanted, "it printed no result")  # type: ignore[arg-type]
    refused = kind(read("claude", stdout.replace('"api_error_status": null', '"api_error_status": 400')))
    assert refused == (wanted if wanted in ("auth", "rate_limited", "transient") else "crashed")


@pytest.mark.parametrize(
    ("exit_code", "code", "wanted"),
    [
        (1, 1, "undeclared"),
        (1, None, "undeclared"),
        (0, None, "undeclared"),
        (41, None, "auth"),
        (145, 401, "auth"),
        (173, None, "rate_limited"),
        (173, 429, "rate_limited"),
        (1, 503, "transient"),
        (42, None, "crashed"),
        (1, 404, "crashed"),
    ],
)
def test_what_gemini_declares_of_an_error_and_when_its_limit_is_lifted(
    exit_code: int, code: int | None, wanted: str
) -> None:
    error = {"type": "Error", "message": "no\nSuggested retry after 7200s.", "code": code}
    stderr = json.dumps({"session_id": "s-1", "error": error}) if code else ""
    why, reset = ("no Suggested retry after 7200s.", 7200.0) if code else (f"it ended with {exit_code}", None)
    assert read("gemini", "", "", exit_code, stderr).trouble == Trouble(wanted, why, reset)  # type: ignore[arg-type]


def test_a_key_that_geminis_own_api_does_not_accept_is_refused_though_its_status_is_400() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    body = {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": [info]}
    for details, wanted in (([{}, info], "auth"), ([{}], "crashed"), (None, "crashed"), (7, "crashed")):
        error = {"message": json.dumps({"error": {**body, "details": details}}), "code": 400}
        trouble = read("gemini", "", "", 144, json.dumps({"session_id": "s-1", "error": error}, indent=2)).trouble
        assert trouble == Trouble(wanted, "API key not valid.")  # type: ignore[arg-type]


def test_what_a_killed_aider_mini_and_opencode_used_is_in_what_they_left() -> None:
    tokens = {"prompt_tokens": 70, "completion_tokens": 10}
    events = [{"event": "message_send_starting"}, {"event": "message_send", "properties": {**tokens, "cost": 0.5}}]
    answer = {"role": "assistant", "content": "", "extra": {"response": {"usage": tokens}}}
    trajectory = {"info": {"exit_status": "", "model_stats": {"instance_cost": 0.5}}, "messages": [answer]}
    step = {"type": "step_finish", "sessionID": "s", "part": {"tokens": {"input": 70, "output": 10}, "cost": 0.5}}
    files = {"events.jsonl": "\n".join(map(json.dumps, events)), "trajectory.json": json.dumps(trajectory)}
    for name in ("aider", "mini-swe-agent", "opencode"):
        killed = read(name, step if name == "opencode" else "", files, 137)
        assert (killed.usage, kind(killed)) == (Usage(70, 0, 10, 0.5), "undeclared"), name


def test_of_the_answers_of_one_aider_call_the_last_with_a_block_counts() -> None:
    events = json.dumps({"event": "message_send", "properties": {"prompt_tokens": 1, "completion_tokens": 1}})
    plans = [f"ASSISTANT <<<GOALSEEK PLAN N\nASSISTANT {title}\nASSISTANT \n" for title in ("first", "second")]
    answers = "".join(f"TO LLM 1\nUSER x\nASSISTANT no\nLLM RESPONSE 1\n{text}" for text in (*plans, "ASSISTANT ok\n"))
    files = {"events.jsonl": events, "answers.txt": answers}
    assert read("aider", "Aider v0.86.2\n", files, 0).text == "<<<GOALSEEK PLAN N\nsecond\n\n"


@pytest.mark.parametrize(
    ("event", "said", "wanted"),
    [
        ("message_send", "Model openai/m has hit a token limit!", "crashed"),
        ("message_send", "Empty response received from LLM. Check your provider account?", "crashed"),
        ("message_send_starting", "litellm.NotFoundError: models/nope is not found", "undeclared"),
    ],
)
def test_aider_without_an_answer_is_quoted_and_what_it_guesses_of_its_tokens_is_not_charged(
    event: str, said: str, wanted: str
) -> None:
    events = json.dumps({"event": event, "properties": {"prompt_tokens": 594, "completion_tokens": 0, "cost": 0.1}})
    chat = f"\n> Aider v0.86.2  \n\n#### improve it  \n#### > now  \n> Tokens: 594 sent, 0 received.  \n>  \n> {said}  \n> b  \n"
    files = {"events.jsonl": events, "answers.txt": "LLM RESPONSE 2026\n", "chat.md": chat}
    answered = read("aider", "Analytics have been permanently disabled.\n", files, 0)
    assert (answered.trouble, answered.usage) == (Trouble(wanted, said), Usage())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "data", "wanted", "reset"),
    [
        ("UnknownError", {}, "undeclared", None),  # of its own, without a login for one
        ("ProviderAuthError", {"statusCode": 500}, "auth", None),
        ("APIError", {"statusCode": 401}, "auth", None),
        ("APIError", {"statusCode": 429, "responseHeaders": {"retry-after": "5"}}, "rate_limited", 5.0),
        ("APIError", {"statusCode": 429, "responseHeaders": {"retry-after": "soon"}}, "rate_limited", None),
        ("APIError", {"statusCode": 503}, "transient", None),
        ("APIError", {"isRetryable": True}, "transient", None),
        ("APIError", {}, "crashed", None),
    ],
)
def test_what_opencode_declares_of_an_error(
    name: str, data: dict[str, object], wanted: str, reset: float | None
) -> None:
    error = {"name": name, "data": {"message": "no", **data}}
    answered = read("opencode", {"type": "error", "sessionID": "s", "error": error})
    assert answered.trouble == Trouble(wanted, "no", reset)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "cause", "wanted"),
    [
        ("BadRequestError", "openai.AuthenticationError: Error code: 401 - {'error': 'no'}", "auth"),
        ("APIError", "a.b.MaskedHTTPStatusError: Client error '403 Forbidden' for url 'http://x'", "auth"),
        ("InternalServerError", "openai.RateLimitError: Error code: 429 - {}", "rate_limited"),
        ("BadRequestError", "openai.BadRequestError: Error code: 400 - {'error': '401'}", "crashed"),
        ("BadRequestError", "it said: openai.AuthenticationError: Error code: 401", "crashed"),
        ("InternalServerError", "openai.OpenAIError: Missing credentials", "transient"),
        ("AuthenticationError", "", "auth"),
        ("RateLimitError", "", "rate_limited"),
        ("RepeatedFormatError", "", "crashed"),
    ],
)
def test_the_http_status_in_minis_traceback_counts_more_than_litellms_name_for_it(
    status: str, cause: str, wanted: str
) -> None:
    ended = {"role": "exit", "extra": {"traceback": f"Traceback\n  File x\n{cause}\n\nlitellm.{status}: 500\n"}}
    stored = json.dumps({"info": {"exit_status": status}, "messages": [ended]})
    assert kind(read("mini-swe-agent", stored=stored)) == wanted


UNDOCUMENTED = (
    *("", "{", "[]", '{"type": "result"}', '{"type":"result","is_error":true,"usage":7}', "\x00" * 99),
    *('{"type":"turn.completed","usage":[1]}', '{"stats": {"models": 3}}'),
    '{"type":"step_finish","part":9,"sessionID":[]}',
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_output_that_nobody_documented_is_read_as_no_answer_or_an_empty_one(name: str) -> None:
    for printed in UNDOCUMENTED:
        answer = read(name, printed, printed, 0, printed)
        assert answer.usage.tokens == 0 and (answer.trouble or not answer.text.strip("\x00")), printed


HUGE = 10**400


def test_an_answer_may_hold_any_character_that_ends_a_line_elsewhere() -> None:
    text = "first\u2028second\x85third\x1c\x0cfourth"
    assert read("claude", {"type": "result", "result": text, "session_id": "s"}).text == text
    item = {"type": "item.completed", "item": {"type": "agent_message", "text": text}}
    assert read("codex", [item, {"type": "turn.completed"}]).text == text
    assert read("opencode", {"type": "text", "sessionID": "s", "part": {"text": text}}, exit_code=0).text == text


def test_what_gemini_tells_is_found_between_warnings() -> None:
    tokens = {"prompt": 90, "cached": 20, "candidates": 10, "tool": 5}
    told = json.dumps({"response": "done", "stats": {"models": {"m": {"tokens": tokens}}}}, indent=1)
    for before in ("", "Loaded\n", "{ half\n", '{"level": "warn"}\n'):
        answer = read("gemini", f"{before}{told}\nbye\n", exit_code=0)
        assert (answer.text, answer.usage, answer.model) == ("done", Usage(75, 20, 10), "m"), before


@pytest.mark.parametrize("cost", [HUGE, -1, True, "1", float("nan"), float("inf"), 1e300])
def test_a_sum_that_nobody_pays_is_none(cost: object, tmp_path: Path) -> None:
    (tmp_path / "usage.json").write_text(json.dumps({"input_tokens": HUGE, "output_tokens": 7, "cost_usd": cost}))
    assert read_usage(tmp_path / "usage.json") == Usage(0, 0, 7)
    models = {"m": {"inputTokens": HUGE, "outputTokens": 7}}
    told = read("claude", {"type": "result", "result": "", "total_cost_usd": cost, "modelUsage": models})
    assert told.usage == Usage(0, 0, 7)
    part = {"tokens": {"input": HUGE, "output": 7}, "cost": cost}
    assert read("opencode", {"type": "step_finish", "sessionID": "s", "part": part}).usage == Usage(0, 0, 7)


def test_what_makes_a_reader_stumble_is_a_failure_of_the_agent(fake: Fakes, tmp_path: Path) -> None:
    fake("aider", always=f"say 'Tokens: 9 sent, {'9' * 400} cache hit'")
    with pytest.raises(Rejected, match="its answer cannot be read"):
        Asked(tmp_path, "aider").apply()


def test_a_reset_in_the_far_future_is_a_long_wait() -> None:
    reset = Failed("rate_limited", "no", reset=1e14).reset
    assert reset and 10**9 <= reset < 10**9 + 10 and format_duration(reset)


def test_a_report_that_is_none_is_no_usage_and_holds_nothing_up(tmp_path: Path) -> None:
    place = tmp_path / "usage.json"
    place.write_text('{"input_tokens": 7}')
    assert read_usage(place) == Usage(7)
    for report in ('{"input_tokens": ', "[" * 60_000, "7"):
        place.write_text(report)
        assert read_usage(place) == Usage()
    os.truncate(place, 2**40)
    assert read_usage(place) == Usage()
    for put in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir):
        place.unlink()
        put(place)
        assert read_usage(place) == Usage()


@pytest.mark.slow
def test_a_long_tool_output_hides_neither_usage_nor_answer(own: Path) -> None:
    home = AgentHome(own / "agent")
    home.make("1", {}, {})
    outputs = [{"extra": {"raw_output": "x" * 35_000_000, "returncode": 0}}] * 2
    message = {"role": "assistant", "content": "done", "extra": {"response": {"usage": {"prompt_tokens": 70}}}}
    trajectory = {"info": {"exit_status": "Submitted", "submission": "a title"}, "messages": [*outputs, message]}
    (home.path / "trajectory.json").write_text(json.dumps(trajectory, indent=2))
    answered = read("mini-swe-agent", stored=home.read("trajectory.json").decode())
    assert (answered.text, answered.usage.tokens, answered.trouble) == ("done\na title", 70, None)
