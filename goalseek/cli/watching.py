"""Which view a climb is shown in."""

from __future__ import annotations

import argparse
import sys

from goalseek.cli.answer import queried, wants_json
from goalseek.views.lines import EventWatch, LineWatch
from goalseek.views.style import painter
from goalseek.watch import Watch


def watch_for(options: argparse.Namespace) -> Watch:
    """Events for ``--json``, lines otherwise."""
    if wants_json(options):
        queried(options, {})
        return EventWatch(sys.stdout, lambda event: queried(options, event))
    return watch_in_words(options)


def watch_in_words(options: argparse.Namespace) -> LineWatch:
    """Lines, also beside a JSON answer: of what is told before a climb, all is chatter on stderr."""
    chatter = painter(sys.stderr, options.color)
    return LineWatch(painter(sys.stdout, options.color), options.quiet, options.verbose, chatter)
