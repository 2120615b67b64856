"""A person's word that a run shall end after its iteration: a small file beside the records, needing no lock.

It names the process that holds the lock and since when, so that one which came too late never ends another run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from goalseek.beneath import clear
from goalseek.lock import holder_of
from goalseek.memory import write_durably

if TYPE_CHECKING:
    from goalseek.limits import Stop

_NAME = "stop.json"


def ask_to_stop(logs: Path, own: Path) -> str | None:
    """Asks the run at work to stop; gives who holds its lock, or None where nothing is running.

    ``logs`` is where the records are, ``own`` the project's folder in the common git directory.
    """
    holder = holder_of(own)
    if holder is None:
        return None
    logs.mkdir(parents=True, exist_ok=True)
    write_durably(logs / _NAME, json.dumps({"holder": holder}).encode() + b"\n")
    return holder


def asked_to_stop(logs: Path, own: Path) -> Stop | None:
    """The end, where the run at work in this process was asked to. Whatever request there is, is then removed."""
    path = logs / _NAME
    try:
        request = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        request = None
    clear(path)
    if request != {"holder": holder_of(own)}:
        return None
    from goalseek.limits import Stop

    return Stop("asked", "goalseek stop asked for it", "the same command goes on")


def pending_run(own: Path) -> str:
    """The run that begins with the next iteration, or began last; "" where the project has none."""
    try:
        return (own / "run").read_text().strip()
    except OSError:
        return ""
