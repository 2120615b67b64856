"""``status --watch``, which follows a climb from another terminal."""

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from goalseek.cli.options import Options
from goalseek.ledger.results_file import History, find_own_folder, load_standing
from goalseek.locks import lock_holder
from goalseek.manifest.loading import ManifestFile, with_manifest_option
from goalseek.project import progress, status, stop
from goalseek.project.activity import OUTPUT, Observer
from goalseek.project.picture import Picture, describe_end, read_picture, seconds_since
from goalseek.records import IterationRecord
from goalseek.views.lines import record_line
from goalseek.views.panel import LiveWatch, format_whole_seconds
from goalseek.views.terminal_text import can_move_cursor, clean_lines, one_line, terminal_width

RECENT_RECORDS = 200
POLL_SECONDS = 1.0
_OUTPUT_AT_FIRST = 20
ShownPhase = tuple[int | None, str | None, str]


class ClimbFollower:
    """Tells ``watch`` what the files of a climb say, as the loop does of its own climb.

    ``records`` are those since the last look, oldest first, and ``printed`` is the output since then; the first look
    has no records, and all output. ``ended`` says how an idle climb ended.
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
            standing = standing.for_run((own and stop.read_pending_run(own)) or standing.run_id)
            records = islice(history.newest(), RECENT_RECORDS)
            newest = [record for record in records if isinstance(record, IterationRecord)]
            manifest, last = self._loaded.manifest, standing.last.timestamp if standing.last else ""
            label, read_at = progress.own_label(manifest, standing), max(last, picture.started_at)
            self._watch.on_progress(progress.progress_of(manifest, standing, newest, label, read_at=read_at))
            if self._seq is not None:
                self.records = tuple(record for record in reversed(newest) if record.seq > self._seq)
            self._seq, self._size = standing.seq, size
        self.printed, self._offset = read_output(self._loaded.logs / OUTPUT, self._offset)
        if self.printed:
            self._watch.on_output(self.printed)
        return picture


def read_output(path: Path, start: int) -> tuple[bytes, int]:
    """The output and its end. A negative ``start`` counts from the end; past the end, the file has begun anew."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(size + start, 0) if start < 0 else start if start <= size else 0)
            return file.read(), file.tell()
    except OSError:
        return b"", max(start, 0)


def follow_climb(options: Options, loaded: ManifestFile) -> None:
    """Shows a climb until it ends; at a terminal until q or ^C, as another process may go on with it."""
    is_json = options.wants_json
    has_panel = not is_json and can_move_cursor(sys.stdout) and not options.quiet
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        watch: Observer = Observer()
        if has_panel:
            watch = panel = stack.enter_context(contextlib.closing(LiveWatch(options.color, options.verbose)))
        follower = ClimbFollower(loaded, watch)
        picture = follower.look()  # opens the panel before keys are read: each restores the modes that it found
        read_key = stack.enter_context(_keys()) if has_panel else _wait
        previous: Any = None
        readable: tuple[str, ...] | None = None
        shown_lines = -_OUTPUT_AT_FIRST
        while True:
            lines = clean_lines(follower.printed) if options.output else []
            if is_json:
                overview = status.read_overview(loaded, readable=readable)
                plain, readable = overview.plain(), overview.readable
                if (current := {**plain, "heartbeat_at": None}) != previous:  # more than its heartbeat has changed
                    options.print_answer(plain)
                    previous = current
                if options.output and follower.printed:
                    options.print_answer({"event": "output", "lines": lines})
            else:
                if lines:
                    print("\n".join(lines[shown_lines:]), flush=True)
                for record in follower.records:
                    line = record_line(record, options.painter(), terminal_width(sys.stdout))
                    print(line, flush=True)
                shown_lines = 0
                if has_panel:
                    panel.ended = follower.ended
                elif follower.ended:
                    print(follower.ended, flush=True)
                else:
                    previous = _print_phases(picture, previous or ())
            if not (has_panel or picture.is_at_work) or read_key(POLL_SECONDS) in ("q", "Q", "\x04"):
                return
            picture = follower.look()


def _print_phases(picture: Picture, previous: Collection[ShownPhase]) -> Collection[ShownPhase]:
    current: dict[ShownPhase, str | None] = {
        (one.iteration, one.phase, one.waits): one.since for one in picture.under_way
    } or {(picture.iteration, picture.phase, picture.waits): picture.phase_started_at}
    for (iteration, phase, waits), since in current.items():
        if (iteration, phase, waits) not in previous:
            duration = format_whole_seconds(seconds_since(since))
            text = f"waiting: {one_line(waits)}" if waits else f"{phase or ''}, for {duration}"
            print(f"{iteration if iteration is not None else '-':>4}  {text}", flush=True)
    return current


def _wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function (seconds) that waits for a key and gives it, or ""; without a terminal it only waits."""
    try:
        descriptor = sys.stdin.fileno()
        modes = termios.tcgetattr(descriptor)
        if os.tcgetpgrp(descriptor) != os.getpgrp():
            raise OSError("in the background")
    except (termios.error, OSError, ValueError):
        yield _wait
        return

    def read_key(seconds: float) -> str:
        if not select.select([descriptor], [], [], seconds)[0]:
            return ""
        return os.read(descriptor, 1).decode("latin-1") or "q"

    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        yield read_key
    finally:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
