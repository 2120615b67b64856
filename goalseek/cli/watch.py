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
from typing import Any

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
ShownPhase = tuple[int | None, str | None, str]


def follow_climb(options: argparse.Namespace, loaded: ManifestFile) -> int:
    """Shows a climb until it ends; at a terminal until q or ^C, as another process may go on with it.

    As JSON it is the answer of ``status``, each time anything but its heartbeat has changed.
    """
    is_json = wants_json(options)
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
                overview = read_overview(loaded, readable=readable)
                plain, readable = overview.plain(), overview.readable
                if (current := {**plain, "heartbeat_at": None}) != previous:
                    print_json(options, plain)
                    previous = current
                if options.output and follower.printed:
                    print_json(options, {"event": "output", "lines": lines})
            else:
                if lines:
                    print("\n".join(lines[shown_lines:]), flush=True)
                for record in follower.records:
                    line = record_line(record, painter(sys.stdout, options.color), terminal_width(sys.stdout))
                    print(line, flush=True)
                shown_lines = 0
                if has_panel:
                    panel.ended = follower.ended
                elif follower.ended:
                    print(follower.ended, flush=True)
                else:
                    previous = _print_phases(picture, previous or ())
            if not (has_panel or picture.is_at_work) or read_key(POLL_SECONDS) in ("q", "Q", "\x04"):
                return 0
            picture = follower.look()
    return 0


def _print_phases(picture: Picture, previous: Collection[ShownPhase]) -> Collection[ShownPhase]:
    """Prints a line for each phase or wait that is not among the ``previous`` ones; gives the present ones."""
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
