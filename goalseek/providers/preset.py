"""A preset: one coding agent described as data, which ``coding_agent`` runs."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from goalseek.providers.credentials import Credential
from goalseek.sandbox.supervisor import KEPT_BYTES
from goalseek.values import Usage

MOST = 10**15  # above any count of tokens, dollars or seconds
_MOST_TEXT = 300
TOKENS = ("input_tokens", "cached_tokens", "output_tokens")
Kind = Literal["rate_limited", "auth", "transient", "later", "timeout", "crashed", "undeclared"]


class Part(Struct, frozen=True):
    """Arguments of a command line, used if all conditions in ``when`` hold.

    Conditions: ``plan`` (also a review) or ``apply``; ``author`` or ``reviewer``; ``confined`` or ``unconfined``;
    ``search`` or ``no_search`` of the web; ``key`` (an API key pays) or ``login`` (a subscription); ``session`` or
    ``fresh``; ``model``, ``endpoint``; ``budget``, if the run's dollars are limited.

    Placeholders: ``{model}``, ``{endpoint}``, ``{session}``, ``{prompt_file}``, ``{home}``; ``{budget}``, the dollars
    left, or 0; ``{key}``, the variable with the key; ``{prompt}``, or a sentence naming its file if it is too long for
    an argument. The words ``{files}`` and ``{planned}`` become all writable files, or those of the plan.
    """

    words: tuple[str, ...]
    when: tuple[str, ...] = ()


class Printed(Struct, frozen=True):
    exit_code: int
    stdout: str
    stderr: str
    read: Callable[[str], str]  # the newest file in its HOME that matches a path or a glob; "" without one

    def rows(self, file: str = "") -> Iterator[dict[str, Any]]:
        """JSON objects, one a line, of standard output or of the newest such file in its HOME."""
        text = self.read(file) if file else self.stdout
        for line in text.split("\n"):  # JSON may hold other characters that end a line, as they are
            row = json_or_none(line) if line.startswith("{") else None
            if isinstance(row, dict):
                yield row


class Trouble(Struct, frozen=True):
    """The reason for no answer; "undeclared" if neither a field nor an exit code says it."""

    kind: Kind
    why: str
    reset: float | None = None  # seconds until the limit is lifted, or the time of it in seconds since 1970


class Answer(Struct, frozen=True):
    """The answer in a program's output; one with neither text nor session has not found its session."""

    text: str = ""
    usage: Usage = Usage()
    session: str = ""  # the name by which the next call can resume it
    model: str = ""
    trouble: Trouble | None = None
    whole_session: tuple[str, ...] = ()  # the fields of ``usage`` that are totals of the session so far


class Preset(Struct, frozen=True):
    """One agent; ``variables`` and ``home_files`` (path below HOME, text) have conditions as ``parts`` do."""

    name: str
    program: str
    install: str
    parts: tuple[Part, ...]
    read: Callable[[Printed], Answer]
    prompt: Literal["stdin", "file", "argument"] = "stdin"
    credentials: tuple[Credential, ...] = ()
    variables: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    home_files: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    with_endpoint: Callable[[str, str], Mapping[str, str]] | None = None
    address: str = ""  # its API's, if no endpoint is named
    tried: str = ""  # the version that goalseek's own tests ran
    needs_sandbox: bool = False  # it runs every command without asking, always
    adds_named_files: bool = False  # it sends files that the prompt names to its model, so it gets no list of them
    kept_bytes: int = KEPT_BYTES  # read of each output, head and tail
    waits: str = ""  # it waits for its model from this pattern to its next row of JSON
    version: tuple[str, ...] = ("--version",)
    interactive: tuple[Part, ...] = (Part(("--model", "{model}"), ("model",)),)  # where a person uses it, in a sandbox
    # Files of HOME, so that it asks nothing at its start in this folder; whether a key pays.
    first_start: Callable[[str, bool], Mapping[str, str]] = lambda folder, has_key: {}


LITELLM_VARIABLES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("PYTHON_DOTENV_DISABLED", "1", ()),
    ("OPENAI_API_BASE", "{endpoint}/v1", ("endpoint",)),
    ("ANTHROPIC_BASE_URL", "{endpoint}", ("endpoint",)),
)


def kinds_by_name(names: Mapping[Kind, str]) -> dict[str, Kind]:
    """The kind of each error that an agent declares, from a text of names for each kind."""
    return {name: kind for kind, text in names.items() for name in text.split()}


def kind_of(status: object, name: str = "", kinds: Mapping[str, Kind] = {}) -> Kind:
    """The kind of an error by its HTTP status, or else by the name that declares it; "crashed" if that is unknown."""
    if not isinstance(status, int):
        return kinds.get(name, "crashed") if name else "undeclared"
    if status == 429:
        return "rate_limited"
    if status in (401, 402, 403, 407):
        return "auth"
    return "transient" if status in (408, 409, 425) or 500 <= status < 600 else "crashed"


def usage_of(whole: int, cached: int, output: int) -> Usage:
    """The usage of an agent whose ``whole`` input includes the ``cached`` tokens."""
    return Usage(max(whole - cached, 0), cached, output)


def json_or_none(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def inner(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def count(value: Any, *keys: str) -> int:
    """The count of tokens at this path of keys; 0 if absent."""
    value = inner(value, *keys)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST else 0


def number(value: Any, *keys: str) -> float | None:
    """The dollars or seconds at this path of keys; None if absent."""
    value = inner(value, *keys)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST
    return float(value) if is_number else None


def text_of(value: Any, *keys: str) -> str:
    """The text at this path of keys, as one short line; "" if absent."""
    value = inner(value, *keys)
    return " ".join(value.split())[:_MOST_TEXT] if isinstance(value, str) else ""
