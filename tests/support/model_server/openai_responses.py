"""OpenAI's Responses: POST /v1/responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from model_server.asked import Answer, Asked, Interface, event, text_of
from model_server.openai_chat import error

_RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    prompt, said, results, system = "", [], [], [body.get("instructions") or ""]
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    for item in items:
        if item.get("type") in _RESULTS:
            output = item["output"]
            results.append(output if isinstance(output, str) else json.dumps(output))
            continue
        role, content = item.get("role"), text_of(item.get("content"))
        if role == "assistant":
            said.append(content)
        elif role == "user":
            prompt, results = content, []
        elif role:
            system.append(content)
    return Asked(
        model=body["model"],
        system="\n".join(system),
        prompt=prompt,
        said="\n".join(said),
        results=tuple(results),
        tools={tool.get("name", tool["type"]): tool["type"] for tool in body.get("tools") or []},
        is_streamed=bool(body.get("stream")),
        body=body,
    )


def _item(asked: Asked, answer: Answer) -> dict[str, Any]:
    name, call = f"{answer.number:06d}", answer.call
    if call is None:
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        return {
            "type": "message",
            "id": f"msg_{name}",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    if asked.tools[call.name] == "local_shell":
        action = {"type": "exec", "command": call.arguments, "env": {}}
        return {
            "type": "local_shell_call",
            "id": f"lsh_{name}",
            "call_id": f"call_{name}",
            "action": action,
            "status": "completed",
        }
    if isinstance(call.arguments, str):
        kind, given = "custom_tool_call", {"input": call.arguments}
    else:
        kind, given = "function_call", {"arguments": json.dumps(call.arguments)}
    return {
        "type": kind,
        "id": f"fc_{name}",
        "call_id": f"call_{name}",
        "name": call.name,
        "status": "completed",
        **given,
    }


def _whole(asked: Asked, answer: Answer) -> Mapping[str, Any]:
    tokens = answer.tokens
    given = tokens.fresh + tokens.cached + tokens.written
    return {
        "id": f"resp_{answer.number:06d}",
        "object": "response",
        "created_at": int(time.time()),
        "model": asked.model,
        "status": "completed",
        "output": [_item(asked, answer)],
        "usage": {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + tokens.output,
        },
    }


def _stream(asked: Asked, answer: Answer) -> Iterator[bytes]:
    response = _whole(asked, answer)
    (item,) = response["output"]

    def of(kind: str, **more: Any) -> bytes:
        return event({"type": kind, **more}, kind)

    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield of("response.created", response=begun)
    yield of("response.output_item.added", output_index=0, item={**item, "status": "in_progress"})
    if answer.call is None:
        yield of("response.output_text.delta", output_index=0, content_index=0, item_id=item["id"], delta=answer.text)
    yield of("response.output_item.done", output_index=0, item=item)
    yield of("response.completed", response=response)


RESPONSES = Interface(_read, _whole, _stream, error)
