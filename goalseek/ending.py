"""The end of an invocation, whatever brings it: the watch is told, and ``state.json`` shows it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from goalseek.disk import as_machine_fault
from goalseek.errors import USAGE, GoalseekError, Interrupted
from goalseek.last_line import last_line
from goalseek.manifest.loading import typed
from goalseek.project.project import Run, tell
from goalseek.values import EXIT_CODES, Stop

_GO_ON = "the same command goes on"
_STATUS = {0: "completed", 1: "failed", 3: "blocked", 5: "blocked", 70: "failed"}


@contextlib.contextmanager
def told_at_the_end(run: Run) -> Iterator[None]:
    """Around a climb. What the machine refuses leaves it as a GoalseekError, such as one with the stop reason ``disk``.

    What ends it early tells its last line where something was recorded meanwhile.
    """
    begun = run.standing.seq
    try:
        yield
    except GeneratorExit:
        _leave(run, "completed", Stop("asked", "the caller asked for no more", _GO_ON))
        raise
    except (KeyboardInterrupt, Interrupted):
        stop = Stop("interrupted", "interrupted by a signal", _GO_ON)
        _leave(run, "interrupted", stop)
        _failed(run, stop, begun)
        raise
    except GoalseekError as error:
        _blocked(run, error, begun)
        raise
    except Exception as error:
        fault = as_machine_fault(error)
        if fault:
            _blocked(run, fault, begun)
            raise fault from error
        stop = Stop("bug", f"a bug: {type(error).__name__}: {error}", "please report it")
        _leave(run, "failed", stop)
        _failed(run, stop, begun)
        raise
    stop = run.stop or Stop("count", "done")
    stop = _typed(run, replace(stop, line=last_line(run.standing, run.loaded.manifest)))
    _leave(run, _STATUS[EXIT_CODES[stop.reason]], stop)
    run.watch.stopped(stop)


@contextlib.contextmanager
def shown_at_the_end(run: Run) -> Iterator[None]:
    """Around a baseline that is asked for: only ``state.json`` shows how it ended."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted):
        _leave(run, "interrupted", Stop("interrupted", "interrupted by a signal", _GO_ON))
        raise
    except GoalseekError as error:
        _leave_as(run, error)
        raise
    _leave(run, "completed", _typed(run, Stop("count", "done", "goalseek iterate goes on")))


def _blocked(run: Run, error: GoalseekError, begun: int) -> None:
    _failed(run, _leave_as(run, error), begun)


def _leave_as(run: Run, error: GoalseekError) -> Stop:
    """Leaves the last picture of an error, and gives its end. A usage error has none: the one before stays."""
    stop = _typed(run, Stop(error.stop_reason, error.message, error.hint))
    if error.exit_code != USAGE or run.picture.is_shown:
        _leave(run, _STATUS.get(error.exit_code, "failed"), stop)
    return stop


def _failed(run: Run, stop: Stop, begun: int) -> None:
    line = last_line(run.standing, run.loaded.manifest) if run.standing.seq > begun else ""
    run.watch.failed(_typed(run, replace(stop, line=line)))


def _typed(run: Run, stop: Stop) -> Stop:
    """With the manifest named in what is to be typed, where it needs to be."""
    path = run.loaded.path
    return replace(stop, next=typed(stop.next, path), line=typed(stop.line, path))


def _leave(run: Run, status: str, stop: Stop) -> None:
    """The last picture; where the disk is full, the one before stays."""
    if run.standing.seq < 0:
        return
    last = run.standing.last_iteration
    with contextlib.suppress(OSError):
        tell(run, status, last if last >= 0 else None, None, stop.reason, stop.next)
