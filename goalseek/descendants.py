"""Programs that carry a mark in their environment, found wherever they hang in the tree, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time

TOKEN = "GOALSEEK_PROCESS"


def end_marked(token: str, grace: float) -> int:
    """Ends the programs whose mark begins with ``token``; gives how many there were.

    SIGTERM first; what is left after ``grace`` seconds gets SIGKILL. Returns when none is left. Where there is no
    /proc to look in, none is found.
    """
    left = living(token)
    for pid in left:
        _send(pid, signal.SIGTERM)
    wait_for(token, grace if left else 0.0)
    while left and (stubborn := living(token)):
        for pid in stubborn:
            _send(pid, signal.SIGKILL)
        time.sleep(0.005)
    return len(left)


def wait_for(token: str, seconds: float) -> None:
    """Waits until none of the marked programs is left, but no longer than so many seconds."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while time.monotonic() < deadline and living(token):
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def living(token: str) -> list[int]:
    """The marked programs that still run; one that has ended but was not waited for does not."""
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        return []
    mark, own = f"{TOKEN}={token}".encode(), os.getpid()
    found: list[int] = []
    for name in names:
        if not name.isdigit() or int(name) == own:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123 - hundreds
            # That of a zombie is empty.
            if any(variable.startswith(mark) for variable in file.read().split(b"\0")):
                found.append(int(name))
    return found


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
