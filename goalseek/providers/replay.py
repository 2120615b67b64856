"""The provider ``replay``: answers calls from recordings, in order, without program or network; their JSON files."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from msgspec import Struct, structs

from goalseek.errors import GoalseekError, Rejected
from goalseek.humanize import pluralize
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Plan, Played, Rejection
from goalseek.providers.provider import Call, Provider, Reply
from goalseek.providers.scripted import apply_patch
from goalseek.values import Outcome, Reason, StopReason, Usage, from_line


class ReplayProvider(Provider):
    """Proposal n is that of the recordings' n-th iteration; each call gets the answer of its name."""

    name = "replay"

    def __init__(self, table: ProviderTable, folder: Path) -> None:
        self.folder, self.model = (folder / (table.record or "")).resolve(), table.model

    @cached_property
    def _recordings(self) -> dict[int, dict[str, Recording]]:
        return read_recordings(self.folder)

    def check(self) -> None:
        read_recordings(self.folder)

    def apply(self, call: Call, plan: Plan) -> Reply:
        return self.plan(call)

    def review(self, call: Call) -> Reply:
        return self.plan(call)

    def played_out(self, attempt: int, played: Played | None = None) -> str:
        count = pluralize(len(self._recordings), "iteration")
        why = f"{self.folder.name} has recordings of {count}, and this is proposal {attempt + 1}"
        return why if attempt >= len(self._recordings) else ""

    def plan(self, call: Call) -> Reply:
        """Apply the recorded patch. Raises Rejected as the recorded call did, and without a recording."""
        if why := self.played_out(call.context.attempt):
            raise Rejected(Outcome.SKIPPED, Reason.PROVIDER_FAILED, why)
        iteration, calls = list(self._recordings.items())[call.context.attempt]
        if call.name == "plan" and "plan" not in calls and "apply" in calls:
            return Reply("", "The provider planned while it edited.")
        file, recording = file_name(iteration, call.name), calls.get(call.name)
        if recording is None:
            why = f"there is no recording {file}, so this call has no answer"
            raise Rejected(Outcome.SKIPPED, Reason.PROVIDER_FAILED, why)
        reply, rejection = recording.reply, recording.rejected
        if recording.patch:
            top = next(path for path in (call.folder, *call.folder.parents) if (path / ".git").exists())
            if error := apply_patch(recording.patch.encode("utf-8", "surrogateescape"), top):
                why = f"{file} does not apply: {error}"
                raise Rejected(Outcome.SKIPPED, Reason.PROVIDER_FAILED, why, reply.output)
        if rejection and (rejection.edits is None or not recording.patch):  # today's scope decides on the edits again
            edits = rejection.edits
            raise Rejected(rejection.outcome, rejection.reason, rejection.why, reply.output, edits=edits)
        return structs.replace(reply, usage=Usage())  # the recorded cost is not spent again


make = ReplayProvider

_NAME = re.compile(r"([0-9]{4,})-([a-z]+(?:-[1-9][0-9]*)?)\.json")
_SCHEMA = 1


class Recording(Struct, frozen=True):
    iteration: int
    name: str
    prompt: str
    reply: Reply
    patch: str = ""  # bytes of it that are no UTF-8 are surrogates
    rejected: Rejection | None = None  # how a call without an answer ended
    schema: int = _SCHEMA


def file_name(iteration: int, name: str) -> str:
    return f"{iteration:04d}-{name}.json"


def read_recordings(folder: Path) -> dict[int, dict[str, Recording]]:
    """By iteration and name. Raises GoalseekError if there are none, or one cannot be read."""
    recordings: dict[int, dict[str, Recording]] = {}
    for path in sorted(folder.glob("*.json")):
        if match := _NAME.fullmatch(path.name):
            try:
                recording: Recording = from_line(Recording, path.read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                message = f"{path} is not a recording: {error}"
                raise GoalseekError(message, "copy it again from its original", StopReason.PROVIDER) from None
            if recording.schema != _SCHEMA:
                message = f"{path} has the schema {recording.schema}; this version reads schema {_SCHEMA}"
                raise GoalseekError(message, "record it again", StopReason.PROVIDER)
            recordings.setdefault(int(match[1]), {})[match[2]] = recording
    if not recordings:
        message = f"provider.record: {folder} has no recordings"
        raise GoalseekError(message, "make them with provider.record = FOLDER", StopReason.PROVIDER)
    return dict(sorted(recordings.items()))
