"""A climb at work, read from its files by another process: its picture, its progress, new records and output."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from goalseek.ledger.results_file import History, find_own_folder, load_standing
from goalseek.locks import lock_holder
from goalseek.manifest.loading import ManifestFile, with_manifest_option
from goalseek.project.observer import OUTPUT, Observer
from goalseek.project.picture import Picture, describe_end, read_picture
from goalseek.project.progress import own_label, progress_of
from goalseek.project.stop import read_pending_run
from goalseek.records import IterationRecord
from goalseek.views.terminal_text import one_line

RECENT_RECORDS = 200


class ClimbFollower:
    """Reads the files of a climb repeatedly, and tells ``watch`` what they say, as the loop does of its own climb.

    A file that did not change is not read again. ``records`` are those since the look before, oldest first, and
    ``printed`` are the bytes printed since then; the first look has no new records, and all of the output so far.
    ``ended`` says how a climb ended that is not at work; else it is "".
    """

    def __init__(self, loaded: ManifestFile, watch: Observer) -> None:
        self.records: tuple[IterationRecord, ...] = ()
        self.printed = b""
        self.ended = ""
        self._loaded = loaded
        self._watch = watch
        self._size = -1
        self._seq: int | None = None
        self._offset = 0

    def look(self) -> Picture:
        """Tells what is new, and gives the present picture."""
        own = find_own_folder(self._loaded)
        picture = read_picture(self._loaded.state, is_held=own is not None and lock_holder(own) is not None)
        self.ended = ""
        if not picture.is_at_work:
            text = describe_end(picture.status, picture.stop_reason) + (f"; {picture.next}" if picture.next else "")
            text = "nobody has climbed here yet" if picture == Picture() else one_line(text)
            self.ended = with_manifest_option(text, self._loaded.path)
        self._watch.on_picture(picture)
        history, self.records = History(self._loaded.results), ()
        if (size := history.size()) != self._size:
            standing = load_standing(self._loaded, own)
            standing = standing.for_run((own and read_pending_run(own)) or standing.run_id)
            records = islice(history.newest(), RECENT_RECORDS)
            newest = [record for record in records if isinstance(record, IterationRecord)]
            manifest, last = self._loaded.manifest, standing.last.timestamp if standing.last else ""
            label, read_at = own_label(manifest, standing), max(last, picture.started_at)
            self._watch.on_progress(progress_of(manifest, standing, newest, label, read_at=read_at))
            if self._seq is not None:
                self.records = tuple(record for record in reversed(newest) if record.seq > self._seq)
            self._seq, self._size = standing.seq, size
        self.printed, self._offset = read_output(self._loaded.logs / OUTPUT, self._offset)
        if self.printed:
            self._watch.on_output(self.printed)
        return picture


def read_output(path: Path, start: int) -> tuple[bytes, int]:
    """The output of agent and verifier from ``start`` on, and where it ends; b"" where there is no such file.

    Below 0 it is that many of the last bytes; past the end it is all of the file, which has begun anew.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(size + start, 0) if start < 0 else start if start <= size else 0)
            return file.read(), file.tell()
    except OSError:
        return b"", max(start, 0)
