"""Which view a climb is shown in."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator

from goalseek.cli.output import queried, wants_json
from goalseek.project.watch import Watch
from goalseek.views.events import EventWatch
from goalseek.views.lines import LineWatch
from goalseek.views.live import LiveWatch
from goalseek.views.style import is_movable, painter


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
