"""The provider ``replay``: plays recorded calls again, in order, without a program and without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from goalseek.errors import UNFIT, GoalseekError, Rejected
from goalseek.humanize import pluralize
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Plan, Rejection
from goalseek.providers.provider import Call, Provider, Reply, WritableFile
from goalseek.providers.scripted import apply_patch
from goalseek.values import from_plain, to_plain


@dataclass(frozen=True)
class ReplayProvider:
    """Proposal n is that of the n-th iteration of the recordings; each call is answered as that of its name was."""

    folder: Path
    model: str = ""
    name: str = "replay"
    needs_consent: bool = False
    needs_sandbox: bool = False

    @cached_property
    def _recordings(self) -> dict[int, dict[str, Recording]]:
        return read_recordings(self.folder)

    def is_subscription(self) -> bool:
        """What was paid was paid when it was recorded; it is counted again, so that limits can be tried."""
        return False

    def check(self) -> None:
        """Raises GoalseekError where there are no recordings, or one does not read."""
        read_recordings(self.folder)

    def look_over(self, files: Iterable[WritableFile]) -> str:
        """Any file will do."""
        return ""

    def plan(self, call: Call) -> Reply:
        """The recorded plan; where only a change was recorded, the plan comes with that."""
        iteration, calls = self._iteration(call)
        if call.name == "plan" and "plan" not in calls and "apply" in calls:
            return Reply("", "The provider planned while it edited.")
        return self._played(call, iteration, calls).reply

    def apply(self, call: Call, plan: Plan) -> Reply:
        """Makes the recorded change. Raises Rejected where it does not apply."""
        iteration, calls = self._iteration(call)
        return self._played(call, iteration, calls).reply

    def review(self, call: Call) -> Reply:
        """The recorded verdict."""
        return self._played(call, *self._iteration(call)).reply

    def _iteration(self, call: Call) -> tuple[int, dict[str, Recording]]:
        place, found = call.context.attempt, list(self._recordings.items())
        if place >= len(found):
            there = pluralize(len(found), "iteration")
            why = f"{self.folder.name} has recordings of {there}, and this is proposal {place + 1}"
            raise Rejected("skipped", "provider_failed", why)
        return found[place]

    def _played(self, call: Call, iteration: int, calls: dict[str, Recording]) -> Recording:
        """The recording of this call, its patch applied. Raises Rejected as the call did, and where there is none."""
        recording = calls.get(call.name)
        if recording is None:
            why = f"there is no recording {file_name(iteration, call.name)}, and that call is made now"
            raise Rejected("skipped", "provider_failed", why)
        if recording.patch:
            top = next(path for path in (call.folder, *call.folder.parents) if (path / ".git").exists())
            patch = recording.patch.encode("utf-8", "surrogateescape")
            if said := apply_patch(patch, top):
                why = f"{file_name(iteration, call.name)} does not apply: {said}"
                raise Rejected("skipped", "provider_failed", why, recording.reply.output, recording.reply.usage)
        stopped = recording.rejected
        if stopped and (stopped.edits is None or not recording.patch):  # of edits the scope of now decides anew
            printed = recording.reply.output
            raise Rejected(stopped.outcome, stopped.reason, stopped.why, printed, stopped.usage, stopped.edits)
        return recording


def make(table: ProviderTable, folder: Path) -> Provider:
    """The provider for a manifest."""
    return ReplayProvider((folder / table.recordings).resolve(), table.model)


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
