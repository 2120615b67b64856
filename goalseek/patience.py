"""Waiting for a provider to answer again: it costs no iteration, shows its end, and never outlasts the run."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from goalseek.errors import LimitReached
from goalseek.humanize import in_words
from goalseek.manifest.tables import Limits
from goalseek.process import seconds_with_sleep
from goalseek.project.limits import seconds_left
from goalseek.project.project import Run
from goalseek.project.stop import asked_to_stop

_PAUSE = 0.1


def wait(run: Run, limits: Limits, seconds: float, why: str) -> bool:
    """Waits, and then says True; False at once where the run does not go on for so long.

    Raises LimitReached where a person asks the run to stop meanwhile.
    """
    left = seconds_left(limits, run.standing.of_run(run.run_id), run.clock.now())
    if run.ends_at is not None:
        rest = run.ends_at - time.monotonic()
        left = rest if left is None else min(left, rest)
    if left is not None and seconds > left:
        return False
    until = seconds_with_sleep() + seconds
    shown = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat("T", "seconds").replace("+00:00", "Z")
    with run.waiting(f"{why}; waits until {shown}, {in_words(seconds)} from now"):
        while (left := until - seconds_with_sleep()) > 0:
            if stop := asked_to_stop(run.repository.own):
                raise LimitReached(stop)
            run.picture.beat()
            time.sleep(min(_PAUSE, left))
    run.waited += (f"waited {in_words(seconds)}: {why}",)
    return True
