"""A person's word that a run shall end after its iteration: a small file beside the records, needing no lock.

It names the run and the process that holds the lock, so that one which came too late never ends another.
"""

from __future__ import annotations

import json
from pathlib import Path

from goalseek.limits import Stop
from goalseek.lock import holder_of
from goalseek.memory import write_durably

_NAME = "stop.json"


def ask_to_stop(logs: Path, own: Path, run_id: str) -> str | None:
    """Asks the run at work to stop; gives who holds its lock, or None where nothing is running.

    ``logs`` is where the records are, ``own`` the project's folder in the common git directory; ``run_id`` is the run
    that the records name, where none is about to begin.
    """
    holder = holder_of(own)
    if holder is None:
        return None
    request = {"run_id": pending_run(own) or run_id, "holder": holder}
    logs.mkdir(parents=True, exist_ok=True)
    write_durably(logs / _NAME, json.dumps(request).encode() + b"\n")
    return holder


def asked_to_stop(logs: Path, own: Path, run_id: str) -> Stop | None:
    """The end, where this run, at work in this process, was asked to. Whatever request there is, is then removed."""
    path = logs / _NAME
    try:
        request = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        request = None
    path.unlink(missing_ok=True)
    if request != {"run_id": run_id, "holder": holder_of(own)}:
        return None
    return Stop("asked", "goalseek stop asked for it", "the same command goes on")


def pending_run(own: Path) -> str:
    """The run that begins with the next iteration, or began last; "" where the project has none."""
    try:
        return (own / "run").read_text().strip()
    except OSError:
        return ""
