"""A preset: one coding agent described as data, which ``coding_agent`` runs.

Another package may bring one: an entry point of the group ``goalseek.providers`` that names a ``Preset``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from goalseek.providers.credentials import Credential
from goalseek.sandbox.supervisor import KEPT_BYTES
from goalseek.values import Usage

MOST = 10**15  # above any count of tokens, dollars or seconds
_MOST_TEXT = 300
Kind = Literal["rate_limited", "auth", "transient", "later", "timeout", "crashed", "undeclared"]


class Part(Struct, frozen=True):
    """Arguments of a command line, used where all of the conditions ``when`` hold.

    These are ``plan`` or ``apply``, and a review is a ``plan`` too; ``author`` or ``reviewer``; ``confined`` or
    ``unconfined``, with or without a sandbox; ``search`` or ``no_search``, where the web may be searched or not;
    ``key`` where an API key pays and ``login`` where a subscription does; ``model``, ``endpoint``, ``session`` where
    there is one, and ``fresh`` without a session; ``budget`` where the run's dollars are limited. In words ``{model}``,
    ``{endpoint}``, ``{session}``, ``{prompt}``, ``{prompt_file}``, ``{home}`` and ``{budget}``, the dollars that are
    left or 0, stand for their values, ``{key}`` for the variable that holds the key; ``{prompt}`` for where it is, if
    it is too long for an argument. The word ``{files}`` stands for each writable file, ``{planned}`` for those that the
    plan names.
    """

    words: tuple[str, ...]
    when: tuple[str, ...] = ()


class Printed(Struct, frozen=True):
    """The result of a program."""

    exit_code: int
    stdout: str
    stderr: str
    read: Callable[[str], str]  # the newest file in its HOME that matches a path or a glob; "" where there is none

    def rows(self, file: str = "") -> Iterator[dict[str, Any]]:
        """The lines that are JSON objects, of standard output or of the newest such file in its HOME."""
        text = self.read(file) if file else self.stdout
        for line in text.split("\n"):  # JSON may hold other characters that end a line, as they are
            row = json_or_none(line) if line.startswith("{") else None
            if isinstance(row, dict):
                yield row


class Trouble(Struct, frozen=True):
    """Why there is no answer; "undeclared" is a program that said nothing of it in a field or an exit code."""

    kind: Kind
    why: str
    reset: float | None = None  # seconds until the limit is lifted, or the time of it in seconds since 1970


class Answer(Struct, frozen=True):
    """The answer in a program's output.

    A program that should resume a session, and gives neither an answer nor a session, has not found it.
    """

    text: str = ""
    usage: Usage = Usage()
    session: str = ""  # the name by which the next call can resume it
    model: str = ""
    trouble: Trouble | None = None
    is_mixed: bool = False  # with other output than the model's, so the first line is no title of the change
    whole_session: tuple[str, ...] = ()  # the fields of ``usage`` that are totals of the session so far


class Preset(Struct, frozen=True):
    """One agent. ``variables`` and ``home_files`` (path below HOME, text) have the same conditions as ``parts``."""

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
    address: str = ""  # its API's, where no endpoint is named
    tried: str = ""  # the version that goalseek's own tests ran
    needs_sandbox: bool = False  # it runs every command without asking, always
    adds_named_files: bool = False  # it sends files that the prompt names to its model, so it gets no list of them
    kept_bytes: int = KEPT_BYTES  # read of each output, head and tail
    waits: str = ""  # it waits for its model from where it printed this pattern to its next row of JSON
    version: tuple[str, ...] = ("--version",)


def json_or_none(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def inner(value: Any, *keys: str) -> Any:
    """The value at this path of keys in nested objects; None where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def count(value: Any, *keys: str) -> int:
    """The count of tokens at this path of keys; 0 where there is none."""
    value = inner(value, *keys)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST else 0


def dollars(value: Any, *keys: str) -> float | None:
    """The amount, of dollars say, at this path of keys; None where there is none."""
    value = inner(value, *keys)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST
    return float(value) if is_number else None


def text_of(value: Any, *keys: str) -> str:
    """The text at this path of keys, as one short line; "" where there is none."""
    value = inner(value, *keys)
    return " ".join(value.split())[:_MOST_TEXT] if isinstance(value, str) else ""
