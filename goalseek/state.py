"""``state.json``: a picture of the run for people and dashboards, never read to decide."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from goalseek.manifest import Limits
from goalseek.plain import to_plain
from goalseek.standing import Mark, Standing


@dataclass(frozen=True)
class Moment:
    """What the picture shows beside the standing."""

    status: str
    run_id: str
    started_at: str
    iteration: int | None = None
    phase: str | None = None
    phase_started_at: str | None = None
    stop_reason: str | None = None
    ended_at: str | None = None
    next: str = ""


def write_state(path: Path, moment: Moment, standing: Standing, limits: Limits) -> None:
    """Replaces the picture. It is not worth an fsync."""
    picture: dict[str, Any] = {
        **to_plain(moment),
        "heartbeat_at": utc_now(),
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "best": _marked(standing.best),
        "incumbent": _marked(standing.incumbent),
        "spend": to_plain(standing.spend),
        "limits": to_plain(limits),
    }
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(picture) + "\n")
    temporary.replace(path)


def read_state(path: Path) -> dict[str, Any]:
    """The picture, or nothing where there is none."""
    try:
        picture = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return picture if isinstance(picture, dict) else {}


def utc_now() -> str:
    """Now, UTC, to the second."""
    return datetime.now(UTC).isoformat("T", "seconds").replace("+00:00", "Z")


def _marked(mark: Mark | None) -> dict[str, Any] | None:
    return {"iteration": mark.iteration, "value": mark.value, "commit": mark.commit} if mark else None
