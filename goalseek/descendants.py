"""All that descends from a program: found by a mark in its environment, wherever it hangs in the tree, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass

TOKEN = "GOALSEEK_PROCESS"


@dataclass(frozen=True)
class Family:
    """What marks programs and their descendants: how the token in their environment begins, and a start time.

    ``since`` is in clock ticks since boot: who is older does not belong to it. ``session`` is that of its first
    program, whose members belong to it whatever became of their environment.
    """

    token: str
    since: int = 0
    session: int | None = None


def ticks_since_boot() -> int:
    """Now, as the kernel dates processes; a tick early, so that nothing started after this is older."""
    try:
        return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1
    except (AttributeError, OSError, ValueError):
        return 0


def end(family: Family, grace: float) -> int:
    """Ends a family; gives how many had to be ended.

    SIGTERM first; what is left after ``grace`` seconds gets SIGKILL. Returns when none is left.
    """
    left = living(family)
    for pid in left:
        _send(pid, signal.SIGTERM)
    deadline, pause = time.monotonic() + grace, 0.001
    while left and time.monotonic() < deadline and living(family):
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    while left and (stubborn := living(family)):
        for pid in stubborn:
            _send(pid, signal.SIGKILL)
        time.sleep(0.005)
    return len(left)


def living(family: Family) -> list[int]:
    """The processes of a family that still run; one that has ended but was not waited for does not."""
    found: list[int] = []
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        return _living_group(family)
    own = os.getpid()
    for name in names:
        if not name.isdigit() or int(name) == own:
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            session, started = _session_and_start(name)
            if session == family.session or (started >= family.since and _carries(name, family.token)):
                found.append(int(name))
    return found


def _session_and_start(name: str) -> tuple[int, int]:
    """Session and start time (clock ticks since boot) of a process that still runs. Raises ValueError for a zombie."""
    with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - read hundreds of times
        fields = file.read().rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):
        raise ValueError("ended")
    return int(fields[3]), int(fields[19])


def _carries(name: str, token: str) -> bool:
    with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123 - read hundreds of times
        return f"{TOKEN}={token}".encode() in file.read()


def _living_group(family: Family) -> list[int]:
    """Where there is no /proc: the process group alone."""
    if family.session is None:
        return []
    try:
        os.killpg(family.session, 0)
    except (ProcessLookupError, PermissionError):
        return []
    return [-family.session]


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
