"""A climb at work, read from its files by another process: its picture, its progress, new records and output."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from goalseek.ledger.records import IterationRecord
from goalseek.ledger.results_file import History, load_standing, own_folder
from goalseek.locks import lock_holder
from goalseek.manifest.loading import ManifestFile, with_manifest_option
from goalseek.project.observer import OUTPUT
from goalseek.project.picture import Picture, describe_end, read_picture, seconds_since
from goalseek.project.progress import Progress, own_label, progress_of
from goalseek.project.stop import read_pending_run
from goalseek.views.panel import Frame, format_silence
from goalseek.views.terminal_text import TAIL_BYTES, last_clean_line, one_line

RECENT_RECORDS = 200


class ClimbFollower:
    """Reads the files of a climb repeatedly; a file that did not change is not read again.

    ``records`` are those since the look before, oldest first, and ``printed`` are the bytes printed since then. The
    first look has no new records, and all of the output so far.
    """

    def __init__(self, loaded: ManifestFile) -> None:
        self._loaded = loaded
        self._size = -1
        self._seq: int | None = None
        self._progress = Progress("")
        self._progress_at = ""
        self._offset = 0
        self._tail = b""
        self.records: tuple[IterationRecord, ...] = ()
        self.printed = b""

    def look(self) -> Frame:
        """The present frame."""
        own = own_folder(self._loaded)
        picture = read_picture(self._loaded.state, is_held=own is not None and lock_holder(own) is not None)
        self.records, self.printed = self._read_records(own), self._read_output()
        if not picture.is_at_work:
            return Frame(self._progress, ended=with_manifest_option(_ending(picture), self._loaded.path))
        moments = (seconds_since(moment) for moment in (self._progress_at, picture.started_at))
        return Frame(
            self._progress,
            picture,
            seconds=seconds_since(picture.phase_started_at) or 0.0,
            since=min((one for one in moments if one is not None), default=0.0),  # what is not in a record yet
            says=format_silence(seconds_since(picture.silent_since) or 0.0) or last_clean_line(self._tail),
        )

    def _read_records(self, own: Path | None) -> tuple[IterationRecord, ...]:
        history = History(self._loaded.results)
        size = history.size()
        if size == self._size:
            return ()
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


def read_output_tail(path: Path, limit: int = 2**16) -> bytes:
    """The last ``limit`` bytes of the output of agent and verifier; b"" where there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - limit, 0))
            return file.read()
    except OSError:
        return b""


def _ending(picture: Picture) -> str:
    if picture == Picture():
        return "nobody has climbed here yet"
    text = describe_end(picture.status, picture.stop_reason)
    return one_line(text + (f"; {picture.next}" if picture.next else ""))
