"""Which budgets a run was warned of: a small file, so that a loop by cron, an iteration a tick, says each but once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

_NAME = "warned.json"


def not_said_yet(logs: Path, run_id: str, told: Mapping[str, str]) -> list[str]:
    """The sentences that this run was not told; from now on it was. ``told`` are all that hold now, by their budget."""
    path = logs / _NAME
    before = _said(path, run_id)
    if before != set(told) and logs.is_dir():
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps({"run_id": run_id, "budgets": sorted(told)}) + "\n")
        temporary.replace(path)
    return [text for budget, text in told.items() if budget not in before]


def _said(path: Path, run_id: str) -> set[str]:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        said = json.loads(path.read_text())
        return set(said["budgets"]) if said["run_id"] == run_id else set()
    return set()
