"""OpenAI's chat completions: POST /v1/chat/completions."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from model_server.asked import Answer, Asked, Conversation, Interface, event, text_of
from model_server.moves import Refuse

_ERRORS = {401: "invalid_api_key", 429: "rate_limit_exceeded", 529: "overloaded"}


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    so_far = Conversation()
    for message in body["messages"]:
        content = text_of(message.get("content"))
        match message["role"]:
            case "system" | "developer":
                so_far.system.append(content)
            case "assistant":
                so_far.said.append(content)
            case "tool":
                so_far.results.append(content)
            case _:
                so_far.ask(content)
    tools = {tool["function"]["name"]: tool["type"] for tool in body.get("tools") or []}
    return so_far.asked(body["model"], tools, bool(body.get("stream")), body)


def _usage(answer: Answer) -> dict[str, Any]:
    tokens = answer.tokens
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    }


def _said(answer: Answer) -> dict[str, Any]:
    if not answer.call:
        return {"role": "assistant", "content": answer.text}
    function = {"name": answer.call.name, "arguments": json.dumps(answer.call.arguments)}
    called = {"index": 0, "id": f"call_{answer.number:06d}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [called]}


def _reason(answer: Answer) -> str:
    return "tool_calls" if answer.call else "stop"


def _of(asked: Asked, answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer.number:06d}", "object": kind, "created": int(time.time()), "model": asked.model}


def _whole(asked: Asked, answer: Answer) -> Mapping[str, Any]:
    choice = {"index": 0, "message": _said(answer), "finish_reason": _reason(answer)}
    return {**_of(asked, answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def _stream(asked: Asked, answer: Answer) -> Iterator[bytes]:
    head = _of(asked, answer, "chat.completion.chunk")
    yield event({**head, "choices": [{"index": 0, "delta": _said(answer), "finish_reason": None}]})
    yield event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _reason(answer)}]})
    yield event({**head, "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def error(refused: Refuse) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    kind, after = _ERRORS.get(refused.status, "server_error"), refused.retry_after
    told: dict[str, Any] = {"message": f"scripted {kind}", "type": kind, "code": kind, "param": None}
    if refused.status == 401:  # as OpenAI writes it; some libraries take it for a bad request
        told["type"] = "invalid_request_error"
    if after is None:
        return {"error": told}, {}
    headers, reset = {"retry-after": str(after)}, int(time.time()) + after
    if refused.is_spent:  # as ChatGPT says that a plan's allowance is used up
        told |= {"type": "usage_limit_reached", "plan_type": "plus", "resets_at": reset, "resets_in_seconds": after}
        window = {"used-percent": "100", "window-minutes": "300", "reset-at": str(reset)}
        headers |= {f"x-codex-primary-{name}": value for name, value in window.items()}
    return {"error": told}, headers


CHAT = Interface(_read, _whole, _stream, error)
