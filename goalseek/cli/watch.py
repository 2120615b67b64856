"""Which view a climb is shown in."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import termios
import time
import tty
import typing
from collections.abc import Callable, Iterator
from dataclasses import replace

from goalseek.cli.output import answer, queried, wants_json
from goalseek.ledger.results_file import own_folder
from goalseek.locks import holder_of
from goalseek.manifest.loading import Loaded
from goalseek.project.status import overview
from goalseek.project.watch import Watch
from goalseek.values import to_plain
from goalseek.views.events import EventWatch
from goalseek.views.following import Following, Look
from goalseek.views.lines import LineWatch, record_line
from goalseek.views.live import LiveWatch, signs_for
from goalseek.views.panel import duration, rows
from goalseek.views.terminal_text import is_coloured, is_movable, lines_of, painter, width_of

if typing.TYPE_CHECKING:
    from rich.text import Text


def watch_for(options: argparse.Namespace) -> Watch:
    """Events for ``--json``, lines otherwise."""
    if wants_json(options):
        queried(options, {})
        return EventWatch(sys.stdout, lambda event: queried(options, event))
    return watch_in_words(options)


@contextlib.contextmanager
def watch_live(options: argparse.Namespace) -> Iterator[Watch]:
    """A panel where standard output is a terminal that can show one, and words are wanted; else as ``watch_for``."""
    if wants_json(options) or options.quiet or not is_movable(sys.stdout):
        yield watch_for(options)
        return
    chatter = painter(sys.stderr, options.color)
    watch = LiveWatch(painter(sys.stdout, options.color), options.verbose, chatter, options.color)
    try:
        yield watch
    finally:
        watch.close()


def watch_in_words(options: argparse.Namespace) -> LineWatch:
    """Lines, also beside a JSON answer: of what is told before a climb, all is chatter on stderr."""
    chatter = painter(sys.stderr, options.color)
    return LineWatch(painter(sys.stdout, options.color), options.quiet, options.verbose, chatter)


POLL_SECONDS = 1.0
_OUTPUT_AT_FIRST = 20


def watch(options: argparse.Namespace, loaded: Loaded) -> int:
    """Shows the climb while it is at work; at a terminal also after that, as somebody may go on with it."""
    following, own = Following(loaded), own_folder(loaded)

    def look() -> Look:
        return following.look(own is not None and holder_of(own) is not None)

    if wants_json(options):
        return _in_json(options, loaded, look)
    if is_movable(sys.stdout) and not options.quiet:
        return _on_screen(options, look)
    return _in_lines(options, look)


def _on_screen(options: argparse.Namespace, look: Callable[[], Look]) -> int:
    from goalseek.views.screen import Screen, console_for

    seen, at = look(), time.monotonic()
    signs, is_first = signs_for(sys.stdout.encoding), True

    def shown(columns: int) -> list[Text]:
        since = time.monotonic() - at
        doing = replace(seen.doing, seconds=seen.doing.seconds + since, since=seen.doing.since + since)
        return rows(seen.scene, doing, columns, signs)

    screen = Screen(console_for(sys.stdout, is_coloured(sys.stdout, options.color)), shown)
    screen.start()
    try:
        with _keys() as pressed:
            while True:
                _tell(options, seen, is_first)
                is_first = False
                if pressed(POLL_SECONDS) in ("q", "Q", "\x04"):
                    return 0
                seen, at = look(), time.monotonic()
    except KeyboardInterrupt:
        return 0
    finally:
        screen.stop()


def _in_lines(options: argparse.Namespace, look: Callable[[], Look]) -> int:
    """A line for each phase and each record, until nobody is at work."""
    shown, is_first = None, True
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            seen = look()
            _tell(options, seen, is_first)
            is_first = False
            doing = seen.doing
            now = (doing.iteration, doing.phase, doing.waits)
            if seen.is_at_work and now != shown:
                told = f"waiting: {doing.waits}" if doing.waits else f"{doing.phase}, for {duration(doing.seconds)}"
                print(f"{doing.iteration if doing.iteration is not None else '-':>4}  {told}", flush=True)
                shown = now
            if not seen.is_at_work:
                print(doing.ended, flush=True)
                return 0
            time.sleep(POLL_SECONDS)
    return 0


def _in_json(options: argparse.Namespace, loaded: Loaded, look: Callable[[], Look]) -> int:
    """The answer of ``status`` whenever it has changed but for its heartbeat, until nobody is at work."""
    before = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            seen, plain = look(), to_plain(overview(loaded))
            now = {**plain, "heartbeat_at": None}
            if now != before:
                answer(options, plain)
                before = now
            if options.output and seen.printed:
                answer(options, {"event": "output", "lines": lines_of(seen.printed)})
            if not seen.is_at_work:
                return 0
            time.sleep(POLL_SECONDS)
    return 0


def _tell(options: argparse.Namespace, seen: Look, is_first: bool) -> None:
    """What is new, in lines that stay."""
    if options.output:
        lines = lines_of(seen.printed)
        if lines:
            print("\n".join(lines[-_OUTPUT_AT_FIRST:] if is_first else lines), flush=True)
    for record in seen.records:
        print(record_line(record, painter(sys.stdout, options.color), width_of(sys.stdout)), flush=True)


def _wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds for a key, "" where none came; without a terminal it only waits."""
    try:
        descriptor = sys.stdin.fileno()
        found = termios.tcgetattr(descriptor)
        if os.tcgetpgrp(descriptor) != os.getpgrp():
            raise OSError("in the background")
    except (termios.error, OSError, ValueError):
        yield _wait
        return

    def pressed(seconds: float) -> str:
        if not select.select([descriptor], [], [], seconds)[0]:
            return ""
        return os.read(descriptor, 1).decode("latin-1") or "q"

    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        yield pressed
    finally:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, found)
