"""A preset: what there is to know about one coding agent, as data, over the one way to run a program.

A package may bring one of its own: an entry point of the group ``goalseek.providers`` that names a ``Preset``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from goalseek.providers.credentials import Source
from goalseek.providers.provider import Kind
from goalseek.sandbox.pipes import KEPT_BYTES
from goalseek.values import Usage

MOST = 10**15  # what no count of tokens, dollars or seconds is
ARGUMENT_MOST = 128 * 1024 - 1


@dataclass(frozen=True)
class Part:
    """Words of a command line, used where all of ``when`` hold.

    These are ``plan`` or ``apply``; ``confined`` or ``unconfined``, as a sandbox holds or not; ``key`` where an API
    key pays and ``login`` where a subscription does; ``model``, ``endpoint``, ``session`` where there is one, and
    ``fresh`` without a session. In words ``{model}``, ``{endpoint}``, ``{session}``, ``{prompt}``, ``{prompt_file}``
    and ``{home}`` stand for their values, and the word ``{files}`` for each writable file.
    """

    words: tuple[str, ...]
    when: tuple[str, ...] = ()


@dataclass(frozen=True)
class Printed:
    """What a program left behind when it ended: its exit code, output, and a way to read a file of its HOME."""

    exit_code: int
    stdout: str
    stderr: str
    read: Callable[[str], str]

    def rows(self) -> Iterator[dict[str, Any]]:
        """The lines of standard output that are JSON objects."""
        for line in self.stdout.split("\n"):  # JSON may hold other characters that end a line, as they are
            if line.startswith("{"):
                row = json_or_none(line)
                if isinstance(row, dict):
                    yield row


@dataclass(frozen=True)
class Trouble:
    """Why there is no answer. ``reset`` is in how many seconds a limit is lifted, or when, in seconds since 1970."""

    kind: Kind
    why: str
    reset: float | None = None


@dataclass(frozen=True)
class Answer:
    """What was read from a program's output. ``session`` is by what name it can be gone on with.

    A program that was to go on with a session, and tells neither an answer nor a session, has not found it.
    ``whole_session`` names the fields of ``usage`` that tell of the whole session so far, not of this call alone.
    ``is_mixed`` says that the text is not the model's alone, so that its first line says nothing of the change.
    """

    text: str = ""
    usage: Usage = Usage()
    session: str = ""
    model: str = ""
    trouble: Trouble | None = None
    is_mixed: bool = False
    whole_session: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preset:
    """One agent. ``tried`` is the version that goalseek's own tests ran, "" for none.

    ``variables`` and ``home_files`` (path below HOME to text) go by the same words as ``parts`` do. An agent that
    ``needs_sandbox`` runs every command unasked and has no other way. ``read`` makes an answer of what was printed.
    ``address`` is where it asks when no endpoint is named. ``kept_bytes`` are read of each output, head and tail.
    """

    name: str
    program: str
    install: str
    parts: tuple[Part, ...]
    read: Callable[[Printed], Answer]
    prompt: Literal["stdin", "file", "argument"] = "stdin"
    credentials: tuple[Source, ...] = ()
    variables: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    home_files: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    with_endpoint: Callable[[str, str], Mapping[str, str]] | None = None
    address: str = ""
    tried: str = ""
    needs_sandbox: bool = False
    kept_bytes: int = KEPT_BYTES
    version: tuple[str, ...] = field(default=("--version",))


def json_or_none(text: str) -> Any:
    """What JSON says; None where the text is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def count(value: Any) -> int:
    """A count of tokens; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST else 0


def dollars(value: Any) -> float | None:
    """An amount of dollars; None for what is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST
    return float(value) if is_number else None


def inner(value: Any, *keys: str) -> Any:
    """What lies below these keys; None where nothing does."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_of(value: Any, most: int = 300) -> str:
    """One short line of a value that should be text."""
    return " ".join(value.split())[:most] if isinstance(value, str) else ""
