"""The choice of the view that shows a climb, and ``status --watch``, which follows one from another terminal."""

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
    """JSON events with ``--json`` or ``--query``, lines otherwise."""
    if wants_json(options):
        queried(options, {})
        return EventWatch(sys.stdout, lambda event: queried(options, event))
    return watch_in_words(options)


@contextlib.contextmanager
def watch_live(options: argparse.Namespace) -> Iterator[Watch]:
    """A live panel where stdout is a terminal that can show one, without ``--json`` and ``-q``; else ``watch_for``."""
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
    """Lines, also with ``--json``: what commands that do not climb report while they work all goes to stderr."""
    chatter = painter(sys.stderr, options.color)
    return LineWatch(painter(sys.stdout, options.color), options.quiet, options.verbose, chatter)


POLL_SECONDS = 1.0
_OUTPUT_AT_FIRST = 20


def watch(options: argparse.Namespace, loaded: Loaded) -> int:
    """Shows a climb until it ends; at a terminal until q or ^C, as another process may go on with it."""
    follower, own = Following(loaded), own_folder(loaded)

    def look() -> Look:
        return follower.look(own is not None and holder_of(own) is not None)

    if wants_json(options):
        return _in_json(options, loaded, look)
    if is_movable(sys.stdout) and not options.quiet:
        return _on_screen(options, look)
    return _in_lines(options, look)


def _on_screen(options: argparse.Namespace, look: Callable[[], Look]) -> int:
    from goalseek.views.screen import Screen, console_for

    snapshot, at = look(), time.monotonic()
    signs, is_first = signs_for(sys.stdout.encoding), True

    def draw_rows(columns: int) -> list[Text]:
        since = time.monotonic() - at
        activity = replace(snapshot.doing, seconds=snapshot.doing.seconds + since, since=snapshot.doing.since + since)
        return rows(snapshot.scene, activity, columns, signs)

    screen = Screen(console_for(sys.stdout, is_coloured(sys.stdout, options.color)), draw_rows)
    screen.start()
    try:
        with _keys() as read_key:
            while True:
                _print_news(options, snapshot, is_first)
                is_first = False
                if read_key(POLL_SECONDS) in ("q", "Q", "\x04"):
                    return 0
                snapshot, at = look(), time.monotonic()
    except KeyboardInterrupt:
        return 0
    finally:
        screen.stop()


def _in_lines(options: argparse.Namespace, look: Callable[[], Look]) -> int:
    """Prints a line for each phase and each record until the climb ends."""
    previous, is_first = None, True
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            snapshot = look()
            _print_news(options, snapshot, is_first)
            is_first = False
            activity = snapshot.doing
            current = (activity.iteration, activity.phase, activity.waits)
            if snapshot.is_at_work and current != previous:
                text = (
                    f"waiting: {activity.waits}"
                    if activity.waits
                    else f"{activity.phase}, for {duration(activity.seconds)}"
                )
                print(f"{activity.iteration if activity.iteration is not None else '-':>4}  {text}", flush=True)
                previous = current
            if not snapshot.is_at_work:
                print(activity.ended, flush=True)
                return 0
            time.sleep(POLL_SECONDS)
    return 0


def _in_json(options: argparse.Namespace, loaded: Loaded, look: Callable[[], Look]) -> int:
    """Prints the answer of ``status`` each time anything but its heartbeat has changed, until the climb ends."""
    previous = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            snapshot, plain = look(), to_plain(overview(loaded))
            current = {**plain, "heartbeat_at": None}
            if current != previous:
                answer(options, plain)
                previous = current
            if options.output and snapshot.printed:
                answer(options, {"event": "output", "lines": lines_of(snapshot.printed)})
            if not snapshot.is_at_work:
                return 0
            time.sleep(POLL_SECONDS)
    return 0


def _print_news(options: argparse.Namespace, snapshot: Look, is_first: bool) -> None:
    """Prints new output and a line for each new record."""
    if options.output:
        lines = lines_of(snapshot.printed)
        if lines:
            print("\n".join(lines[-_OUTPUT_AT_FIRST:] if is_first else lines), flush=True)
    for record in snapshot.records:
        print(record_line(record, painter(sys.stdout, options.color), width_of(sys.stdout)), flush=True)


def _wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function (seconds) that waits for a key and gives it, "" if none came; without a terminal it only waits."""
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
