"""Anthropic's Messages: POST /v1/messages."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from model_server.asked import Answer, Asked, Conversation, Interface, event, text_of
from model_server.moves import Refuse

_ERRORS = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    so_far = Conversation([text_of(body.get("system", ""))])
    for message in body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        given = [text_of(part.get("content")) for part in parts if part["type"] == "tool_result"]
        if message["role"] == "assistant":
            so_far.said += [part["text"] for part in parts if part["type"] == "text"]
        elif given:
            so_far.results += given
        elif message["role"] == "user":
            so_far.ask(text_of(parts))
    tools = {tool["name"]: tool.get("type", "function") for tool in body.get("tools", [])}
    return so_far.asked(body["model"], tools, body.get("stream", False), body)


def _usage(answer: Answer) -> dict[str, int]:
    tokens = answer.tokens
    return {
        "input_tokens": tokens.fresh,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation_input_tokens": tokens.written,
        "output_tokens": tokens.output,
    }


def _message(asked: Asked, answer: Answer) -> dict[str, Any]:
    call = answer.call
    block: dict[str, Any] = {"type": "text", "text": answer.text}
    if call:
        block = {"type": "tool_use", "id": f"toolu_{answer.number:06d}", "name": call.name, "input": call.arguments}
    return {
        "id": f"msg_{answer.number:06d}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [block],
        "stop_reason": "tool_use" if call else "end_turn",
        "stop_sequence": None,
        "usage": _usage(answer),
    }


def _stream(asked: Asked, answer: Answer) -> Iterator[bytes]:
    message = _message(asked, answer)
    (block,) = message["content"]
    usage = {**message["usage"], "output_tokens": 1}

    def of(kind: str, **more: Any) -> bytes:
        return event({"type": kind, **more}, kind)

    yield of("message_start", message={**message, "content": [], "stop_reason": None, "usage": usage})
    if answer.call:
        yield of("content_block_start", index=0, content_block={**block, "input": {}})
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        yield of("content_block_start", index=0, content_block={**block, "text": ""})
        delta = {"type": "text_delta", "text": answer.text}
    yield of("content_block_delta", index=0, delta=delta)
    yield of("content_block_stop", index=0)
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield of("message_delta", delta=ended, usage=message["usage"])
    yield of("message_stop")


def _error(refused: Refuse) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    kind = _ERRORS.get(refused.status, "api_error")
    headers = {}
    if refused.retry_after is not None:
        headers["retry-after"] = str(refused.retry_after)
        headers["anthropic-ratelimit-unified-reset"] = str(int(time.time()) + refused.retry_after)
    if refused.is_spent:
        headers["anthropic-ratelimit-unified-status"] = "rejected"
    return {"type": "error", "error": {"type": kind, "message": f"scripted {kind}"}}, headers


MESSAGES = Interface(_read, _message, _stream, _error)


def count_tokens(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"input_tokens": len(json.dumps(body.get("messages"))) // 4}
