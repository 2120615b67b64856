"""``goalseek baseline``: a new baseline, and with it a new ruler."""

from __future__ import annotations

import argparse

from goalseek.cli.options import loaded
from goalseek.cli.watch import watch_for
from goalseek.loop import loop
from goalseek.loop.baseline import code_asked_for
from goalseek.loop.ending import shown_at_the_end
from goalseek.project.opening import check_fit_for_baseline, opened, refuse_baseline
from goalseek.project.refs import check_refs


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``baseline`` takes."""
    parser.add_argument("--from", dest="source", metavar="REV", help="new code as well, from this revision")


def run(options: argparse.Namespace) -> int:
    """Measures a baseline."""
    with opened(loaded(options), watch_for(options), doing="baseline") as project:
        refuse_baseline(project)
        check_fit_for_baseline(project, code_asked_for(project.repository, options.source))
        check_refs(project)
        with shown_at_the_end(project):
            loop.baseline(project, options.source)
    return 0
