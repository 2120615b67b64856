"""The events of ``iterate --json``, one JSON object a line, as the published schema has them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, TextIO

from goalseek.project.activity import Observer
from goalseek.records import HoldoutRecord, IterationRecord, SettleRecord
from goalseek.sandbox.level import SandboxLevel
from goalseek.values import EXIT_CODES, Stop, to_plain


class EventWatch(Observer):
    """Prints an event a line: ``sandbox``, ``phase``, ``iteration``, ``settle``, ``holdout``, ``note``, ``stopped``.

    Of each it prints what ``select`` gives for it; nothing for None.
    """

    def __init__(self, stream: TextIO, select: Callable[[Any], Any] = lambda event: event) -> None:
        self._stream = stream
        self._select = select
        self._of: dict[str, int] = {}

    def of(self, iteration: int) -> EventWatch:
        """Notes of one of several iterations name it, as other events always do."""
        other = copy.copy(self)
        other._of = {"iteration": iteration}
        return other

    def on_note(self, text: str) -> None:
        """A note."""
        self._emit("note", text=text, **self._of)

    def on_sandbox(self, level: SandboxLevel, not_enforced: tuple[str, ...]) -> None:
        """The level of the sandbox."""
        self._emit("sandbox", level=level.name, not_enforced=not_enforced, because=level.reason)

    def on_phase(self, iteration: int, name: str) -> None:
        """A phase begins."""
        self._emit("phase", iteration=iteration, phase=name)

    def on_record(self, record: IterationRecord | SettleRecord | HoldoutRecord) -> None:
        """What was recorded: the whole record."""
        self._emit(record.kind, record=to_plain(record))

    def on_stopped(self, stop: Stop) -> None:
        """The end."""
        code = EXIT_CODES.get(stop.reason)
        self._emit("stopped", stop_reason=stop.reason, why=stop.why, next=stop.next, exit=code, line=stop.line)

    def _emit(self, event: str, **fields: object) -> None:
        selected = self._select({"event": event, **fields})
        if selected is not None:
            self._stream.write(json.dumps(selected) + "\n")
            self._stream.flush()
