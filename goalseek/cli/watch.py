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
from collections.abc import Callable, Collection, Iterator

from msgspec import structs

from goalseek.cli.output import apply_query, print_json, wants_json
from goalseek.manifest.loading import ManifestFile
from goalseek.project.observer import Observer
from goalseek.project.picture import seconds_since
from goalseek.project.status import read_overview
from goalseek.values import to_plain
from goalseek.views.events import EventWatch
from goalseek.views.following import ClimbFollower
from goalseek.views.lines import LineWatch, record_line
from goalseek.views.live import LiveWatch
from goalseek.views.panel import ASCII, LINE_DRAWING, Frame, format_whole_seconds, panel_rows
from goalseek.views.terminal_text import (
    can_move_cursor,
    choose_signs,
    clean_lines,
    one_line,
    painter,
    terminal_width,
)

if typing.TYPE_CHECKING:
    from rich.text import Text


def choose_view(options: argparse.Namespace) -> Observer:
    """JSON events with ``--json`` or ``--query``, lines otherwise."""
    if wants_json(options):
        apply_query(options, {})
        return EventWatch(sys.stdout, lambda event: apply_query(options, event))
    return line_view(options)


@contextlib.contextmanager
def open_live_view(options: argparse.Namespace) -> Iterator[Observer]:
    """A live panel where stdout is a terminal that can show one, without ``--json`` and ``-q``; else ``watch_for``."""
    if wants_json(options) or options.quiet or not can_move_cursor(sys.stdout):
        yield choose_view(options)
        return
    chatter = painter(sys.stderr, options.color)
    watch = LiveWatch(painter(sys.stdout, options.color), options.verbose, chatter, options.color)
    try:
        yield watch
    finally:
        watch.close()


def line_view(options: argparse.Namespace) -> LineWatch:
    """Lines, also with ``--json``: what commands that do not climb report while they work all goes to stderr."""
    chatter = painter(sys.stderr, options.color)
    return LineWatch(painter(sys.stdout, options.color), options.quiet, options.verbose, chatter)


POLL_SECONDS = 1.0
_OUTPUT_AT_FIRST = 20


def follow_climb(options: argparse.Namespace, loaded: ManifestFile) -> int:
    """Shows a climb until it ends; at a terminal until q or ^C, as another process may go on with it."""
    follower = ClimbFollower(loaded)
    with contextlib.suppress(KeyboardInterrupt):
        if wants_json(options):
            _print_json_until_end(options, loaded, follower)
        elif can_move_cursor(sys.stdout) and not options.quiet:
            _show_panel_until_key(options, follower)
        else:
            _print_lines_until_end(options, follower)
    return 0


def _show_panel_until_key(options: argparse.Namespace, follower: ClimbFollower) -> None:
    from goalseek.views.screen import Screen

    frame, at = follower.look(), time.monotonic()
    signs, is_first = choose_signs(sys.stdout, LINE_DRAWING, ASCII), True

    def draw_rows(columns: int) -> list[Text]:
        since = time.monotonic() - at
        now = structs.replace(frame, seconds=frame.seconds + since, since=frame.since + since)
        return panel_rows(now, columns, signs)

    screen = Screen(options.color, draw_rows)
    screen.start()
    try:
        with _keys() as read_key:
            while True:
                _print_news(options, follower, is_first)
                is_first = False
                if read_key(POLL_SECONDS) in ("q", "Q", "\x04"):
                    return
                frame, at = follower.look(), time.monotonic()
    finally:
        screen.stop()


def _look_until_end(follower: ClimbFollower) -> Iterator[Frame]:
    """The frame once a second, the last one when the climb has ended."""
    while not (frame := follower.look()).ended:
        yield frame
        time.sleep(POLL_SECONDS)
    yield frame


def _print_lines_until_end(options: argparse.Namespace, follower: ClimbFollower) -> None:
    previous: Collection[tuple[int | None, str | None, str]] = ()
    is_first = True
    for frame in _look_until_end(follower):
        _print_news(options, follower, is_first)
        is_first, picture = False, frame.picture
        if frame.ended:
            print(frame.ended, flush=True)
            return
        current = {(picture.iteration, picture.phase, picture.waits): frame.seconds}
        if under_way := picture.under_way:
            current = {(one.iteration, one.phase, one.waits): seconds_since(one.since) or 0.0 for one in under_way}
        for (iteration, phase, waits), seconds in current.items():
            if (iteration, phase, waits) in previous:
                continue
            text = f"waiting: {one_line(waits)}" if waits else f"{phase or ''}, for {format_whole_seconds(seconds)}"
            print(f"{iteration if iteration is not None else '-':>4}  {text}", flush=True)
        previous = current


def _print_json_until_end(options: argparse.Namespace, loaded: ManifestFile, follower: ClimbFollower) -> None:
    """Prints the answer of ``status`` each time anything but its heartbeat has changed, until the climb ends."""
    previous = readable = None
    for _ in _look_until_end(follower):
        overview = read_overview(loaded, readable=readable)
        plain, readable = to_plain(overview), overview.readable
        current = {**plain, "heartbeat_at": None}
        if current != previous:
            print_json(options, plain)
            previous = current
        if options.output and follower.printed:
            print_json(options, {"event": "output", "lines": clean_lines(follower.printed)})


def _print_news(options: argparse.Namespace, follower: ClimbFollower, is_first: bool) -> None:
    if options.output:
        lines = clean_lines(follower.printed)
        if lines:
            print("\n".join(lines[-_OUTPUT_AT_FIRST:] if is_first else lines), flush=True)
    for record in follower.records:
        print(record_line(record, painter(sys.stdout, options.color), terminal_width(sys.stdout)), flush=True)


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
