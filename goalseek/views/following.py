"""A climb followed from another terminal: what its files say now, and what was added since they were looked at last."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from goalseek.ledger.records import IterationRecord
from goalseek.ledger.results_file import History, load_standing
from goalseek.manifest.loading import Loaded, with_manifest_option
from goalseek.project.progress import Progress, scene_of
from goalseek.project.state_file import AT_WORK, read_state
from goalseek.project.watch import OUTPUT
from goalseek.views.panel import Activity
from goalseek.views.terminal_text import TAIL_BYTES, last_line_of, one_line

RECENT = 200


@dataclass(frozen=True)
class Look:
    """What one look found: the scene, what goes on, and what is new: records oldest first, and what was printed."""

    scene: Progress
    doing: Activity
    is_at_work: bool
    records: tuple[IterationRecord, ...] = ()
    printed: bytes = b""


@dataclass
class Following:
    """Looks at the files of a climb again and again. What did not change is not read again.

    The first look tells no records as new, and of the output what is there by then.
    """

    loaded: Loaded
    _size: int = -1
    _seq: int | None = None
    _scene: Progress | None = None
    _scene_at: str = ""
    _offset: int = 0
    _tail: bytes = field(default=b"")

    def look(self, is_held: bool) -> Look:
        """What there is now; ``is_held`` is whether somebody holds the lock, without which nobody is at work."""
        picture = read_state(self.loaded.state)
        records = self._read_records()
        printed = self._read_output()
        assert self._scene is not None
        is_at_work = is_held and picture.get("status") in AT_WORK
        return Look(self._scene, self._doing(picture, is_at_work), is_at_work, records, printed)

    def _read_records(self) -> tuple[IterationRecord, ...]:
        history = History(self.loaded.results)
        size = history.size()
        if size == self._size and self._scene is not None:
            return ()
        standing = load_standing(self.loaded)
        newest = [record for record in islice(history.newest(), RECENT) if isinstance(record, IterationRecord)]
        manifest = self.loaded.manifest
        self._scene = scene_of(manifest.project.name, manifest.limits, standing, newest)
        self._scene_at = standing.last.timestamp if standing.last else ""
        known, self._seq, self._size = self._seq, standing.seq, size
        return () if known is None else tuple(record for record in reversed(newest) if record.seq > known)

    def _read_output(self) -> bytes:
        path = self.loaded.logs / OUTPUT
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(self._offset if self._offset <= size else 0)
                printed = file.read()
                self._offset = file.tell()
        except OSError:
            return b""
        self._tail = (self._tail + printed[-TAIL_BYTES:])[-TAIL_BYTES:]
        return printed

    def _doing(self, picture: dict[str, Any], is_at_work: bool) -> Activity:
        phase, iteration = picture.get("phase"), picture.get("iteration")
        if not is_at_work:
            return Activity(ended=with_manifest_option(_ended(picture), self.loaded.path))
        waits = one_line(str(picture.get("next", ""))) if picture.get("status") == "waiting" else ""
        return Activity(
            iteration=iteration if isinstance(iteration, int) else None,
            phase=phase if isinstance(phase, str) else "",
            seconds=seconds_since(picture.get("phase_started_at")),
            since=self._since(picture),
            turn=one_line(str(picture.get("turn", ""))),
            waits=waits,
            says=last_line_of(self._tail),
        )

    def _since(self, picture: dict[str, Any]) -> float:
        """The seconds that the scene knows nothing of: since the last record, or since the invocation began."""
        moments = (self._scene_at, picture.get("started_at"))
        return min((seconds_since(moment) for moment in moments if moment), default=0.0)


def output_of(path: Path, most: int = 2**16) -> bytes:
    """The end of what children printed, b"" where nothing is kept."""
    try:
        with path.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - most, 0))
            return file.read()
    except OSError:
        return b""


def seconds_since(moment: object) -> float:
    """How long ago a stored time was; 0 where it is none."""
    try:
        return max((datetime.now(UTC) - datetime.fromisoformat(str(moment))).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0


def _ended(picture: dict[str, Any]) -> str:
    if not picture:
        return "nobody has climbed here yet"
    status = str(picture.get("status", ""))
    if status in AT_WORK:
        return "interrupted; goalseek iterate goes on"
    reason = picture.get("stop_reason")
    told = status + (f" ({reason})" if reason and reason != status else "")
    return one_line(told + (f"; {picture['next']}" if picture.get("next") else ""))
