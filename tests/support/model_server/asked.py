"""What was asked of the model server and what it answers, without the forms of any one interface."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from model_server.moves import Refuse, Tokens, ToolCall

_NONCE = re.compile(r"<<<GOALSEEK [A-Z]+ ([0-9A-Za-z]+)")


@dataclass(frozen=True)
class Asked:
    """One request. ``prompt`` is the last thing that the user said, ``said`` what the model had said before it.

    ``results`` are what the tools gave since ``prompt``. ``tools`` maps names to kinds, as the interface calls them.
    ``key`` is what the request was signed with.
    """

    model: str
    system: str
    prompt: str
    said: str
    results: tuple[str, ...]
    tools: Mapping[str, str]
    is_streamed: bool
    body: Mapping[str, Any] = field(repr=False, default_factory=dict)
    key: str = ""

    @property
    def nonce(self) -> str:
        """The nonce of the sentinel lines that the prompt, or a file that it names, asks for; "" where none does."""
        results = "\n".join(self.results).replace("\\u003c", "<")
        found = _NONCE.findall(self.prompt) or _NONCE.findall(results)
        return found[-1] if found else ""


@dataclass
class Conversation:
    """What was said so far, as ``Asked`` has it; it is read from the first message to the last."""

    system: list[str] = field(default_factory=list)
    prompt: str = ""
    said: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def ask(self, prompt: str) -> None:
        self.prompt, self.results = prompt, []

    def asked(self, model: str, tools: Mapping[str, str], is_streamed: bool, body: Mapping[str, Any]) -> Asked:
        texts = "\n".join(self.system), self.prompt, "\n".join(self.said), tuple(self.results)
        return Asked(model, *texts, tools, is_streamed, body)


@dataclass(frozen=True)
class Answer:
    """A text, or a tool to call, and what it used. ``number`` makes identifiers."""

    text: str
    call: ToolCall | None
    tokens: Tokens
    number: int


@dataclass(frozen=True)
class Interface:
    """How one kind of request is read, and answered: whole, as a stream of pieces, or with an error and its headers."""

    read: Callable[[str, Mapping[str, Any]], Asked]
    whole: Callable[[Asked, Answer], Mapping[str, Any]]
    stream: Callable[[Asked, Answer], Iterator[bytes]]
    error: Callable[[Refuse], tuple[Mapping[str, Any], Mapping[str, str]]]


def event(data: Mapping[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(text_of(part.get("text", "")) for part in content or [] if isinstance(part, dict))
