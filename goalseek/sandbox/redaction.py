"""What nobody may write down: the values of credentials. They are taken out of all that an agent prints."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

HIDDEN = b"[credential]"
_LEAST = 8
_READ_MOST = 2**20
_LINE_MOST = 2**16
_TELLING = re.compile(r"key|token|secret|password|passwd|credential|access|refresh", re.IGNORECASE)


class Redactor:
    """The values that were met so far, as bytes."""

    def __init__(self) -> None:
        self._values: set[bytes] = set()

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Learns the values of variables that hold credentials."""
        self._add(variables.values())

    def add_files(self, files: Iterable[Path]) -> None:
        """Learns what credential files hold now: of JSON, the texts whose keys tell; of others, each line."""
        for file in files:
            try:
                text = _beginning(file).decode("utf-8", "replace")
            except OSError:
                continue
            try:
                self._add(_telling(json.loads(text)))
            except (ValueError, RecursionError):
                self._add(line.partition("=")[2].strip("'\" ") or line for line in text.splitlines())

    def contains(self, content: bytes) -> bool:
        """Whether a content holds any of them."""
        return any(value in content for value in self._values)

    def redact(self, content: bytes) -> bytes:
        """The content, with a mark in the place of each."""
        for value in sorted(self._values, key=len, reverse=True):
            content = content.replace(value, HIDDEN)
        return content

    def hidden_text(self, text: str) -> str:
        """The same of a text."""
        return self.redact(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def stream(self, tell: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """A way to pass output on as it comes, whole lines at a time; an empty chunk passes on what is left."""
        kept = bytearray()
        longest = max((len(value) for value in self._values), default=0)

        def take(chunk: bytes) -> None:
            kept.extend(chunk)
            end = kept.rfind(b"\n") + 1 if chunk and longest else len(kept)
            if len(kept) - end > _LINE_MOST:
                end = len(kept) - longest
            if end:
                tell(self.redact(bytes(kept[:end])))
                del kept[:end]

        return take

    def _add(self, values: Iterable[str]) -> None:
        for value in values:
            for form in (value, json.dumps(value)[1:-1]):
                if len(form) >= _LEAST:
                    self._values.add(form.encode("utf-8", "surrogateescape"))


def is_telling(name: str) -> bool:
    """Whether a variable's name says that it holds a credential."""
    return bool(_TELLING.search(name))


def _beginning(file: Path) -> bytes:
    """The first mebibyte of a regular file; nothing of what an agent may have put in its place, a pipe say."""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:  # noqa: PTH123 - a descriptor
        return opened.read(_READ_MOST) if stat.S_ISREG(os.fstat(opened.fileno()).st_mode) else b""


def _telling(value: Any, is_secret: bool = False) -> Iterable[str]:
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from _telling(inside, is_secret or is_telling(key))
    elif isinstance(value, list):
        for inside in value:
            yield from _telling(inside, is_secret)
    elif isinstance(value, str) and is_secret and len(value) >= 2 * _LEAST:
        yield value
