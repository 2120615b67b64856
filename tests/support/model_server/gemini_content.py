"""Gemini's generateContent and streamGenerateContent: POST /v1beta/models/MODEL:METHOD."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from model_server.asked import Answer, Asked, Conversation, Interface, event, text_of
from model_server.moves import Refuse

_ERRORS = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 529: "UNAVAILABLE"}


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    model, _, method = path.rpartition("/")[2].partition(":")
    so_far = Conversation([text_of((body.get("systemInstruction") or {}).get("parts"))])
    for content in body["contents"]:
        parts = content["parts"]
        given = [json.dumps(part["functionResponse"]) for part in parts if "functionResponse" in part]
        if content.get("role") == "model":
            so_far.said.append(text_of(parts))
        elif given:
            so_far.results += given
        else:
            so_far.ask(text_of(parts))
    functions = [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations", [])]
    tools = {function["name"]: "function" for function in functions}
    return so_far.asked(model, tools, method.startswith("stream"), body)


def _whole(asked: Asked, answer: Answer) -> Mapping[str, Any]:
    tokens = answer.tokens
    part: dict[str, Any] = {"text": answer.text}
    if answer.call:
        part = {"functionCall": {"name": answer.call.name, "args": answer.call.arguments}}
    return {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": tokens.input,
            "cachedContentTokenCount": tokens.cached,
            "candidatesTokenCount": tokens.output,
            "totalTokenCount": tokens.input + tokens.output,
        },
        "modelVersion": asked.model,
        "responseId": f"response-{answer.number:06d}",
    }


def _stream(asked: Asked, answer: Answer) -> Iterator[bytes]:
    yield event(_whole(asked, answer))


def _error(refused: Refuse) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    kind, after = _ERRORS.get(refused.status, "INTERNAL"), refused.retry_after
    told: dict[str, Any] = {"code": refused.status, "message": f"scripted {kind}", "status": kind}
    if after is None:
        return {"error": told}, {}
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{after}s"}
    return {"error": {**told, "details": [wait]}}, {"retry-after": str(after)}


CONTENT = Interface(_read, _whole, _stream, _error)


def count_tokens(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"totalTokens": len(json.dumps(body)) // 4}
