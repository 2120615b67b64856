"""The model server for tests, asked as each interface asks; that real agents understand it is shown elsewhere."""

import contextlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import IncompleteRead
from typing import Any

import pytest
from model_server.moves import Cut, Die, Edit, Hang, Loop, Refuse, Tokens, plan
from model_server.server import ModelServer
from project import until

PROMPT = "Improve it. Answer between <<<GOALSEEK PLAN 5F3A9C and GOALSEEK PLAN 5F3A9C>>>"
EDIT = Edit({"a b.txt": "it's new\n"}, text="done {nonce}", tokens=Tokens(100, 40, 7, 20))
COMMAND = "printf %s 'it'\"'\"'s new\n' > 'a b.txt'"


def messages(results: int, streamed: bool) -> tuple[str, dict[str, Any]]:
    said = [{"role": "user", "content": PROMPT}]
    for number in range(results):
        used = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {}}
        said.append({"role": "assistant", "content": [used]})  # type: ignore[dict-item]
        given = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok"}
        said.append({"role": "user", "content": [given]})  # type: ignore[dict-item]
    return "/v1/messages", {"model": "m", "messages": said, "tools": [{"name": "Bash"}], "stream": streamed}


def chat(results: int, streamed: bool) -> tuple[str, dict[str, Any]]:
    said = [{"role": "system", "content": "be good"}, {"role": "user", "content": PROMPT}]
    said += [{"role": "tool", "content": "ok"}] * results
    tools = [{"type": "function", "function": {"name": "bash"}}]
    return "/v1/chat/completions", {"model": "m", "messages": said, "tools": tools, "stream": streamed}


def responses(results: int, streamed: bool) -> tuple[str, dict[str, Any]]:
    said: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "input_text", "text": PROMPT}]}]
    said += [{"type": "function_call_output", "call_id": "c", "output": "ok"}] * results
    tools = [{"type": "function", "name": "exec_command"}]
    return "/v1/responses", {"model": "m", "input": said, "tools": tools, "stream": streamed}


def content(results: int, streamed: bool) -> tuple[str, dict[str, Any]]:
    said: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": PROMPT}]}]
    said += [{"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command"}}]}] * results
    tools = [{"functionDeclarations": [{"name": "run_shell_command"}]}]
    method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    return f"/v1beta/models/m:{method}", {"contents": said, "tools": tools}


INTERFACES = {"messages": messages, "chat": chat, "responses": responses, "content": content}
EACH = pytest.mark.parametrize("interface", INTERFACES.values(), ids=INTERFACES)
USAGES = {
    messages: {"input_tokens": 100, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 7},
    chat: {"prompt_tokens": 147, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 40}},
    responses: {"input_tokens": 147, "output_tokens": 20, "input_tokens_details": {"cached_tokens": 40}},
    content: {"promptTokenCount": 147, "cachedContentTokenCount": 40, "candidatesTokenCount": 20},
}
Interface = Callable[[int, bool], tuple[str, dict[str, Any]]]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as made:
        yield made


def send(server: ModelServer, path: str, body: dict[str, Any], timeout: float = 10) -> str:
    headers = {"content-type": "application/json", "authorization": "Bearer planted"}
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return str(answer.read().decode())


def ask(server: ModelServer, interface: Interface, results: int = 0, streamed: bool = False) -> str:
    return send(server, *interface(results, streamed))


def test_an_edit_is_a_call_of_the_agents_shell_and_then_a_text_with_the_nonce(server: ModelServer) -> None:
    for interface in INTERFACES.values():
        for streamed in (False, True):
            server.play(EDIT)
            called, said = (ask(server, interface, results, streamed) for results in (0, 1))
            assert json.dumps(COMMAND)[1:-1].replace("\\", "") in called.replace("\\", "")
            assert "done 5F3A9C" in said and "a b.txt" not in said
    assert server.done() == ["call", "answer"] * 8 and server.moves_left == 0
    assert {(seen.asked.key, seen.asked.model) for seen in server.seen} == {("planted", "m")}


@EACH
def test_usage_is_told_as_the_interface_does_and_a_stream_is_events_that_end_well(
    server: ModelServer, interface: Interface
) -> None:
    server.play(EDIT, plan("a title", "answer.json"))
    told = json.loads(ask(server, interface))
    usage = told.get("usage") or told["usageMetadata"]
    assert usage.items() >= USAGES[interface].items()
    events = ask(server, interface, streamed=True).removesuffix("\n\n").split("\n\n")
    lines = [event.splitlines()[-1].removeprefix("data: ") for event in events]
    last = {"messages": "message_stop", "chat": "[DONE]", "responses": "response.completed", "content": "STOP"}
    assert last[interface.__name__] in lines[-1]  # type: ignore[attr-defined]
    assert "<<<GOALSEEK PLAN 5F3A9C\\na title\\n" in "".join(lines)
    assert all(json.loads(line) for line in lines if line != "[DONE]")


@EACH
def test_a_refusal_says_when_to_come_again(server: ModelServer, interface: Interface) -> None:
    server.play(Refuse(401), Refuse(429, 30, is_spent=True), Refuse(529))
    for status in (401, 429, 529):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(server, interface, streamed=True)
        with refused.value as error:
            assert error.code == status and "scripted" in error.read().decode()
            assert error.headers["retry-after"] == ("30" if status == 429 else None)
    assert server.done() == ["refuse"] * 3 and "There is nothing to do." in ask(server, interface)


@EACH
def test_a_cut_answer_breaks_off_in_the_middle(server: ModelServer, interface: Interface) -> None:
    for streamed in (False, True):
        server.play(Cut("x" * 1000))
        with pytest.raises((ConnectionError, IncompleteRead)):
            ask(server, interface, streamed=streamed)
        assert "There is nothing to do." in ask(server, interface, streamed=streamed)


def test_a_dead_server_comes_back_where_it_was_and_a_hang_ends_with_the_one_who_asks(server: ModelServer) -> None:
    server.play(Die(0.3), EDIT, Hang())
    for _ in range(2):
        with pytest.raises((ConnectionError, urllib.error.URLError)):
            ask(server, chat)

    def is_back() -> bool:
        with contextlib.suppress(urllib.error.URLError):
            return "a b.txt" in ask(server, chat)
        return False

    until(is_back)
    with pytest.raises(TimeoutError):
        send(server, *chat(0, True), timeout=0.2)
    assert server.done() == ["die", "call", "hang"]


def test_one_that_stays_away_is_reopened_where_it_was(server: ModelServer) -> None:
    server.play(Die(None), EDIT)
    for _ in range(3):
        with pytest.raises((ConnectionError, urllib.error.URLError)):
            ask(server, chat)
    server.reopen()
    assert "a b.txt" in ask(server, chat) and server.done() == ["die", "call"]


@EACH
def test_a_loop_calls_the_shell_with_another_command_each_time(server: ModelServer, interface: Interface) -> None:
    server.play(Loop())
    commands = [re.findall(r"sleep 0.2; echo \d+", ask(server, interface, results)) for results in range(4)]
    assert len({command for (command,) in commands}) == 4
    assert server.done() == ["call"] * 4


def test_tokens_are_counted_and_a_question_without_tools_is_answered_aside(server: ModelServer) -> None:
    server.play(EDIT)
    path, body = messages(0, False)
    assert json.loads(send(server, f"{path}/count_tokens", body))["input_tokens"] > 10
    title = {"model": "m", "messages": [{"role": "user", "content": "Give it a title."}]}
    assert "Aside" in send(server, "/v1/chat/completions", title)
    assert server.done() == [] and server.moves_left == 1
