"""``goalseek iterate``: one iteration, so many, or until a limit."""

from __future__ import annotations

import argparse
import contextlib

from goalseek import limits, loop, units
from goalseek.cli.options import loaded
from goalseek.cli.watching import watch_for
from goalseek.errors import LOCKED, GoalseekError, Interrupted
from goalseek.full_disk import is_full_disk
from goalseek.landing import tell
from goalseek.limits import Stop
from goalseek.manifest_file import Loaded
from goalseek.notify import NotifyWatch
from goalseek.opening import asked_provider, opened
from goalseek.run import Run

_STATUS = {0: "completed", 1: "failed", 3: "blocked", 5: "blocked", 70: "failed"}


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


def run(options: argparse.Namespace) -> int:
    """Climbs."""
    manifest = loaded(options)
    ends = _ends(options, manifest)
    asked = asked_provider(manifest, options.provider, options.model)
    try:
        with opened(manifest, watch_for(options), asked, options.new) as opened_run:
            return climb(opened_run, ends)
    except GoalseekError as error:
        if error.exit_code == LOCKED and options.no_wait:
            return 0
        raise


def climb(opened_run: Run, ends: loop.Ends) -> int:
    """Iterates to an end, and leaves a picture of it; gives the exit code."""
    opened_run.watch = NotifyWatch(opened_run.watch, lambda: opened_run.loaded, opened_run.places.owner)
    try:
        for _ in loop.iterate(opened_run, ends):
            pass
    except (KeyboardInterrupt, Interrupted):
        _leave(opened_run, "interrupted", "interrupted", "the same command goes on")
        raise
    except GoalseekError as error:
        opened_run.watch.failed(Stop(error.stop_reason, error.message, error.hint))
        _leave(opened_run, _STATUS.get(error.exit_code, "failed"), error.stop_reason, error.hint)
        raise
    except Exception as error:
        status, reason = ("blocked", "disk") if is_full_disk(error) else ("failed", "bug")
        following = "make room; the same command goes on from here" if reason == "disk" else "report it"
        opened_run.watch.failed(Stop(reason, str(error), following))
        _leave(opened_run, status, reason, following)
        raise
    stop = opened_run.stop or Stop("count", "done")
    _leave(opened_run, _STATUS[stop.exit_code], stop.reason, stop.next)
    return stop.exit_code


def _leave(opened_run: Run, status: str, reason: str, following: str) -> None:
    if opened_run.standing.seq < 0:
        return
    last = opened_run.standing.last_iteration
    with contextlib.suppress(OSError):  # a picture, which a full disk does not take
        tell(opened_run, status, last if last >= 0 else None, None, reason, following)


def _ends(options: argparse.Namespace, manifest: Loaded) -> loop.Ends:
    if options.count is not None and options.count < 1:
        raise GoalseekError(f"-n {options.count}: at least 1", "-n 10, or --forever")
    names = (manifest.manifest.metric.name, *(guard.name for guard in manifest.manifest.guard))
    try:
        seconds = units.seconds(options.duration) if options.duration else None
        until = limits.until(options.until, names) if options.until else None
    except ValueError as error:
        raise GoalseekError(str(error), "see: goalseek iterate --help") from None
    is_open = options.forever or seconds is not None or until is not None
    count = options.count if options.count is not None else None if is_open else 1
    return loop.Ends(count, seconds, until)
