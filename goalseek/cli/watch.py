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
from collections.abc import Callable, Collection, Iterator

from goalseek.cli.output import apply_query, print_json, wants_json
from goalseek.manifest.loading import ManifestFile
from goalseek.project.observer import Observer
from goalseek.project.picture import Picture, seconds_since
from goalseek.project.status import read_overview
from goalseek.views.events import EventWatch
from goalseek.views.following import ClimbFollower
from goalseek.views.lines import LineWatch, record_line
from goalseek.views.live import LiveWatch
from goalseek.views.panel import format_whole_seconds
from goalseek.views.terminal_text import (
    can_move_cursor,
    clean_lines,
    one_line,
    painter,
    terminal_width,
)


def choose_view(options: argparse.Namespace) -> Observer:
    """JSON events with ``--json`` or ``--query``, lines otherwise."""
    if wants_json(options):
        apply_query(options, {})
        return EventWatch(sys.stdout, lambda event: apply_query(options, event))
    return line_view(options)


@contextlib.contextmanager
def open_live_view(options: argparse.Namespace) -> Iterator[Observer]:
    """A live panel where stdout is a terminal that shows one, without ``--json`` and ``-q``; else ``choose_view``."""
    if wants_json(options) or options.quiet or not can_move_cursor(sys.stdout):
        yield choose_view(options)
        return
    with contextlib.closing(LiveWatch(options.color, options.verbose)) as watch:
        yield watch


def line_view(options: argparse.Namespace) -> LineWatch:
    """Lines, also with ``--json``: what commands that do not climb report while they work all goes to stderr."""
    return LineWatch(options.color, options.quiet, options.verbose)


POLL_SECONDS = 1.0
_OUTPUT_AT_FIRST = 20


def follow_climb(options: argparse.Namespace, loaded: ManifestFile) -> int:
    """Shows a climb until it ends; at a terminal until q or ^C, as another process may go on with it."""
    with contextlib.suppress(KeyboardInterrupt):
        if wants_json(options):
            _print_json_until_end(options, loaded)
        elif can_move_cursor(sys.stdout) and not options.quiet:
            _show_panel_until_key(options, loaded)
        else:
            _print_lines_until_end(options, loaded)
    return 0


def _show_panel_until_key(options: argparse.Namespace, loaded: ManifestFile) -> None:
    with contextlib.closing(LiveWatch(options.color, options.verbose)) as watch:
        follower, is_first = ClimbFollower(loaded, watch), True
        follower.look()  # opens the panel before keys are read: each restores the terminal's modes that it found
        with _keys() as read_key:
            while True:
                watch.ended = follower.ended
                _print_news(options, follower, is_first)
                is_first = False
                if read_key(POLL_SECONDS) in ("q", "Q", "\x04"):
                    return
                follower.look()


def _look_until_end(follower: ClimbFollower) -> Iterator[Picture]:
    """The picture once a second, the last one when the climb has ended."""
    while (picture := follower.look()).is_at_work:
        yield picture
        time.sleep(POLL_SECONDS)
    yield picture


def _print_lines_until_end(options: argparse.Namespace, loaded: ManifestFile) -> None:
    previous: Collection[tuple[int | None, str | None, str]] = ()
    follower, is_first = ClimbFollower(loaded, Observer()), True
    for picture in _look_until_end(follower):
        _print_news(options, follower, is_first)
        is_first = False
        if follower.ended:
            print(follower.ended, flush=True)
            return
        current: dict[tuple[int | None, str | None, str], str | None] = {
            (one.iteration, one.phase, one.waits): one.since for one in picture.under_way
        } or {(picture.iteration, picture.phase, picture.waits): picture.phase_started_at}
        for (iteration, phase, waits), since in current.items():
            if (iteration, phase, waits) in previous:
                continue
            duration = format_whole_seconds(seconds_since(since))
            text = f"waiting: {one_line(waits)}" if waits else f"{phase or ''}, for {duration}"
            print(f"{iteration if iteration is not None else '-':>4}  {text}", flush=True)
        previous = current


def _print_json_until_end(options: argparse.Namespace, loaded: ManifestFile) -> None:
    """Prints the answer of ``status`` each time anything but its heartbeat has changed, until the climb ends."""
    previous = readable = None
    follower = ClimbFollower(loaded, Observer())
    for _ in _look_until_end(follower):
        overview = read_overview(loaded, readable=readable)
        plain, readable = overview.plain(), overview.readable
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
