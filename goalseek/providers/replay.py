"""The provider ``replay``: plays recorded calls again, in order, without a program and without a network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from goalseek.errors import Rejected
from goalseek.humanize import counted
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Plan
from goalseek.providers.patch import apply_patch
from goalseek.providers.provider import Call, Provider, Reply, WritableFile
from goalseek.providers.recordings import Recording, file_name, read_recordings


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
            there = counted(len(found), "iteration")
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
