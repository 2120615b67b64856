"""The watch over the program of a call: what ends it before its own timeout, and how long it has printed nothing."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable

from goalseek.errors import LimitReached
from goalseek.humanize import format_duration, format_moment
from goalseek.manifest.tables import Limits
from goalseek.process import seconds_with_sleep
from goalseek.project.limits import find_limit, has_spending_limit, seconds_to_deadline
from goalseek.project.picture import SILENT_SECONDS
from goalseek.project.project import PAUSE_SECONDS, Project
from goalseek.project.stop import STOPPABLE_SECONDS, take_stop_request
from goalseek.proposal.usage import UsageLog
from goalseek.sandbox.supervisor import HeadAndTail
from goalseek.values import Phase, Stop, StopReason, Usage

LOOK_SECONDS = 3.0
_LOOKS_SHARE = 0.02  # of the time, at most, is spent on reading what the program has used


class CallWatch:
    """Watches one program, from now on; ``stop`` is why it was ended, None as long as it was not.

    It is ended once ``--for``, the deadline or a budget is over, where ``goalseek stop`` asks for it after
    ``STOPPABLE_SECONDS`` of silence, and where it ``is_waiting``: it printed the pattern ``waits``, and no row of JSON
    for ``SILENT_SECONDS`` after it. ``usage_log`` knows what others spend beside it. ``read_usage`` gives what it has
    used, by its standard output; that is read where a limit depends on it, and shown to the others.
    """

    def __init__(
        self,
        project: Project,
        limits: Limits,
        usage_log: UsageLog,
        read_usage: Callable[[bytes], Usage],
        waits: str = "",
    ) -> None:
        self.stop: Stop | None = None
        self.is_waiting = False
        self._waits = re.compile(waits.encode()) if waits else None
        self._waits_since = math.inf
        self._project = project
        self._limits = limits
        self._usage_log = usage_log
        self._read_usage = read_usage
        self._standing = usage_log.standing()
        self._looked_at = self._printed_at = time.monotonic()
        self._next_look = self._looked_at + LOOK_SECONDS if has_spending_limit(limits) else math.inf

    def note_output(self, chunk: bytes) -> None:
        """Notes what the program prints now."""
        self._printed_at = time.monotonic()
        if self._waits and self._waits.search(chunk, chunk.rfind(b"\n{") + 1):
            self._waits_since = self._printed_at
        elif chunk.startswith(b"{") or b"\n{" in chunk:
            self._waits_since = math.inf

    def must_end(self, stdout: HeadAndTail) -> bool:
        """Whether the program has to end now; shows its silence."""
        now = time.monotonic()
        if now >= self._next_look:
            self._usage_log.running = self._read_usage(stdout.content())
            self._standing, self._looked_at = self._usage_log.standing(), now
            seconds = time.monotonic() - now
            self._next_look = now + max(LOOK_SECONDS, seconds / _LOOKS_SHARE)
        silence = now - self._printed_at
        self._project.activity.show_silence(format_moment(-silence) if silence >= SILENT_SECONDS else "")
        ends_at = self._project.ends_at
        if ends_at is not None and now >= ends_at:
            self.stop = Stop(StopReason.FOR, "the time of --for is over", "the same command goes on")
        else:  # any call may spend as much as a review
            spent, moment = self._standing.spending(now - self._looked_at, Usage()), self._project.activity.clock.now()
            self.stop = find_limit(Phase.REVIEW, self._limits, spent, moment)
        if self.stop is None and silence >= STOPPABLE_SECONDS:
            self.stop = take_stop_request(self._project.repository.own)
        self.is_waiting = self.stop is None and now - self._waits_since >= SILENT_SECONDS
        return self.is_waiting or self.stop is not None

    def close(self) -> None:
        """Notes that the program has ended, and is silent no more."""
        self._usage_log.running = Usage()
        self._project.activity.show_silence("")


def wait(project: Project, limits: Limits, seconds: float, why: str) -> bool:
    """Waits so many seconds and gives True; gives False at once where deadline or invocation end before that.

    It is no active time, which ``limits.time`` would bound. Raises LimitReached where a person asks the run to stop.
    """
    ends = [seconds_to_deadline(limits, project.activity.clock.now())]
    ends.append(None if project.ends_at is None else project.ends_at - time.monotonic())
    if any(remaining is not None and seconds > remaining for remaining in ends):
        return False
    end, duration = seconds_with_sleep() + seconds, format_duration(seconds)
    with project.activity.waiting(f"{why}; waits until {format_moment(seconds)}, {duration} in all"):
        while (remaining := end - seconds_with_sleep()) > 0:
            if stop := take_stop_request(project.repository.own):
                raise LimitReached(stop)
            project.pause(min(PAUSE_SECONDS, remaining))
    project.activity.note_wait(why, seconds)
    return True
