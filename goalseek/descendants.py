"""All that descends from a program: found by a mark in its environment, wherever it hangs in the tree, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from subprocess import Popen

TOKEN = "GOALSEEK_PROCESS"


@dataclass(frozen=True)
class Family:
    """What marks a program and its descendants: the token in their environment, and when the first was started."""

    token: str
    since: int


def ticks_since_boot() -> int:
    """Now, as the kernel dates processes; a tick early, so that nothing started after this is older."""
    try:
        return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1
    except (AttributeError, OSError, ValueError):
        return 0


def end(child: Popen[bytes], family: Family, grace: float) -> int:
    """Ends the child and all that descends from it; gives how many had to be ended.

    SIGTERM first; what is left after ``grace`` seconds gets SIGKILL. Returns when none is left.
    """
    left = living(child, family)
    for pid in left:
        _send(pid, signal.SIGTERM)
    deadline, pause = time.monotonic() + grace, 0.001
    while left and time.monotonic() < deadline and living(child, family):
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    while left and (stubborn := living(child, family)):
        for pid in stubborn:
            _send(pid, signal.SIGKILL)
        time.sleep(0.005)
    child.wait()
    return len(left)


def living(child: Popen[bytes], family: Family) -> list[int]:
    """The processes of a family that still run.

    A process that is older than the child cannot descend from it, so its environment need not be read.
    """
    found = [] if child.poll() is not None else [child.pid]
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        return _living_group(child)
    own = os.getpid()
    for name in names:
        if not name.isdigit() or int(name) in found or int(name) == own:
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            session, started = _session_and_start(name)
            if session == child.pid or (started >= family.since and _carries(name, family.token)):
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


def _living_group(child: Popen[bytes]) -> list[int]:
    """Where there is no /proc: the process group alone."""
    try:
        os.killpg(child.pid, 0)
    except (ProcessLookupError, PermissionError):
        return []
    return [-child.pid]


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
