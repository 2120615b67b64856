"""The state of a climb at work, read from its files by another process: progress, activity, new records and output."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from goalseek.ledger.records import IterationRecord
from goalseek.ledger.results_file import History, load_standing, own_folder
from goalseek.manifest.loading import ManifestFile, with_manifest_option
from goalseek.project.observer import OUTPUT
from goalseek.project.progress import Progress, own_label, progress_of
from goalseek.project.state_file import ACTIVE_STATUSES, describe_end, elapsed_since, read_state, read_under_way
from goalseek.project.stop import read_pending_run
from goalseek.views.panel import Activity, format_silence
from goalseek.views.terminal_text import TAIL_BYTES, last_clean_line, one_line

RECENT_RECORDS = 200


class ClimbState(Struct, frozen=True):
    """The state at one moment, the records since the look before, oldest first, and the bytes printed since then."""

    scene: Progress
    doing: Activity
    is_at_work: bool
    records: tuple[IterationRecord, ...] = ()
    printed: bytes = b""


class ClimbFollower:
    """Reads the files of a climb repeatedly; a file that did not change is not read again.

    The first look has no new records, and all of the output so far.
    """

    def __init__(self, loaded: ManifestFile) -> None:
        self._loaded = loaded
        self._size = -1
        self._seq: int | None = None
        self._progress = Progress("")
        self._progress_at = ""
        self._offset = 0
        self._tail = b""

    def look(self, is_held: bool) -> ClimbState:
        """The present state. ``is_held`` is whether a process holds the lock: otherwise no climb is at work."""
        state = read_state(self._loaded.state)
        records = self._read_records()
        printed = self._read_output()
        is_at_work = is_held and state.get("status") in ACTIVE_STATUSES
        return ClimbState(self._progress, self._activity(state, is_at_work), is_at_work, records, printed)

    def _read_records(self) -> tuple[IterationRecord, ...]:
        history = History(self._loaded.results)
        size = history.size()
        if size == self._size:
            return ()
        own = own_folder(self._loaded)
        standing = load_standing(self._loaded, own)
        standing = standing.for_run((own and read_pending_run(own)) or standing.run_id)
        newest = [record for record in islice(history.newest(), RECENT_RECORDS) if isinstance(record, IterationRecord)]
        manifest = self._loaded.manifest
        self._progress = progress_of(manifest, standing, newest, own_label(manifest, standing))
        self._progress_at = standing.last.timestamp if standing.last else ""
        previous, self._seq, self._size = self._seq, standing.seq, size
        return () if previous is None else tuple(record for record in reversed(newest) if record.seq > previous)

    def _read_output(self) -> bytes:
        try:
            with (self._loaded.logs / OUTPUT).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(self._offset if self._offset <= size else 0)
                printed = file.read()
                self._offset = file.tell()
        except OSError:
            return b""
        self._tail = (self._tail + printed[-TAIL_BYTES:])[-TAIL_BYTES:]
        return printed

    def _activity(self, state: dict[str, Any], is_at_work: bool) -> Activity:
        if not is_at_work:
            return Activity(ended=with_manifest_option(_ending(state), self._loaded.path))
        phase, iteration = state.get("phase"), state.get("iteration")
        moments = filter(None, (self._progress_at, state.get("started_at")))
        return Activity(
            iteration=iteration if isinstance(iteration, int) else None,
            phase=phase if isinstance(phase, str) else "",
            seconds=elapsed_since(state.get("phase_started_at")),
            since=min(map(elapsed_since, moments), default=0.0),  # what is not in a record yet
            turn=one_line(str(state.get("turn", ""))),
            waits=one_line(str(state.get("next", ""))) if state.get("status") == "waiting" else "",
            says=format_silence(elapsed_since(state.get("silent_since"))) or last_clean_line(self._tail),
            under_way=read_under_way(state),
            balance=one_line(str(state.get("balance", ""))),
        )


def read_output_tail(path: Path, limit: int = 2**16) -> bytes:
    """The last ``limit`` bytes of the output of agent and verifier; b"" where there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - limit, 0))
            return file.read()
    except OSError:
        return b""


def _ending(state: dict[str, Any]) -> str:
    if not state:
        return "nobody has climbed here yet"
    status = str(state.get("status", ""))
    if status in ACTIVE_STATUSES:
        return "interrupted; goalseek iterate goes on"
    text = describe_end(status, state.get("stop_reason"))
    return one_line(text + (f"; {state['next']}" if state.get("next") else ""))
