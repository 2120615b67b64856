"""``iterate --detach``: the same command climbs on by itself, away from the terminal."""

from __future__ import annotations

import argparse
import sys
import time

from goalseek import process
from goalseek.cli.answer import answer, wants_json
from goalseek.lock import holder_pid
from goalseek.manifest_file import Loaded, ignore_home
from goalseek.opening import open_repository
from goalseek.state import read_state

_LINES_SHOWN = 20


def detach(options: argparse.Namespace, manifest: Loaded) -> int:
    """Starts it, and says how to watch once it climbs. Where it ends before that: what it said, and its code."""
    repository = open_repository(manifest)
    own = repository.own
    repository.close()
    ignore_home(manifest)
    log = manifest.logs / "detached.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    before = log.stat().st_size if log.exists() else 0
    arguments = [word for word in options.command_line if word != "--detach"]
    started = process.detach(arguments, log)
    while started.poll() is None:
        picture = read_state(manifest.logs / "state.json")
        if holder_pid(own) == started.pid and picture.get("pid") == started.pid:
            break
        time.sleep(0.02)
    code = started.poll()
    if code:
        with log.open("rb") as file:
            file.seek(before)
            said = file.read().decode("utf-8", "replace").splitlines()[-_LINES_SHOWN:]
        print("\n".join(said), file=sys.stderr)
        return code
    if wants_json(options):
        answer(options, {"pid": started.pid, "log": str(log), "ended": code is not None})
        return 0
    where = "has climbed and ended" if code == 0 else "climbs on, away from this terminal"
    print(f"process {started.pid} {where}; what it prints is in {log}")
    print("watch it: goalseek status, goalseek log --last 5; end it after its iteration: goalseek stop")
    return 0
