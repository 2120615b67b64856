"""A person's word that a run shall end after its iteration: a small file beside the lock, which it does not need.

It names the process that holds the lock and since when, so that one which came too late never ends another run.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from goalseek.errors import LOCKED, GoalseekError
from goalseek.files import write_durably
from goalseek.locks import Holder, holder_of
from goalseek.own_folders import clear

if TYPE_CHECKING:
    from goalseek.values import Stop

_NAME = "stop.json"
_SAID_WITHIN = 1.0


def ask_to_stop(own: Path) -> Holder | None:
    """Asks the climb at work to stop; gives who holds the lock, or None where nobody does.

    ``own`` is the project's folder in the common git directory, which all its worktrees share. Raises GoalseekError
    where the holder does not look for such a request.
    """
    until = time.monotonic() + _SAID_WITHIN
    while (holder := holder_of(own)) and not holder.pid and time.monotonic() < until:
        time.sleep(0.02)
    if holder is None:
        return None
    if not holder.is_climbing:
        named = f"goalseek {holder.doing}" if holder.doing else "another command"
        ends = "it ends by itself; at once" if holder.doing else "another version of goalseek began it; to end it"
        hint = f"{ends}: {holder.way_to_end}" if holder.pid else "try again"
        raise GoalseekError(f"{named} is at work, which no request to stop reaches: {holder}", hint, LOCKED)
    write_durably(own / _NAME, _request_for(holder))
    return holder


def asked_to_stop(own: Path) -> Stop | None:
    """The end, where the run at work in this process was asked to. Whatever request there is, is then removed."""
    path = own / _NAME
    try:
        request = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        request = b""
    clear(path)
    holder = holder_of(own)
    if holder is None or request != _request_for(holder):
        return None
    from goalseek.values import Stop

    return Stop("asked", "goalseek stop asked for it", "the same command goes on")


def _request_for(holder: Holder) -> bytes:
    return json.dumps({"holder": str(holder)}).encode() + b"\n"


def pending_run(own: Path) -> str:
    """The run that begins with the next iteration, or began last; "" where the project has none."""
    try:
        return (own / "run").read_text().strip()
    except OSError:
        return ""
