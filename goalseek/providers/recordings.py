"""The files of recorded calls: one a call, ``NNNN-NAME.json``, where NAME is its phase, numbered from the second on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalseek.errors import UNFIT, GoalseekError
from goalseek.phase_values import Rejection
from goalseek.providers.provider import Reply
from goalseek.values import from_plain, to_plain

_NAME = re.compile(r"([0-9]{4,})-([a-z]+(?:-[1-9][0-9]*)?)\.json")
_SCHEMA = 1


@dataclass(frozen=True)
class Recording:
    """One call: what was asked, what was answered, and the ``patch`` that it made.

    ``rejected`` says how it ended where it came to no answer. Bytes of the patch that are no UTF-8 are surrogates.
    """

    iteration: int
    name: str
    prompt: str
    reply: Reply
    patch: str = ""
    rejected: Rejection | None = None
    schema: int = _SCHEMA

    def as_plain(self, hidden: Callable[[str], str]) -> Any:
        """The JSON form, each text of it as ``hidden`` gives it."""
        return _each_text(to_plain(self), hidden)


def file_name(iteration: int, name: str) -> str:
    """The file of a call."""
    return f"{iteration:04d}-{name}.json"


def read_recordings(folder: Path) -> dict[int, dict[str, Recording]]:
    """The recordings by iteration and name. Raises GoalseekError where there are none, or one does not read."""
    found: dict[int, dict[str, Recording]] = {}
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        try:
            recording = from_plain(Recording, json.loads(path.read_bytes()))
        except (OSError, ValueError, RecursionError) as error:
            raise GoalseekError(
                f"{path} is not a recording: {error}", "take it from where it was made", UNFIT, "provider"
            ) from None
        if recording.schema != _SCHEMA:
            message = f"{path} has the schema {recording.schema}; this version reads schema {_SCHEMA}"
            raise GoalseekError(message, "record it again", UNFIT, "provider")
        found.setdefault(int(match[1]), {})[match[2]] = recording
    if not found:
        message = f"provider.recordings: {folder} has no recordings"
        raise GoalseekError(message, "provider.record = FOLDER makes them", UNFIT, "provider")
    return dict(sorted(found.items()))


def _each_text(value: Any, hidden: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hidden(value)
    if isinstance(value, list):
        return [_each_text(item, hidden) for item in value]
    return {key: _each_text(item, hidden) for key, item in value.items()} if isinstance(value, dict) else value
