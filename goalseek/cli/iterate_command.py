"""``goalseek iterate``: one iteration, so many, or until a limit."""

from __future__ import annotations

import argparse
from collections import deque

from goalseek import humanize
from goalseek.cli.detaching import detach
from goalseek.cli.options import loaded
from goalseek.cli.watching import watch_live
from goalseek.errors import LOCKED, GoalseekError
from goalseek.loop import loop
from goalseek.manifest.loading import Loaded
from goalseek.project import stop
from goalseek.project.opening import asked_provider, opened
from goalseek.project.project import Run


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``iterate`` takes."""
    many = parser.add_mutually_exclusive_group()
    many.add_argument("-n", dest="count", type=int, metavar="N", help="so many iterations (1)")
    many.add_argument("--forever", action="store_true", help="until a limit, the target, or ^C")
    parser.add_argument("--for", dest="duration", metavar="8h", help="no new iteration after so long")
    parser.add_argument("--until", metavar="'accuracy>=0.99'", help="NAME OP NUMBER, of the metric or a guard")
    parser.add_argument("--provider", metavar="P", help="who proposes, instead of the manifest's")
    parser.add_argument("--model", metavar="M", help="the provider's model")
    parser.add_argument("--new", action="store_true", help="begin a new run")
    parser.add_argument("--no-wait", action="store_true", help="where another run is at work, end with 0, silently")
    parser.add_argument("--detach", action="store_true", help="climb on away from this terminal, and say how to watch")


def run(options: argparse.Namespace) -> int:
    """Climbs."""
    manifest = loaded(options)
    ends = _ends(options, manifest)
    if options.detach:
        return detach(options, manifest)
    asked = asked_provider(manifest, options.provider, options.model)
    try:
        with watch_live(options) as watch, opened(manifest, watch, asked, options.new, "iterate") as opened_run:
            return climb(opened_run, ends)
    except GoalseekError as error:
        if error.exit_code == LOCKED and options.no_wait:
            return 0
        raise


def climb(opened_run: Run, ends: stop.Ends) -> int:
    """Iterates to an end; gives the exit code."""
    deque(loop.iterate(opened_run, ends), maxlen=0)  # no line of ours between two records: a signal meets the loop
    return opened_run.stop.exit_code if opened_run.stop else 0


def _ends(options: argparse.Namespace, manifest: Loaded) -> stop.Ends:
    if options.count is not None and options.count < 1:
        raise GoalseekError(f"-n {options.count}: at least 1", "-n 10, or --forever")
    names = (manifest.manifest.metric.name, *(guard.name for guard in manifest.manifest.guard))
    try:
        seconds = humanize.seconds(options.duration) if options.duration is not None else None
        until = stop.until(options.until, names) if options.until is not None else None
    except ValueError as error:
        raise GoalseekError(str(error), "see: goalseek iterate --help") from None
    is_open = options.forever or seconds is not None or until is not None
    count = options.count if options.count is not None else None if is_open else 1
    return stop.Ends(count, seconds, until)
