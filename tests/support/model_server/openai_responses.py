"""OpenAI's Responses: POST /v1/responses."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from model_server.asked import Answer, Asked, Conversation, Interface, event, text_of
from model_server.openai_chat import error

_RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    so_far, given = Conversation([body.get("instructions") or ""]), body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        role, content = item.get("role"), text_of(item.get("content"))
        if item.get("type") in _RESULTS:
            so_far.results.append(item["output"] if isinstance(item["output"], str) else json.dumps(item["output"]))
        elif role == "assistant":
            so_far.said.append(content)
        elif role == "user":
            so_far.ask(content)
        elif role:
            so_far.system.append(content)
    tools = {tool.get("name", tool["type"]): tool["type"] for tool in body.get("tools") or []}
    return so_far.asked(body["model"], tools, bool(body.get("stream")), body)


def _item(asked: Asked, answer: Answer) -> dict[str, Any]:
    name, call = f"{answer.number:06d}", answer.call
    if call is None:
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        kind, identifier, more = "message", f"msg_{name}", {"role": "assistant", "content": [part]}
    elif asked.tools.get(call.name) == "local_shell":
        action = {"type": "exec", "command": call.arguments, "env": {}}
        kind, identifier, more = "local_shell_call", f"lsh_{name}", {"call_id": f"call_{name}", "action": action}
    else:
        is_text = isinstance(call.arguments, str)
        given = {"input": call.arguments} if is_text else {"arguments": json.dumps(call.arguments)}
        kind, identifier = "custom_tool_call" if is_text else "function_call", f"fc_{name}"
        namespace, _, tool = call.name.rpartition(".")
        more = {"call_id": f"call_{name}", "name": tool, **({"namespace": namespace} if namespace else {}), **given}
    return {"type": kind, "id": identifier, "status": "completed", **more}


def _whole(asked: Asked, answer: Answer) -> Mapping[str, Any]:
    tokens = answer.tokens
    return {
        "id": f"resp_{answer.number:06d}",
        "object": "response",
        "created_at": int(time.time()),
        "model": asked.model,
        "status": "completed",
        "output": [_item(asked, answer)],
        "usage": {
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens.input + tokens.output,
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
