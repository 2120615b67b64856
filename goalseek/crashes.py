"""How the last candidates crashed: what the failed commands printed, as far as the agent may see it."""

from __future__ import annotations

from itertools import islice

from goalseek.memory import Memory
from goalseek.run import Run
from goalseek.standing import CRASHED, Standing


def crash_endings(run: Run, standing: Standing) -> list[str]:
    """The end of the output of each candidate in the present row of crashes, newest first.

    It is found in the evidence that its iteration stored; one that is gone, or printed nothing that may be shown, is
    left out.
    """
    if standing.crashes < 2:
        return []
    crashed = (record for record in run.recent if record.reason in CRASHED and record.epoch == standing.epoch)
    found = []
    for record in islice(crashed, standing.crashes):
        folder = run.loaded.runs / f"{record.iteration:04d}"
        evidence = Memory.value_of(folder, "evidence", run.seal) or {}
        failure = evidence.get("failure") or {}
        if failure.get("printed"):
            found.append(str(failure["printed"]))
    return found
