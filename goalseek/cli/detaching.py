"""``iterate --detach``: the same command climbs on by itself, away from the terminal."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from goalseek import process
from goalseek.cli.answer import answer, wants_json
from goalseek.locks import holder_of
from goalseek.manifest.loading import Loaded, ignore_home, typed
from goalseek.project.opening import open_repository
from goalseek.project.preflight import refuse_missing_home
from goalseek.project.state_file import AT_WORK, read_state

_LINES_SHOWN = 20


def detach(options: argparse.Namespace, manifest: Loaded) -> int:
    """Starts it, and says how to watch once it climbs. Where it ends before that: what it said, and its code.

    One that has begun no phase yet does not climb: a limit that was reached before may end it at once.
    """
    repository = open_repository(manifest)
    own = repository.own
    repository.close()
    refuse_missing_home(manifest)
    ignore_home(manifest)
    log = manifest.logs / "detached.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    before = log.stat().st_size if log.exists() else 0
    arguments = [word for word in options.command_line if word != "--detach"]
    started = process.detach(arguments, log)
    while started.poll() is None:
        picture = read_state(manifest.state)
        is_at_work = picture.get("pid") == started.pid and picture.get("status") in AT_WORK
        if is_at_work and (holder := holder_of(own)) and holder.pid == started.pid:
            break
        time.sleep(0.02)
    code, picture = started.poll(), read_state(manifest.state)
    if code:
        print(_said(log, before), file=sys.stderr)
        return code
    if wants_json(options):
        told = {"stop_reason": picture.get("stop_reason"), "next": picture.get("next")} if code == 0 else {}
        answer(options, {"pid": started.pid, "log": str(log), "ended": code is not None, **told})
        return 0
    if code == 0:
        print(f"process {started.pid} has ended already; it printed, and {log} has it:\n{_said(log, before)}")
        return 0
    print(f"process {started.pid} climbs on, away from this terminal; what it prints is in {log}")
    words = "watch it: goalseek status, goalseek log --last 5; end it after its iteration: goalseek stop"
    print(typed(words, options.manifest))
    return 0


def _said(log: Path, before: int) -> str:
    """The last lines that it printed."""
    with log.open("rb") as file:
        file.seek(before)
        return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-_LINES_SHOWN:])
