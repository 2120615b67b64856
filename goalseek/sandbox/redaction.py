"""Redaction of credentials: their values are replaced by a mark in all that an agent prints."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

HIDDEN = b"[credential]"
_LEAST_LENGTH = 8
_READ_LIMIT = 2**20
_LINE_LIMIT = 2**16
_CREDENTIAL_NAME = re.compile(r"key|token|secret|password|passwd|credential|access|refresh", re.IGNORECASE)


class Redactor:
    """Replaces the credential values that it has learned."""

    def __init__(self) -> None:
        self._values: set[bytes] = set()

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Learns the values of variables that hold credentials."""
        self._add(variables.values())

    def add_files(self, files: Iterable[Path]) -> None:
        """Learns what credential files hold now: of JSON, the texts under keys like "token"; of others, each line."""
        for file in files:
            try:
                with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as content:  # noqa: PTH123
                    is_regular = stat.S_ISREG(os.fstat(content.fileno()).st_mode)  # an agent may have put a pipe there
                    text = content.read(_READ_LIMIT).decode("utf-8", "replace") if is_regular else ""
            except OSError:
                continue
            try:
                self._add(_secret_texts(json.loads(text)))
            except (ValueError, RecursionError):
                self._add(line.partition("=")[2].strip("'\" ") or line for line in text.splitlines())

    def contains(self, content: bytes) -> bool:
        """Whether a content holds any of them."""
        return any(value in content for value in self._values)

    def redact(self, content: bytes) -> bytes:
        """The content, with each value replaced by ``HIDDEN``."""
        for value in sorted(self._values, key=len, reverse=True):
            content = content.replace(value, HIDDEN)
        return content

    def redact_text(self, text: str) -> str:
        """The same for a text."""
        return self.redact(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def stream(self, pass_on: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """A function that redacts output and passes it on in whole lines; an empty chunk passes on the rest."""
        pending = bytearray()
        longest = max((len(value) for value in self._values), default=0)

        def take(chunk: bytes) -> None:
            pending.extend(chunk)
            end = pending.rfind(b"\n") + 1 if chunk and longest else len(pending)
            if len(pending) - end > _LINE_LIMIT:
                end = len(pending) - longest
            if end:
                pass_on(self.redact(bytes(pending[:end])))
                del pending[:end]

        return take

    def _add(self, values: Iterable[str]) -> None:
        for value in values:
            for form in (value, json.dumps(value)[1:-1]):
                if len(form) >= _LEAST_LENGTH:
                    self._values.add(form.encode("utf-8", "surrogateescape"))


def is_credential_name(name: str) -> bool:
    """Whether a variable's name says that it holds a credential."""
    return bool(_CREDENTIAL_NAME.search(name))


def _secret_texts(value: Any, is_secret: bool = False) -> Iterable[str]:
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from _secret_texts(inside, is_secret or is_credential_name(key))
    elif isinstance(value, list):
        for inside in value:
            yield from _secret_texts(inside, is_secret)
    elif isinstance(value, str) and is_secret and len(value) >= 2 * _LEAST_LENGTH:
        yield value
